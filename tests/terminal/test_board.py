"""The table below the transcripts: on a small emulation of a terminal, and by itself."""

from __future__ import annotations

import re
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.model.events import Progress, Text, ToolCall
from assay.model.outcome import Ending, Tokens
from assay.terminal.board import board
from assay.terminal.live import CLEAR_ROW, Live
from assay.terminal.sanitise import width
from tests.terminal.test_live import Screen, terminal_environment

__all__ = ["terminal_environment"]

CELLS = st.text(max_size=40)
ROWS = st.lists(st.lists(CELLS, min_size=8, max_size=8), min_size=1, max_size=20)


@given(ROWS, st.integers(1, 200), st.integers(1, 30))
def test_it_never_takes_more_than_its_room(rows: list[list[str]], columns: int, height: int) -> None:
    lines = board(rows, columns, height)
    assert len(lines) <= max(2, height)
    assert all(width(line) <= columns for line in lines)
    assert not any("\n" in line or "\x1b" in line for line in lines)


RUN = ["1.1 claude", "claude", "claude-haiku-5-5", "high", "12 s", "12.3k", "$0.0262", "→ Bash make test"]


def test_what_matters_least_goes_first() -> None:
    assert (
        board([RUN], 120, 9)[1]
        == "1.1 claude  claude  claude-haiku-5-5  high    12 s   12.3k  $0.0262  → Bash make test"
    )
    assert board([RUN], 60, 9)[1] == "1.1 claude  12 s   12.3k  $0.0262  → Bash make test"
    assert board([RUN], 40, 9)[1] == "1.1 claude  12 s  → Bash make test"
    assert board([RUN] * 9, 60, 4)[-1] == "… 7 more at work"


def shown(written: str) -> list[str]:
    """What a terminal shows, its scrolled-off rows included."""
    rows, at = [""], 0
    for part in re.split(r"(\r\n|\r|\x1b\[[0-9;]*[A-Za-z])", written):
        if part == "\r\n":
            at += 1
            rows += [""] * (at + 1 - len(rows))
        elif part.endswith("A") and part.startswith("\x1b["):
            at -= int(part[2:-1])
        elif part == "\x1b[J":
            del rows[at + 1 :]
            rows[at] = ""
        elif part == "\x1b[2K":
            rows[at] = ""
        elif not part.startswith("\x1b") and part != "\r":
            rows[at] += part
    return rows


def test_lines_scroll_above_and_the_table_is_gone_at_the_end() -> None:
    screen = Screen(100)
    live = Live(screen.out, labels=True)
    for run in ("1.1 a", "1.2 b"):
        live.start(run, run, ("agent", "model", "high"))
    live.ladder("prune · rung 1 of 2")
    for n in range(30):
        live.event("1.1 a", Text(f"word {n}"))
        live.event("1.2 b", ToolCall("Bash", f"step {n}"))
        if n == 15:
            time.sleep(0.2)
    live.event("1.1 a", Progress(Tokens(1000), 0.5))
    live.done("1.1 a", Ending.FINISHED)
    time.sleep(0.2)
    live.done("1.2 b", Ending.FINISHED)
    live.close()
    text = screen.text()
    rows = shown(text)
    assert [row for row in rows if "1.1 a" in row] == [*(f"1.1 a │ word {n}" for n in range(30)), "1.1 a │ ■ finished"]
    assert [row for row in rows if "1.2 b" in row] == [
        *(f"1.2 b │ → Bash step {n}" for n in range(30)),
        "1.2 b │ ■ finished",
    ]
    assert len([row for row in rows if row]) == 62, "nothing of the table is left"
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "RUN    AGENT  MODEL  EFFORT  TIME  LAST" in plain
    assert "prune · rung 1 of 2" in plain


class Reflowing:
    """A terminal that breaks its lines anew when its width changes; the cursor is at the end of the last line."""

    def __init__(self, columns: int) -> None:
        self.columns, self.lines = columns, [""]

    def _rows(self, line: str) -> int:
        return max(1, -(-len(line) // self.columns))

    def _erase(self, up: int) -> None:
        """Everything from the beginning of the row so many rows above the cursor's."""
        left = sum(map(self._rows, self.lines)) - 1 - up
        for n, line in enumerate(self.lines):
            if left < self._rows(line):
                self.lines = [*self.lines[:n], line[: left * self.columns]]
                return
            left -= self._rows(line)

    def write(self, text: str) -> None:
        """Take what a program writes."""
        up = 0
        for part in re.split(r"(\r\n|\r|\x1b\[[0-9;]*[A-Za-z]|\x1b\]columns=\d+\x07)", text):
            if part == "\r\n":
                self.lines.append("")
            elif part.startswith("\x1b]"):
                self.columns = int(part[10:-1])
            elif part.startswith("\x1b[") and part.endswith("A"):
                up = int(part[2:-1])
            elif part in ("\x1b[J", CLEAR_ROW.lstrip("\r")):
                self._erase(up)
                up = 0
            elif not part.startswith("\x1b") and part != "\r":
                assert len(part) < self.columns or part.startswith("word"), part
                self.lines[-1] += part


def test_a_window_that_changes_its_width_keeps_nothing_of_the_table() -> None:
    """Rows that were drawn for another width lie broken in the new one, and go all the same."""
    widths = (40, 120, 15, 80)
    screen, terminal = Screen(100), Reflowing(100)
    live = Live(screen.out, labels=True, color=False)
    for run in ("1.1 a", "1.2 b", "1.3 c"):
        live.start(run, run, ("agent", "a-model-with-a-name", "high"))
    live.ladder("prune · rung 1 of 2 · 3 at work · 0 done · 0 passed · $0.0123")
    live.event("1.1 a", Text("word 0"))
    screen.wait_for("prune")
    for n, columns in enumerate(widths, 1):
        with live._lock:
            screen.resize(columns)
        live.event("1.1 a", Text(f"word {n}"))
        screen.wait_for("prune")
    live.close()
    terminal.write(screen.text())
    assert [line.partition("│ ")[2] for line in terminal.lines] == [*(f"word {n}" for n in range(5)), ""]


@pytest.mark.parametrize("columns", [1, 20, 40, 100])
def test_no_row_is_wider_than_the_terminal(columns: int) -> None:
    screen = Screen(columns)
    live = Live(screen.out, labels=True, color=False)
    for n in range(30):
        live.start(f"run {n}", f"2.{n} claude", ("claude", "claude-opus-5-5", "max"))
        live.event(f"run {n}", ToolCall("Bash", "x" * 300))
    live.ladder("rung " * 50)
    time.sleep(0.2)
    live.close()
    for part in re.split(r"\r\n|\r|\x1b\[[0-9;]*[A-Za-z]", screen.text()):
        assert width(part) <= max(columns - 1, 10)


def test_a_table_costs_little_however_much_happens() -> None:
    """Sixteen busy agents with five events a second each need well below a twentieth of a core."""
    screen = Screen(160)
    live = Live(screen.out, labels=True)
    for n in range(16):
        live.start(f"run {n}", f"1.{n} claude", ("claude", "claude-haiku-5-5", "high"))
    spent = time.process_time()
    events = 0
    until = time.monotonic() + 2
    while time.monotonic() < until:
        for n in range(16):
            live.event(f"run {n}", ToolCall("Bash", f"step {events}"))
            events += 1
        threading.Event().wait(0.2)
    spent = time.process_time() - spent
    live.close()
    screen.text()
    assert spent / 2 < 0.05, f"{spent:.3f} CPU seconds for {events} events in two seconds"
