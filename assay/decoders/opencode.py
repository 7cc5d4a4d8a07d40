"""opencode, `opencode run --format json` (1.18.33): whole parts of a message, and neither a first nor a last event.

The end is the reason of the last step, once the process has ended.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace

from assay.decoders.ends import Calls, error_kind, last_words, without_last_word
from assay.decoders.envelope import title
from assay.decoders.lines import Record, count, money, obj, records, string
from assay.model.events import Event, Exit, Facts, Note, Progress, Started, Text, Thinking, ToolCall, ToolResult
from assay.model.outcome import Ending, Tokens

GAVE_UP = {
    "length": "the limit of output tokens is reached",
    "content-filter": "the model refused",
    "ContextOverflowError": "the context is full",
    "MessageOutputLengthError": "the limit of output tokens is reached",
}
"""Reasons of a last step, or names of an error, that are the model's own doing."""

KINDS = {401: "auth", 402: "billing", 403: "auth", 404: "model", 429: "rate"}
TITLES = ("command", "filePath", "path", "pattern", "url", "query", "description", "prompt")
"""Arguments that a reader wants to see, the most telling first."""


@dataclass(slots=True)
class _Stream:
    """What was seen so far."""

    facts: Facts = field(default_factory=Facts)
    calls: Calls = field(default_factory=Calls)
    open: bool = False
    """In a step, whose tokens are told only at its end."""

    def tool(self, part: Record) -> Iterator[Event]:
        """A call comes once, when it is over."""
        state, id_, name = obj(part.get("state")), string(part.get("callID")), string(part.get("tool"))
        given = obj(state.get("input"))
        ok = state.get("status") == "completed"
        if name == "invalid":
            # What the CLI makes of a call to a tool that it had not offered.
            name, ok, given = string(given.get("tool")) or name, False, {}
        elif name == "bash" and (code := obj(state.get("metadata")).get("exit")) is not None:
            ok = ok and code == 0
        if self.calls.start(name, id_):
            yield ToolCall(name, title(given, TITLES), id_, given)
        self.calls.end(id_, ok=ok)
        yield ToolResult(string(state.get("error")) or string(state.get("output")), ok, id_)

    def finish(self, part: Record) -> Iterator[Event]:
        facts, self.open = self.facts, False
        facts.terminal = string(part.get("reason")) or "step"
        facts.turns = (facts.turns or 0) + 1
        tokens = obj(part.get("tokens"))
        cache = obj(tokens.get("cache"))
        facts.tokens = (facts.tokens or Tokens()) + _tokens(tokens, cache)
        # 0 where the configuration has no prices: unknown, then.
        if cost := money(part.get("cost")):
            facts.cost_usd = (facts.cost_usd or 0.0) + cost
        yield Progress(facts.tokens, facts.cost_usd)
        if facts.terminal != "tool-calls":
            yield Note("success" if facts.terminal == "stop" else facts.terminal)


def decode(lines: Iterable[bytes]) -> Generator[Event, None, Facts]:
    """Yield events for the lines of `opencode run --format json`; return what they state."""
    stream = _Stream()
    facts = stream.facts
    facts.tool_calls = stream.calls.uses
    for record in records(lines):
        if isinstance(record, Note):
            yield record
            continue
        if facts.session is None and (session := string(record.get("sessionID"))):
            facts.session = session
            yield Started(session)
        kind, part = record.get("type"), obj(record.get("part"))
        if kind == "tool_use":
            yield from stream.tool(part)
        elif kind == "text":
            facts.text = string(part.get("text"))
            yield Text(facts.text)
        elif kind == "reasoning":
            yield Thinking(string(part.get("text")))
        elif kind == "step_finish":
            yield from stream.finish(part)
        elif kind == "step_start":
            facts.terminal, facts.reason, facts.error_kind = None, "", ""
            stream.open = True
        elif kind == "error":
            _error(facts, obj(record.get("error")))
            yield Note(facts.reason, "error")
        else:
            yield Note(f"event {kind}")
    if stream.open:
        # What the step in progress has spent is nowhere: less than all of it would pass for all.
        facts.tokens = facts.cost_usd = None
    return facts


def conclude(facts: Facts, exit_: Exit) -> Facts:
    """Add the ending: the last step's reason, an error event, or neither."""
    if facts.terminal == "stop" and (exit_.code in (0, None) or exit_.stopped):
        return replace(facts, ending=Ending.FINISHED)
    if facts.terminal in GAVE_UP:
        return replace(facts, ending=Ending.GAVE_UP, reason=facts.reason or GAVE_UP[facts.terminal], error_kind="")
    if facts.terminal == "MessageAbortedError":
        return replace(facts, ending=Ending.INTERRUPTED, reason="", error_kind="")
    if facts.error_kind:
        return replace(facts, ending=Ending.API_ERROR)
    return without_last_word(facts, exit_, last_words(exit_.stderr))


def _error(facts: Facts, error: Record) -> None:
    data = obj(error.get("data"))
    facts.terminal = string(error.get("name")) or "error"
    facts.reason = string(data.get("message")) or facts.terminal
    status = count(data.get("statusCode"))
    if status is None:
        facts.error_kind = "auth" if facts.terminal == "ProviderAuthError" else error_kind(facts.reason)
    else:
        facts.error_kind = KINDS.get(status, "server" if status >= 500 else "other")
    if "quota" in facts.reason or "insufficient_quota" in string(data.get("responseBody")):
        facts.error_kind = "billing"


def _tokens(tokens: Record, cache: Record) -> Tokens:
    """Input excludes what was read from the cache; reasoning lies beside the output."""
    output, reasoning = count(tokens.get("output")), count(tokens.get("reasoning"))
    if output is not None and reasoning:
        output += reasoning
    return Tokens(count(tokens.get("input")), count(cache.get("read")), count(cache.get("write")), output, reasoning)
