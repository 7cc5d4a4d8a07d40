"""Gemini CLI, `gemini -o stream-json` (0.61.0): messages as deltas, tools as a call and its result, one result."""

from __future__ import annotations

import io
import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace

from assay.decoders.ends import Calls, Deltas, error_kind, last_words, without_last_word
from assay.decoders.envelope import title
from assay.decoders.lines import Record, count, obj, records, string
from assay.model.events import Event, Exit, Facts, Note, Started, Text, ToolCall, ToolResult
from assay.model.outcome import Ending, Tokens

QUOTA = re.compile(r"exhausted your (daily )?quota|quota exceeded", re.IGNORECASE)
AUTH_EXIT, TURN_LIMIT_EXIT, CANCELLED_EXIT, DAILY_QUOTA_EXIT = 41, 53, 130, 173
"""Exit codes with a meaning of their own; 173 is HTTP 429 modulo 256."""

TITLES = ("command", "file_path", "absolute_path", "path", "dir_path", "pattern", "query", "prompt", "url")
"""Parameters that a reader wants to see, the most telling first."""

NOISE = ("YOLO mode is enabled", "Loaded cached credentials", "Warning: ", "Ripgrep is not available")


@dataclass(slots=True)
class StreamFacts(Facts):
    """Facts with the moment that tells this run's part of the session file from an earlier one's."""

    began: str = ""
    """As the stream writes it, in UTC."""


@dataclass(slots=True)
class _Stream:
    """What was seen so far."""

    facts: StreamFacts = field(default_factory=StreamFacts)
    calls: Calls = field(default_factory=Calls)
    deltas: Deltas = field(default_factory=Deltas)
    answer: io.StringIO = field(default_factory=io.StringIO)
    over: bool = False

    def message(self, record: Record) -> tuple[Event, ...]:
        if record.get("role") != "assistant":
            # The prompt comes back as the first message.
            return ()
        before: tuple[Event, ...] = ()
        text = string(record.get("content"))
        if self.over or not record.get("delta"):
            before = self.flush()
            self.answer = io.StringIO()
            self.over = False
        self.answer.write(text)
        return (*before, *self.flush()) if self.deltas.add(text) else before

    def tool_use(self, record: Record) -> Iterator[Event]:
        yield from self.flush()
        self.over = True
        id_, name = string(record.get("tool_id")), string(record.get("tool_name"))
        parameters = obj(record.get("parameters"))
        if self.calls.start(name, id_):
            yield ToolCall(name, title(parameters, TITLES), id_, parameters)

    def tool_result(self, record: Record) -> Iterator[Event]:
        yield from self.flush()
        id_ = string(record.get("tool_id"))
        ok = record.get("status") == "success"
        self.calls.end(id_, ok=ok)
        yield ToolResult(string(record.get("output")) or string(obj(record.get("error")).get("message")), ok, id_)

    def result(self, record: Record) -> Iterator[Event]:
        yield from self.flush()
        facts = self.facts
        facts.terminal = string(record.get("status")) or "result"
        stats = obj(record.get("stats"))
        facts.tokens = _tokens(stats)
        # The real name, also where an alias was asked for.
        models = list(obj(stats.get("models")))
        facts.model = models[0] if len(models) == 1 else facts.model
        error = obj(record.get("error"))
        facts.reason = string(error.get("message"))
        if facts.terminal == "success":
            yield Note("success")
        else:
            yield Note(facts.reason or facts.terminal, "error")

    def flush(self) -> tuple[Event, ...]:
        text = self.deltas.take()
        return (Text(text),) if text else ()


def decode(lines: Iterable[bytes]) -> Generator[Event, None, Facts]:
    """Yield events for the lines of `gemini -o stream-json`; return what they state."""
    stream = _Stream()
    facts = stream.facts
    facts.tool_calls = stream.calls.uses
    for record in records(lines):
        if isinstance(record, Note):
            yield record
            continue
        kind = record.get("type")
        if kind == "message":
            yield from stream.message(record)
        elif kind == "tool_use":
            yield from stream.tool_use(record)
        elif kind == "tool_result":
            yield from stream.tool_result(record)
        elif kind == "init":
            facts.session = string(record.get("session_id")) or None
            facts.began = string(record.get("timestamp"))
            # The name that was asked for: an alias stays an alias.
            facts.model = string(record.get("model")) or None
            yield Started(facts.session or "", facts.model or "")
        elif kind == "result":
            yield from stream.result(record)
        elif kind == "error":
            yield from stream.flush()
            yield Note(string(record.get("message")), "error" if record.get("severity") == "error" else "warning")
        else:
            yield from stream.flush()
            yield Note(f"event {kind}")
    yield from stream.flush()
    facts.text = stream.answer.getvalue()
    return facts


def conclude(facts: Facts, exit_: Exit) -> Facts:
    """Add the ending from the result and the exit code, which has more to say than with other CLIs."""
    if facts.terminal is None and exit_.session_file:
        facts = replace(facts, tokens=_kept_tokens(exit_.session_file, getattr(facts, "began", "")))
    words = last_words(exit_.stderr, NOISE)
    message = facts.reason or words
    if facts.terminal == "success" and (exit_.code in (0, None) or exit_.stopped):
        return replace(facts, ending=Ending.FINISHED, reason="")
    if QUOTA.search(message) or exit_.code == DAILY_QUOTA_EXIT:
        return replace(facts, ending=Ending.SESSION_LIMIT, reason=message)
    if exit_.code == TURN_LIMIT_EXIT:
        return replace(facts, ending=Ending.GAVE_UP, reason=message or "the maximum number of turns is reached")
    if exit_.code == AUTH_EXIT:
        return replace(facts, ending=Ending.API_ERROR, error_kind="auth", reason=message)
    if exit_.code == CANCELLED_EXIT and exit_.stopped:
        return replace(facts, ending=Ending.INTERRUPTED, reason="")
    if facts.terminal == "error":
        return replace(facts, ending=Ending.API_ERROR, error_kind=error_kind(message), reason=message)
    return without_last_word(facts, exit_, words)


def _tokens(stats: Record) -> Tokens | None:
    """`input_tokens` includes cached ones; thoughts are in the total alone. Side calls of the CLI are counted in."""
    given, said, total = (count(stats.get(key)) for key in ("input_tokens", "output_tokens", "total_tokens"))
    if not total:
        return None
    output = said if given is None else total - given
    reasoning = None if output is None or said is None else output - said
    return Tokens(count(stats.get("input")), count(stats.get("cached")), None, output, reasoning)


def _kept_tokens(session_file: bytes, began: str) -> Tokens | None:
    """What the model's answers of this run add up to; each is written when it comes, and again with its results."""
    spent: dict[str, Tokens] = {}
    for record in records(io.BytesIO(session_file)):
        if isinstance(record, Note) or record.get("type") != "gemini" or string(record.get("timestamp")) < began:
            continue
        tokens = obj(record.get("tokens"))
        given, cached, tool = (count(tokens.get(key)) for key in ("input", "cached", "tool"))
        said, thoughts = count(tokens.get("output")), count(tokens.get("thoughts"))
        if given is not None and said is not None:
            fresh = max(0, given - (cached or 0)) + (tool or 0)
            spent[string(record.get("id"))] = Tokens(fresh, cached, None, said + (thoughts or 0), thoughts)
    return sum(spent.values(), Tokens()) if spent else None
