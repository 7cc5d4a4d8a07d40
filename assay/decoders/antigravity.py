r"""Antigravity, `agy --output-format stream-json` (1.2.x): each step as it starts and ends, text as deltas.

Three events: `init`, `step_update`, `result`; unknown step types are to be expected. The exit code and `SUCCESS` tell
little: both are also given for a print timeout, and the kind of a failure is in the words of `result.error`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from assay.decoders.ends import Calls, Deltas, error_kind, last_words, without_last_word
from assay.decoders.envelope import title
from assay.decoders.lines import Record, count, items, obj, records, string
from assay.model.events import Event, Exit, Facts, Note, Progress, Started, Text, ToolCall, ToolResult
from assay.model.outcome import Ending, Tokens

QUOTA = re.compile(r"quota reached|exhausted your quota|credits balance is too low", re.IGNORECASE)
"""A bare `Resource has been exhausted (e.g. check quota).` is a short rate limit and not in here."""

RESETS_IN = re.compile(r"resets in (?=\d)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", re.IGNORECASE)
PRINT_TIMEOUT = re.compile(rb"^\[agy\] (print timeout[^\n]*)", re.MULTILINE)
TITLES = ("CommandLine", "AbsolutePath", "TargetFile", "DirectoryPath", "SearchPath", "Query", "query", "Url", "Prompt")
"""Parameters that a reader wants to see, the most telling first."""


@dataclass(slots=True)
class StreamFacts(Facts):
    """Facts with both counts of tokens that the stream gives."""

    steps: Tokens | None = None
    """Sum over this process's own model calls, None if one of them told nothing; `tokens` is what the result says of
    the whole conversation."""


@dataclass(slots=True)
class _Stream:
    """What was seen so far."""

    facts: StreamFacts = field(default_factory=StreamFacts)
    calls: Calls = field(default_factory=Calls)
    deltas: Deltas = field(default_factory=Deltas)
    answer: io.StringIO = field(default_factory=io.StringIO)
    open: bool = False
    """In a model call, whose tokens are told only at its end."""
    lost: bool = False
    """A model call broke off, and what it had spent was not told."""

    def step(self, step: Record) -> Iterable[Event]:
        kind = step.get("step_type")
        if kind == "agent_response":
            delta, usage, self.open = string(step.get("text_delta")), step.get("usage"), True
            if delta:
                self.answer.write(delta)
                full = self.deltas.add(delta)
                if not full and usage is None and step.get("state") == "ACTIVE":
                    return ()
            return self._said(step)
        return self._other(kind, step)

    def _said(self, step: Record) -> Iterator[Event]:
        """The end of what the model says, or of a piece that is large enough."""
        yield from self.flush()
        if spent := _tokens(obj(step.get("usage"))):
            self.open = False
            self.facts.steps = (self.facts.steps or Tokens()) + spent
            yield Progress(self.facts.steps)

    def _other(self, kind: object, step: Record) -> Iterator[Event]:
        yield from self.flush()
        if kind == "tool":
            yield from self._tool(step)
        elif kind == "error_message":
            # One per retry; it carries no text.
            self.lost |= self.open
            yield Note("the API gave an error", "warning")
        elif kind != "user_input" and step.get("state") != "ACTIVE":
            yield Note(f"step {kind}")

    def _tool(self, step: Record) -> Iterator[Event]:
        info = obj(step.get("tool_info"))
        id_ = str(step.get("step_index"))
        name = string(info.get("name")) or string(step.get("tool_name"))
        parameters = obj(info.get("parameters"))
        if self.calls.start(name, id_):
            yield ToolCall(name, title(parameters, TITLES), id_, parameters)
        state = step.get("state")
        if state in ("DONE", "ERROR"):
            ok = state == "DONE"
            self.calls.end(id_, ok=ok)
            output = string(info.get("output")).replace("\r\n", "\n")
            yield ToolResult(string(obj(info.get("error")).get("message")) or output, ok, id_)

    def result(self, result: Record) -> Iterator[Event]:
        yield from self.flush()
        facts = self.facts
        facts.terminal = string(result.get("status")) or "result"
        facts.session = string(result.get("conversation_id")) or facts.session
        facts.turns = count(result.get("num_turns"))
        facts.reason = string(result.get("error"))
        for action in items(result.get("denied_actions")):
            yield Note(f"denied: {string(obj(action).get('display_name'))}", "warning")
        facts.tokens = _tokens(obj(result.get("usage")))
        if facts.reason:
            yield Note(facts.reason, "error")
        else:
            yield Note(facts.terminal.lower())

    def flush(self) -> tuple[Event, ...]:
        text = self.deltas.take()
        return (Text(text),) if text else ()


def decode(lines: Iterable[bytes]) -> Generator[Event, None, Facts]:
    """Yield events for the lines of `agy --output-format stream-json`; return what they state."""
    stream = _Stream()
    facts = stream.facts
    facts.tool_calls = stream.calls.uses
    for record in records(lines):
        if isinstance(record, Note):
            yield record
            continue
        event = record.get("event")
        if event == "step_update":
            yield from stream.step(obj(record.get("step_update")))
        elif event == "init":
            init = obj(record.get("init"))
            facts.session = string(record.get("conversation_id")) or None
            facts.model = string(init.get("model")) or None
            facts.tools_offered = tuple(string(tool) for tool in items(init.get("tools")))
            yield Started(facts.session or "", facts.model or "", tools=facts.tools_offered)
        elif event == "result":
            yield from stream.result(obj(record.get("result")))
        else:
            yield from stream.flush()
            yield Note(f"event {event}")
    yield from stream.flush()
    if stream.open or stream.lost:
        # Less than all of it would pass for all.
        facts.steps = None
    facts.tokens = facts.tokens or facts.steps
    facts.text = stream.answer.getvalue()
    return facts


def conclude(facts: Facts, exit_: Exit) -> Facts:
    """Add the ending from the last result, its words, and what stderr says beside it."""
    words = last_words(exit_.stderr)
    if exit_.resumed and isinstance(facts, StreamFacts):
        # A result adds up the whole conversation, earlier runs included; the steps are this run's.
        facts = replace(facts, tokens=facts.steps)
    if facts.terminal is None:
        return without_last_word(facts, exit_, words)
    timeout = PRINT_TIMEOUT.search(exit_.stderr)
    if timeout:
        return replace(facts, ending=Ending.TIMEOUT, reason=timeout[1].decode("utf-8", "replace"))
    message = facts.reason or (words if facts.terminal != "SUCCESS" else "")
    if facts.terminal == "SUCCESS" and not message:
        return replace(facts, ending=Ending.FINISHED)
    facts = replace(facts, reason=message)
    if QUOTA.search(message):
        return replace(facts, ending=Ending.SESSION_LIMIT, reset_at=_reset_at(message, exit_.ended_at))
    if message == "interrupted" or facts.terminal == "INTERRUPTED":
        return replace(facts, ending=Ending.INTERRUPTED, reason="")
    return replace(facts, ending=Ending.API_ERROR, error_kind=error_kind(message))


def _reset_at(message: str, ended_at: datetime | None) -> datetime | None:
    found = RESETS_IN.search(message)
    if not found or ended_at is None:
        return None
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    try:
        return ended_at + timedelta(hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        return None


def _tokens(usage: Record) -> Tokens | None:
    """Cached tokens lie beside the input, thinking inside the output; all zero means unknown."""
    tokens = Tokens(
        input=count(usage.get("input_tokens")),
        cached=count(usage.get("cache_read_tokens")),
        output=count(usage.get("output_tokens")),
        reasoning=count(usage.get("thinking_tokens")),
    )
    return tokens if tokens.total else None
