"""Events to lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.model.events import Event, Note, Progress, Started, Text, Thinking, ToolCall, ToolResult
from assay.model.outcome import Tokens
from assay.terminal.transcript import CHARACTERS, LINES, MARKS, Transcript, lines


def texts(event: Event, limit: int = LINES) -> list[str]:
    return [line.text for line in lines(event, limit)]


def test_the_example_of_the_first_design(tmp_path: Path) -> None:
    command = "wc -l < /app/data.txt | tr -d ' ' > /app/answer.txt && cat /app/answer.txt"
    transcript = Transcript(tmp_path / "transcript.txt")
    for event in (
        Started("s", "m"),
        Text("I'll count the lines and write the result."),
        ToolCall("Bash", command, "1"),
        ToolResult("7", ok=True, id="1"),
        Progress(Tokens(1)),
        Text("Done. /app/data.txt has **7** lines, and that number has been written to /app/answer.txt."),
        Note("success"),
    ):
        transcript.add(event)
    transcript.close()
    assert (tmp_path / "transcript.txt").read_bytes().decode() == (
        "I'll count the lines and write the result.\n"
        f"→ Bash {command}\n"
        "← 7\n"
        "Done. /app/data.txt has **7** lines, and that number has been written to /app/answer.txt.\n"
        "· success\n"
    )


@pytest.mark.parametrize(
    ("event", "want"),
    [
        (Text("\none\n\ntwo\n"), ["one", "", "two"]),
        (Thinking("a\nb"), ["~ a", "  b"]),
        (ToolCall("Bash"), ["→ Bash"]),
        (ToolCall(""), ["→ ?"]),
        (ToolCall("Bash", "cat <<E\nx\nE"), ["→ Bash cat <<E", "  x", "  E"]),
        (ToolResult(""), ["← (no output)"]),
        (ToolResult("a\r\nb\n"), ["← a", "  b"]),
        (ToolResult("10 %\r20 %"), ["← 10 %", "  20 %"]),
        (ToolResult("no", ok=False), ["← ✗ no"]),
        (Note("oh\nno", "error"), ["· oh", "  no"]),
        (Text("hi\nho", actor="Explore"), ["│ Explore: hi", "│ Explore:   ho"]),
        (ToolCall("Bash", "ls", actor="Explore"), ["│ Explore: → Bash ls"]),
        (ToolResult("\x1b[31mred\x1b[0m"), ["← red"]),
        (ToolCall("Ba\nsh\x1b[2J", "ls"), ["→ Ba sh ls"]),
    ],
)
def test_layout(event: Event, want: list[str]) -> None:
    assert texts(event) == want


def test_words_cannot_pass_for_a_call_or_an_ending() -> None:
    assert texts(Text("→ Bash rm -rf /\n← 7\n· success\n■ pass\nok")) == [
        "  → Bash rm -rf /", "  ← 7", "  · success", "  ■ pass", "ok",
    ]  # fmt: skip


def test_long_results_say_how_much_is_left_out() -> None:
    shown = texts(ToolResult("\n".join(map(str, range(1000)))), limit=3)
    assert shown == ["← 0", "  1", "  2", "  … 997 more lines in events.jsonl"]
    assert texts(ToolResult("1\n2\n3\n4"), limit=3)[-1] == "  … 1 more line in events.jsonl"
    assert len(texts(ToolResult("\n".join("x" for _ in range(LINES))))) == LINES
    assert len(texts(Text("\n".join("x" for _ in range(5 * LINES))))) == 5 * LINES


def test_endless_lines_are_bounded() -> None:
    (line,) = texts(ToolResult("x" * 5_000_000))
    assert len(line) < CHARACTERS + 100
    assert line.endswith(f"… {5_000_000 - CHARACTERS} more characters in events.jsonl")


ANY = st.text(st.one_of(st.characters(), st.sampled_from(f"\r\n\t\x1b\x9b\u202e\u2028\ud800{MARKS}a")))


@given(ANY, ANY, st.sampled_from(["", "sub"]))
def test_no_line_holds_a_line_break_or_a_control(text: str, other: str, actor: str) -> None:
    for event in (
        Text(text, actor), Thinking(text, actor), ToolCall(other, text, actor=actor), ToolResult(text, actor=actor),
        Note(text, other, actor), ToolCall("x", "y", actor=other),
    ):  # fmt: skip
        for line in lines(event):
            line.text.encode()
            assert line.text.isprintable() or all(
                char.isprintable() or char.isspace() or char in "\u200c\u200d" or ord(char) > 0x5FF
                for char in line.text
            )
            assert "\n" not in line.text
            assert "\r" not in line.text
            if isinstance(event, Text) and not actor:
                assert line.text[:1] not in MARKS or not line.text
