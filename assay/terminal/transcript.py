"""Events to the lines a person reads: the same few kinds for every vendor.

    I'll count the lines.              words of the model
    ~ The file is small.               its reasoning
    → Bash wc -l < data.txt            a tool call
    ← 7                                what it gave back; `← ✗` where it failed
    · success                          anything else worth a line
    │ general-purpose: → Bash ls       a sub-agent's line

Further lines of anything but the model's words are indented. Words that begin like one of the marks are indented too,
so that a model cannot write a call that never was.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assay.model.events import Event, Note, Text, Thinking, ToolCall, ToolResult
from assay.terminal.sanitise import one_line, sanitise

LINES = 100
"""Lines of one call or result that transcript.txt keeps; how many more events.jsonl has is said."""

CHARACTERS = 20_000
"""Characters of one line that transcript.txt keeps."""

MARKS = "~→←·│▪■"
"""What the lines begin with that are not the model's words; the last two are the live view's."""

LEVELS = {"warning": "warning", "error": "error"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a transcript, sanitised.

    Attributes:
        text: Without line break and colour.
        style: text, thinking, call, result, failure, note, warning or error.
    """

    text: str
    style: str


def lines(event: Event, limit: int = LINES) -> list[Line]:
    """The lines of one event; none for one that only feeds the status line or the record.

    Args:
        event: Of any decoder.
        limit: Lines of a call, a result or a thought that are shown.
    """
    match event:
        case Text(text, actor):
            return _words(text, actor)
        case Thinking(text, actor):
            return _marked("~ ", text, actor, "thinking", limit)
        case ToolCall(name, title, _, _, actor):
            call = f"{one_line(name) or '?'} {title}"
            return _marked("→ ", call, actor, "call", limit)
        case ToolResult(text, ok, _, actor):
            mark, style = ("← ✗ ", "failure") if ok is False else ("← ", "result")
            return _marked(mark, text.strip("\r\n") or "(no output)", actor, style, limit)
        case Note(text, level, actor):
            return _marked("· ", text, actor, LEVELS.get(level, "note"), limit)
    return []


def _words(text: str, actor: str) -> list[Line]:
    if actor:
        return _marked("", text, actor, "text", LINES)
    shown, _ = _cleaned(text.strip("\r\n"), None)
    return [Line(f"  {line}" if line[:1] in MARKS and line else line, "text") for line in shown]


def _marked(mark: str, text: str, actor: str, style: str, limit: int) -> list[Line]:
    """First line after its mark, the others indented; after the limit, how many are left out."""
    before = f"│ {one_line(actor)}: " if actor else ""
    shown, more = _cleaned(text.rstrip(), limit)
    found = [Line(f"{before}{'  ' if n else mark}{line}".rstrip(), style) for n, line in enumerate(shown)]
    if more:
        found.append(Line(f"{before}  … {more} more {'line' if more == 1 else 'lines'} in events.jsonl", style))
    return found


def _cleaned(text: str, limit: int | None) -> tuple[list[str], int]:
    """Lines, sanitised and none of them endless, and how many are beyond the limit."""
    head = text.split("\n", -1 if limit is None else limit)
    more = 0
    if limit is not None and len(head) > limit:
        more = head.pop().count("\n") + 1
    # A carriage return makes two lines of one.
    shown = [line for raw in head for line in sanitise(_bounded(raw.rstrip("\r"))).split("\n")]
    if limit is not None and len(shown) > limit:
        more += len(shown) - limit
        del shown[limit:]
    return shown, more


def _bounded(line: str) -> str:
    if len(line) <= CHARACTERS:
        return line
    return f"{line[:CHARACTERS]} … {len(line) - CHARACTERS} more characters in events.jsonl"


class Transcript:
    """transcript.txt of one run, readable while it grows.

    Args:
        path: The file; it is begun anew.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="\n")

    def add(self, event: Event) -> None:
        """Write the event's lines, if it has any."""
        if found := lines(event):
            self._file.write("".join(f"{line.text}\n" for line in found))
            self._file.flush()

    def close(self) -> None:
        """No more will come."""
        self._file.close()
