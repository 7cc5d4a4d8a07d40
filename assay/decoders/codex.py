"""Codex, `codex exec --json` (0.171.0): items that start and complete, one turn per process.

What the stream alone does not tell comes from the session file (the rollout): the stream's usage is cumulative over
all resumes of a thread and missing for a run that failed or was killed, while the rollout has one record per API
response, written at once.
"""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from assay.decoders.ends import Calls, error_kind, last_words, without_last_word
from assay.decoders.lines import Record, count, items, obj, records, string
from assay.model.events import Event, Exit, Facts, Note, Started, Text, Thinking, ToolCall, ToolResult
from assay.model.outcome import Ending, Tokens

COMPLETED, FAILED = "turn.completed", "turn.failed"
NOISE = ("Reading additional input from stdin",)
"""Said on stderr whenever a prompt is read from standard input."""

_SHELL = "/bin/sh -lc "
_ESCAPED = re.compile(r"\\([\\\"$`])")
_BARE_QUOTE = re.compile(r'(?<!\\)(?:\\\\)*"')
_AGAIN_AT = re.compile(
    r"try again at (?:([A-Z][a-z]{2}) (\d{1,2})(?:st|nd|rd|th), (\d{4}) )?(\d{1,2}):(\d{2}) ([AP])M", re.IGNORECASE
)
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_ROLLOUT_LINES = (
    b'"session_meta"', b'"turn_context"', b'"token_usage_record"', b'"task_started"', b'"task_complete"',
)  # fmt: skip


@dataclass(slots=True)
class StreamFacts(Facts):
    """Facts with what `conclude` must know to tell this run's turn from an earlier one in the rollout."""

    begun: bool = False
    """Whether the turn began."""


@dataclass(slots=True)
class _Stream:
    """What was seen so far."""

    facts: StreamFacts = field(default_factory=StreamFacts)
    calls: Calls = field(default_factory=Calls)
    held: str = ""
    """An error that may come again as `turn.failed`, and is told once."""

    def turn(self, kind: str, record: Record) -> Iterator[Event]:
        facts = self.facts
        if kind == "thread.started":
            facts.session = string(record.get("thread_id")) or None
            yield Started(facts.session or "")
        elif kind == "turn.started":
            facts.begun = True
        elif kind == COMPLETED:
            facts.terminal, facts.reason = COMPLETED, ""
            facts.tokens = _tokens(obj(record.get("usage")))
            yield Note("success")
        elif kind == FAILED:
            self.held = ""
            facts.terminal = FAILED
            facts.reason = string(obj(record.get("error")).get("message")) or facts.reason
            yield Note(facts.reason, "error")
        else:
            yield Note(f"event {kind}: {_short(record)}")

    def error(self, message: str) -> Iterator[Event]:
        self.facts.reason = message
        if message.startswith("Reconnecting"):
            yield Note(message, "warning")
        else:
            self.held = message

    def release(self) -> Iterator[Event]:
        if self.held:
            yield Note(self.held, "warning")
            self.held = ""

    def item(self, item: Record, *, done: bool) -> Iterable[Event]:
        kind = item.get("type")
        if kind == "command_execution":
            return self._command(item, done=done)
        if kind == "agent_message":
            self.facts.text = string(item.get("text"))
            return (Text(self.facts.text),)
        if kind == "reasoning":
            return (Thinking(string(item.get("text"))),)
        if kind == "error":
            # Model metadata not found, fall-back to HTTP: the run goes on.
            return (Note(string(item.get("message")), "warning"),)
        if kind == "todo_list":
            return (Note(f"plan: {_plan(item)}"),) if done else ()
        if title := _TITLES.get(string(kind)):
            return self._call(item, *title(item), done=done)
        return (Note(f"item {kind}: {_short(item)}"),)

    def _command(self, item: Record, *, done: bool) -> Iterator[Event]:
        id_ = string(item.get("id"))
        if self.calls.start("command_execution", id_):
            yield ToolCall("command_execution", _unwrapped(string(item.get("command"))), id_)
        if done:
            ok = item.get("exit_code") == 0
            self.calls.end(id_, ok=ok)
            yield ToolResult(string(item.get("aggregated_output")), ok, id_)

    def _call(self, item: Record, name: str, title: str, *, done: bool) -> Iterator[Event]:
        id_ = string(item.get("id"))
        if self.calls.start(name, id_):
            yield ToolCall(name, title, id_, _input(item))
        if done:
            ok = _ok(item)
            self.calls.end(id_, ok=ok)
            yield ToolResult(_outcome(item), ok, id_)


def decode(lines: Iterable[bytes]) -> Generator[Event, None, Facts]:
    """Yield events for the lines of `codex exec --json`; return what they state."""
    stream = _Stream()
    facts = stream.facts
    facts.tool_calls = stream.calls.uses
    for record in records(lines):
        if isinstance(record, Note):
            yield record
            continue
        kind = record.get("type")
        if stream.held and kind != FAILED:
            yield from stream.release()
        if kind == "item.completed":
            yield from stream.item(obj(record.get("item")), done=True)
        elif kind in ("item.started", "item.updated"):
            yield from stream.item(obj(record.get("item")), done=False)
        elif kind == "error":
            yield from stream.error(string(record.get("message")))
        else:
            yield from stream.turn(string(kind), record)
    yield from stream.release()
    return facts


def conclude(facts: Facts, exit_: Exit) -> Facts:
    """Add the ending, and what the rollout knows: model, version, tokens of this run alone, the kind of a failure."""
    rollout = _Rollout.read(exit_.session_file, facts.session) if exit_.session_file and facts.session else _Rollout()
    facts = replace(
        facts,
        model=rollout.model or facts.model,
        effort=rollout.effort or facts.effort,
        cli_version=rollout.version or facts.cli_version,
        tokens=_own_tokens(facts, exit_, rollout),
    )
    if facts.terminal == COMPLETED:
        if exit_.code in (0, None) or exit_.stopped:
            return replace(facts, ending=Ending.FINISHED)
        reason = last_words(exit_.stderr, NOISE) or f"exit code {exit_.code} after a completed turn"
        return replace(facts, ending=Ending.CRASHED, reason=reason)
    if facts.terminal == FAILED:
        return _failed(facts, exit_, rollout)
    return without_last_word(facts, exit_, last_words(exit_.stderr, NOISE))


def _failed(facts: Facts, exit_: Exit, rollout: _Rollout) -> Facts:
    message = facts.reason
    # "You've" comes with U+2019 for its apostrophe.
    if "hit your usage limit" in message or rollout.failure == "usage_limit_exceeded":
        return replace(facts, ending=Ending.SESSION_LIMIT, reset_at=_again_at(message, exit_.ended_at))
    if "ran out of room in the model's context window" in message or "max_output_tokens" in message:
        return replace(facts, ending=Ending.GAVE_UP)
    return replace(facts, ending=Ending.API_ERROR, error_kind=error_kind(message))


def _again_at(message: str, ended_at: datetime | None) -> datetime | None:
    """The CLI prints wall time of its container, which is UTC; the date only if it is another day."""
    found = _AGAIN_AT.search(message)
    if not found:
        return None
    month, day, year, hour, minute, half = found.groups()
    hours, minutes = int(hour) % 12 + (12 if half.upper() == "P" else 0), int(minute)
    try:
        if month:
            return datetime(int(year), _MONTHS.index(month.title()) // 3 + 1, int(day), hours, minutes, tzinfo=UTC)
        return ended_at and ended_at.astimezone(UTC).replace(hour=hours, minute=minutes, second=0, microsecond=0)
    except ValueError:
        return None


def _own_tokens(facts: Facts, exit_: Exit, rollout: _Rollout) -> Tokens | None:
    # The rollout's last turn is an earlier run's if this one never began, or broke off while that one is complete.
    ours = facts.terminal is not None or (getattr(facts, "begun", True) and not rollout.complete)
    if ours and rollout.tokens is not None:
        return rollout.tokens
    # What a resumed stream counts includes the earlier runs of its thread, and how much that was is not said.
    return None if exit_.resumed else facts.tokens


@dataclass(slots=True)
class _Rollout:
    """What the session file tells of the thread's last turn.

    Attributes:
        complete: Whether that turn came to its own end.
        failure: The CLI's own word for why it failed.
    """

    model: str | None = None
    effort: str | None = None
    version: str | None = None
    tokens: Tokens | None = None
    complete: bool = False
    failure: str | None = None

    @classmethod
    def read(cls, data: bytes, thread: str) -> _Rollout:
        """Several files may follow each other: sub-agents have threads of their own under the same root turn."""
        rollout = cls()
        usages: dict[str, dict[str, Tokens]] = {}
        current, root = "", ""
        for record in records(line for line in io.BytesIO(data) if any(mark in line for mark in _ROLLOUT_LINES)):
            if isinstance(record, Note):
                continue
            payload = obj(record.get("payload"))
            kind = payload.get("type") if record.get("type") == "event_msg" else record.get("type")
            if kind == "session_meta":
                current = string(payload.get("id"))
                rollout.version = string(payload.get("cli_version")) or rollout.version
            elif kind == "token_usage_record":
                turn = usages.setdefault(string(payload.get("root_turn_id")), {})
                turn[string(payload.get("response_id"))] = _tokens(obj(payload.get("usage")))
            elif current != thread:
                continue
            elif kind == "task_started" and payload.get("turn_id") == payload.get("root_turn_id"):
                root = string(payload.get("turn_id"))
                rollout.complete, rollout.failure = False, None
            elif kind == "turn_context":
                rollout.model = string(payload.get("model")) or None
                rollout.effort = _effort(payload)
            elif kind == "task_complete" and payload.get("turn_id") == root:
                rollout.complete = True
                rollout.failure = string(obj(payload.get("error")).get("codex_error_info")) or None
        if root in usages:
            rollout.tokens = sum(usages[root].values(), Tokens())
        return rollout


def _effort(context: Record) -> str | None:
    settings = obj(obj(context.get("collaboration_mode")).get("settings"))
    return string(context.get("effort")) or string(settings.get("reasoning_effort")) or None


def _tokens(usage: Record) -> Tokens:
    """Codex counts cached tokens inside the input and reasoning inside the output."""
    given, cached, written = (
        count(usage.get(key)) for key in ("input_tokens", "cached_input_tokens", "cache_write_input_tokens")
    )
    fresh = None if given is None else max(0, given - (cached or 0) - (written or 0))
    return Tokens(
        fresh, cached, written, count(usage.get("output_tokens")), count(usage.get("reasoning_output_tokens"))
    )


def _unwrapped(command: str) -> str:
    """The command as the model wrote it: the CLI shows it quoted, behind `/bin/sh -lc`."""
    if command.startswith(_SHELL) and len(command) > len(_SHELL) + 1:
        quote, inner = command[len(_SHELL)], command[len(_SHELL) + 1 : -1]
        if command.endswith(quote):
            if quote == "'" and "'" not in inner:
                return inner
            if quote == '"' and not _BARE_QUOTE.search(inner):
                return _ESCAPED.sub(r"\1", inner)
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    return words[2] if len(words) == 3 and words[1] == "-lc" else command


def _plan(item: Record) -> str:
    steps = [obj(step) for step in items(item.get("items"))]
    return "; ".join(f"[{'x' if step.get('completed') else ' '}] {string(step.get('text'))}" for step in steps)


def _changes(item: Record) -> tuple[str, str]:
    changes = [obj(change) for change in items(item.get("changes"))]
    return "file_change", ", ".join(f"{string(c.get('kind'))} {string(c.get('path'))}" for c in changes)


def _search(item: Record) -> tuple[str, str]:
    return "web_search", string(item.get("query"))


def _mcp(item: Record) -> tuple[str, str]:
    return f"{string(item.get('server'))}.{string(item.get('tool'))}", _short(item.get("arguments"))


def _collab(item: Record) -> tuple[str, str]:
    return string(item.get("tool")) or "collab_tool_call", string(item.get("prompt"))


_TITLES = {"file_change": _changes, "web_search": _search, "mcp_tool_call": _mcp, "collab_tool_call": _collab}


def _ok(item: Record) -> bool | None:
    """A web search carries no status."""
    status = item.get("status")
    return None if not isinstance(status, str) else status == "completed"


def _outcome(item: Record) -> str:
    error = obj(item.get("error"))
    if error:
        return string(error.get("message"))
    texts = [string(obj(part).get("text")) for part in items(obj(item.get("result")).get("content"))]
    return "\n".join(text for text in texts if text)


def _input(item: Record) -> dict[str, object]:
    return {key: value for key, value in item.items() if key in ("changes", "query", "action", "arguments", "prompt")}


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
