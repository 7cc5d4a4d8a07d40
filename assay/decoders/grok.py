"""Grok CLI (1.0.41): its native stream (`--output-format streaming-json`) and the envelope that it shares with Claude.

The native one is what Assay launches: calls appear when they are made, usage comes with every response, and reasoning
is counted. It has no first line; the session id is on the last one alone. Neither stream announces retries.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from assay.decoders.ends import Calls, Deltas, error_kind, last_words, without_last_word
from assay.decoders.envelope import blocks, said, title
from assay.decoders.lines import Record, count, items, loads, money, obj, records, string
from assay.model.events import Event, Exit, Facts, Note, Progress, Started, Text, Thinking, ToolCall, ToolResult
from assay.model.outcome import Ending, Tokens

LIMIT = re.compile(
    r"run out of credits|included free usage|free-usage-exhausted|exhausted|too many requests|spending limit"
    r"|used all available credits",
    re.IGNORECASE,
)
"""A 429 carries the API's own words and no status, a 402 or 403 the status as well."""

NOT_RUN = re.compile(r"Couldn't set model|unknown effort level")
FULL = re.compile(r"maximum prompt length")
STATUS = re.compile(r'"http_status": (\d{3})')
MESSAGE = re.compile(r'"message": "((?:[^"\\]|\\.)*)"')
KINDS = {"401": "auth", "403": "auth", "404": "model", "429": "rate"}
MAX_TURNS = "the maximum number of turns is reached"
TITLES = ("command", "file_path", "target_file", "target_directory", "pattern", "query", "path", "description")
"""Arguments that a reader wants to see, the most telling first."""


@dataclass(slots=True)
class _Stream:
    """What was seen so far."""

    facts: Facts = field(default_factory=Facts)
    calls: Calls = field(default_factory=Calls)
    deltas: Deltas = field(default_factory=Deltas)
    thought: bool = False
    answer: io.StringIO = field(default_factory=io.StringIO)
    over: bool = False

    def delta(self, text: str, *, thought: bool) -> Iterable[Event]:
        before: tuple[Event, ...] = ()
        if thought != self.thought:
            before = self.flush()
            self.thought = thought
        if not thought:
            if self.over:
                self.answer = io.StringIO()
                self.over = False
            self.answer.write(text)
        return (*before, *self.flush()) if self.deltas.add(text) else before

    def flush(self) -> tuple[Event, ...]:
        text = self.deltas.take()
        if not text:
            return ()
        return (Thinking(text),) if self.thought else (Text(text),)

    def tool_call(self, record: Record) -> Iterator[Event]:
        self.over = True
        id_, name, given = string(record.get("toolCallId")), string(record.get("toolName")), obj(record.get("rawInput"))
        if self.calls.start(name, id_):
            yield ToolCall(name, title(given, TITLES), id_, given)

    def tool_update(self, record: Record) -> Iterator[Event]:
        status = record.get("status")
        if status not in ("completed", "failed"):
            return
        id_ = string(record.get("toolCallId"))
        text, ok = _outcome(record.get("rawOutput"), failed=status == "failed")
        self.calls.end(id_, ok=ok)
        yield ToolResult(text or _content(record.get("content")), ok, id_)

    def spent(self, record: Record) -> tuple[Event, ...]:
        tokens, before = _tokens(obj(record.get("usage"))), self.facts.tokens
        if tokens.input or tokens.output or tokens.cached or tokens.cache_write:
            self.facts.tokens = tokens if before is None else before + tokens
            return (Progress(self.facts.tokens),)
        return ()

    # -- the native stream

    def plan(self, record: Record) -> Iterator[Event]:
        entries = [obj(entry) for entry in items(record.get("entries"))]
        steps = "; ".join(f"[{string(entry.get('status'))}] {string(entry.get('content'))}" for entry in entries)
        yield Note(f"plan: {steps}")

    def max_turns(self, _: Record) -> Iterator[Event]:
        self.facts.terminal, self.facts.reason = "max_turns_reached", MAX_TURNS
        return iter(())

    def end(self, record: Record) -> Iterator[Event]:
        facts = self.facts
        if record.get("type") == "error":
            facts.terminal = "error"
            facts.reason = string(record.get("message"))
        else:
            facts.terminal = facts.terminal or string(record.get("stopReason")) or "end"
        facts.session = string(record.get("sessionId")) or facts.session
        facts.turns = count(record.get("num_turns"))
        facts.cost_usd = money(record.get("total_cost_usd")) or None
        models = list(obj(record.get("modelUsage")))
        facts.model = models[0] if len(models) == 1 else None
        if (tokens := _tokens(obj(record.get("usage")))).total:
            facts.tokens = tokens
        yield _last(facts)

    # -- the envelope

    def system(self, record: Record) -> Iterator[Event]:
        facts = self.facts
        if record.get("subtype") != "init":
            yield Note(f"event system/{string(record.get('subtype'))}")
            return
        facts.session = string(record.get("session_id")) or None
        facts.model = string(record.get("model")) or None
        facts.tools_offered = tuple(string(tool) for tool in items(record.get("tools")))
        yield Started(facts.session or "", facts.model or "", tools=facts.tools_offered)

    def assistant(self, record: Record) -> list[Event]:
        events: list[Event] = []
        for block in blocks(record):
            event = said(block, titles=TITLES)
            if isinstance(event, ToolCall):
                self.over = True
                self.calls.start(event.name, event.id)
            elif isinstance(event, Text):
                self.answer = io.StringIO()
                self.answer.write(event.text)
            if event is not None:
                events.append(event)
        # A response may come as several frames; all but one of them say 0.
        events += self.spent(obj(record.get("message")))
        return events

    def user(self, record: Record) -> list[Event]:
        events: list[Event] = []
        for block in blocks(record):
            if block.get("type") != "tool_result":
                continue
            id_ = string(block.get("tool_use_id"))
            raw = _unpacked(string(block.get("content")))
            text, ok = _outcome(raw, failed=block.get("is_error") is True)
            self.calls.end(id_, ok=ok)
            events.append(ToolResult(text or _content(raw), ok, id_))
        return events

    def result(self, record: Record) -> Iterator[Event]:
        facts = self.facts
        facts.terminal = string(record.get("subtype")) or "result"
        if facts.terminal == "error_during_execution" and record.get("stop_reason") == "cancelled":
            facts.terminal = "cancelled"
        facts.session = string(record.get("session_id")) or facts.session
        facts.turns = count(record.get("num_turns"))
        # Never absent: 0 where the API states no cost.
        facts.cost_usd = money(record.get("total_cost_usd")) or None
        facts.reason = "; ".join(string(error) for error in items(record.get("errors")))
        if (tokens := _tokens(obj(record.get("usage")))).total:
            facts.tokens = tokens
        yield _last(facts)


def decode(lines: Iterable[bytes]) -> Generator[Event, None, Facts]:
    """Yield events for the lines of either stream; return what they state."""
    stream = _Stream()
    facts = stream.facts
    facts.tool_calls = stream.calls.uses
    takes: dict[str, Callable[[Record], Iterable[Event]]] = {
        "tool_call": stream.tool_call, "tool_call_update": stream.tool_update, "usage": stream.spent,
        "plan": stream.plan, "max_turns_reached": stream.max_turns, "end": stream.end, "error": stream.end,
        "system": stream.system, "assistant": stream.assistant, "user": stream.user, "result": stream.result,
    }  # fmt: skip
    for record in records(lines):
        if isinstance(record, Note):
            yield record
            continue
        kind = record.get("type")
        if kind == "text":
            yield from stream.delta(string(record.get("data")), thought=False)
            continue
        if kind == "thought":
            yield from stream.delta(string(record.get("data")), thought=True)
            continue
        if kind == "available_commands":
            # Said again and again, also between two pieces of one text.
            offered = tuple(string(tool) for tool in items(record.get("tools")))
            if offered != facts.tools_offered:
                facts.tools_offered = offered
                yield Started(tools=offered)
            continue
        yield from stream.flush()
        take = takes.get(string(kind))
        if take is None:
            yield Note(f"event {kind}")
        else:
            yield from take(record)
    yield from stream.flush()
    facts.text = stream.answer.getvalue()
    return facts


def conclude(facts: Facts, exit_: Exit) -> Facts:
    """Add the ending: exit code 0 is also given for a turn that was cancelled for want of a permission."""
    words = last_words(exit_.stderr)
    if facts.terminal in ("end_turn", "success") and (exit_.code in (0, None) or exit_.stopped):
        return replace(facts, ending=Ending.FINISHED)
    if facts.terminal is None and exit_.stopped:
        return without_last_word(facts, exit_, words)
    message = facts.reason or words
    plain = _plain(message)
    if "max turns reached" in message or facts.terminal in ("max_turns_reached", "error_max_turns"):
        return replace(facts, ending=Ending.GAVE_UP, reason=MAX_TURNS)
    if "max_tokens_truncation" in message or FULL.search(message):
        return replace(facts, ending=Ending.GAVE_UP, reason=plain)
    if facts.terminal == "cancelled":
        reason = "a tool call was cancelled, and the turn with it: the CLI was not allowed to run it"
        return replace(facts, ending=Ending.CRASHED, reason=reason)
    if NOT_RUN.search(message) or (facts.terminal is None and "Unauthorized (401)" not in message):
        return without_last_word(facts, exit_, plain)
    status = STATUS.search(message)
    if LIMIT.search(message) or (status and status[1] == "402"):
        return replace(facts, ending=Ending.SESSION_LIMIT, reason=plain)
    kind = _kind(status[1]) if status else error_kind(message)
    return replace(facts, ending=Ending.API_ERROR, error_kind=kind, reason=plain)


def _kind(status: str) -> str:
    return KINDS.get(status, "server" if status.startswith("5") else "other")


def _plain(message: str) -> str:
    """An error's own words: API errors come as a JSON object in a text."""
    found = MESSAGE.search(message)
    if not found:
        return message
    try:
        return str(loads(f'"{found[1]}"'))
    except ValueError:
        return message


def _outcome(raw: object, *, failed: bool) -> tuple[str, bool | None]:
    """Text and success of a tool's raw output. A command that fails has still completed: its exit code tells."""
    output = obj(raw)
    if output.get("type") == "BackgroundTaskStarted":
        return string(output.get("summary")), None
    code = output.get("exit_code") if output.get("type") == "Bash" else 0
    return _text(output), not failed and code == 0


_TEXTS = ("output", "stdout", "tool_output_for_prompt", "summary_for_prompt", "content", "output_for_prompt")


def _text(value: Any) -> str:
    """What a person would read of a tool's raw output, whatever its shape."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        try:
            return bytes(value).decode("utf-8", "replace")
        except (TypeError, ValueError):
            return ""
    if not isinstance(value, dict):
        return ""
    for key in _TEXTS:
        if text := _text(value.get(key)):
            return text
    return next((text for key, part in value.items() if key != "type" and (text := _text(part))), "")


def _content(content: object) -> str:
    texts = [string(obj(obj(part).get("content")).get("text")) for part in items(content)]
    return "\n".join(text for text in texts if text)


def _tokens(usage: Record) -> Tokens:
    """Input excludes cached tokens; reasoning is inside the output, and only the native stream counts it."""
    return Tokens(
        count(usage.get("input_tokens")),
        count(usage.get("cache_read_input_tokens")),
        count(usage.get("cache_creation_input_tokens")),
        count(usage.get("output_tokens")),
        count(usage.get("reasoning_tokens")),
    )


def _last(facts: Facts) -> Note:
    if facts.terminal in ("end_turn", "success"):
        return Note("success")
    return Note(_plain(facts.reason) or facts.terminal or "", "error")


_BYTES = '{"type":"Bash","output":['


def _unpacked(content: str) -> object:
    """A tool result is JSON in a text: the tool's raw output, or a list of contents where the tool failed."""
    try:
        if content.startswith(_BYTES):
            # The output is there as a list of bytes, which takes ten times as long to read, and again as a text.
            raw = obj(loads('{"type":"Bash",' + content[content.index("]", len(_BYTES)) + 2 :]))
            told = string(raw.get("output_for_prompt"))
            if told.startswith("exit: "):
                raw["output"] = told.partition("\n")[2]
                return raw
        return loads(content)
    except ValueError:
        return [{"content": {"text": content}}]
