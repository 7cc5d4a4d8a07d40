"""Codex, `codex exec --json` (0.171.0): items that start and complete, one turn per process.

What the stream alone does not tell comes from the session file (the rollout): the stream's usage is cumulative over
all resumes of a thread and missing for a run that failed or was killed, while the rollout has one record per API
response, written at once.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from assay.decoders.codex_session import Rollout, tokens_of
from assay.decoders.ends import Calls, error_kind, last_words, without_last_word
from assay.decoders.lines import Record, items, obj, records, string
from assay.model.events import Event, Exit, Facts, Note, Started, Text, Thinking, ToolCall, ToolResult
from assay.model.outcome import Ending, Tokens

COMPLETED, FAILED = "turn.completed", "turn.failed"
NOISE = ("Reading additional input from stdin",)
"""Said on stderr whenever a prompt is read from standard input."""

_SHELL = "/bin/sh -lc "
_PLAIN = f"{_SHELL}'"
_ESCAPED = re.compile(r"\\([\\\"$`])")
_BARE_QUOTE = re.compile(r'(?<!\\)(?:\\\\)*"')
_AGAIN_AT = re.compile(
    r"try again at (?:([A-Z][a-z]{2}) (\d{1,2})(?:st|nd|rd|th), (\d{4}) )?(\d{1,2}):(\d{2}) ([AP])M", re.IGNORECASE
)
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"


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
            facts.tokens = tokens_of(obj(record.get("usage")))
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
        """Any item but a command, which most of them are."""
        kind = item.get("type")
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

    def command(self, item: Record) -> tuple[Event, ...]:
        """A command that starts, or is still at work."""
        id_ = string(item.get("id"))
        if not self.calls.start("command_execution", id_):
            return ()
        command = _unwrapped(string(item.get("command")))
        return (ToolCall("command_execution", command, id_, {"command": command}),)

    def command_done(self, item: Record) -> tuple[Event, ...]:
        id_, ok = string(item.get("id")), item.get("exit_code") == 0
        result = ToolResult(string(item.get("aggregated_output")), ok, id_)
        if self.calls.end(id_, ok=ok):
            return (result,)
        call = self.command(item)
        self.calls.end(id_, ok=ok)
        return (*call, result)

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
            item = obj(record.get("item"))
            what = item.get("type")
            if what == "command_execution":
                yield from stream.command_done(item)
            elif what == "agent_message":
                facts.text = text = string(item.get("text"))
                yield Text(text)
            else:
                yield from stream.item(item, done=True)
        elif kind == "item.started" or kind == "item.updated":
            item = obj(record.get("item"))
            if item.get("type") == "command_execution":
                yield from stream.command(item)
            else:
                yield from stream.item(item, done=False)
        elif kind == "error":
            yield from stream.error(string(record.get("message")))
        else:
            yield from stream.turn(string(kind), record)
    yield from stream.release()
    return facts


def conclude(facts: Facts, exit_: Exit) -> Facts:
    """Add the ending, and what the rollout knows: model, version, tokens of this run alone, the kind of a failure."""
    rollout = Rollout.read(exit_.session_file, facts.session) if exit_.session_file and facts.session else Rollout()
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


def _failed(facts: Facts, exit_: Exit, rollout: Rollout) -> Facts:
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


def _own_tokens(facts: Facts, exit_: Exit, rollout: Rollout) -> Tokens | None:
    # The rollout's last turn is an earlier run's if this one never began, or broke off while that one is complete.
    ours = facts.terminal is not None or (getattr(facts, "begun", True) and not rollout.complete)
    if ours and rollout.tokens is not None:
        return rollout.tokens
    # What a resumed stream counts includes the earlier runs of its thread, and how much that was is not said.
    return None if exit_.resumed else facts.tokens


def _unwrapped(command: str) -> str:
    """The command as the model wrote it: the CLI shows it quoted, behind `/bin/sh -lc`."""
    if command[:13] == _PLAIN and "'" not in (inner := command[13:-1]) and command[-1] == "'" and inner:
        return inner
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
    # What an MCP tool was given is the call's input; the other items are tools of the CLI's own.
    if isinstance(given := item.get("arguments"), dict):
        return given
    return {key: value for key, value in item.items() if key in ("changes", "query", "action", "arguments", "prompt")}


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
