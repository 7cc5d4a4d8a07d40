"""The live view, on a real pseudo-terminal and on a pipe."""

from __future__ import annotations

import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from fcntl import ioctl

import pytest

from assay.model.events import Note, Progress, Text, ToolCall, ToolResult
from assay.model.outcome import Ending, Tokens, Verdict
from assay.terminal.live import CLEAR_ROW, Live
from assay.terminal.sanitise import width


class Screen:
    """A pseudo-terminal and what was written to it."""

    def __init__(self, columns: int) -> None:
        self.master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.out = os.fdopen(slave, "w", encoding="utf-8", newline="")
        self._written: list[bytes] = []
        self._mark: str | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while data := os.read(self.master, 65536):
                self._written.append(data)
        except OSError:
            pass

    def resize(self, columns: int) -> None:
        """Another width from here on; a mark in what was written says so."""
        ioctl(self.out.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self._mark = f"\x1b]columns={columns}\x07"
        self.out.write(self._mark)
        self.out.flush()

    def wait_for(self, words: str, seconds: float = 20) -> None:
        """Until these words were written since the last resize."""
        until = time.monotonic() + seconds
        while words not in self._since_resize():
            assert time.monotonic() < until, f"{words!r} was not written"
            time.sleep(0.01)

    def _since_resize(self) -> str:
        text = b"".join(self._written).decode("utf-8", "ignore")
        return text if self._mark is None else "".join(text.rsplit(self._mark, 1)[1:])

    def text(self) -> str:
        """All that was written; closes the terminal."""
        self.out.close()
        self._reader.join(10)
        os.close(self.master)
        return b"".join(self._written).decode()


def rows(text: str) -> list[str]:
    """What is left on the screen once every erased row is gone."""
    text = text.replace("\r\n", "\n")
    return [re.sub(r"\x1b\[[0-9;]*m", "", row.rpartition(CLEAR_ROW)[2]) for row in text.split("\n")]


@pytest.fixture(autouse=True)
def terminal_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def play(live: Live) -> None:
    live.start("r1")
    live.note("r1", "image\nready\x1b[2J")
    live.event("r1", Text("I'll count."))
    live.event("r1", ToolCall("Bash", "wc -l data.txt"))
    live.event("r1", Progress(Tokens(12_000, output=345), 0.0262))
    live.event("r1", ToolResult("7", ok=True))
    live.event("r1", Note("success"))
    live.done("r1", Ending.FINISHED, Verdict.PASS, seconds=12.34, tokens=Tokens(12_000, output=345), cost=0.0262)
    live.close()


PLAYED = [
    "▪ image ready",
    "I'll count.",
    "→ Bash wc -l data.txt",
    "← 7",
    "· success",
    "■ finished · pass · 12 s · 12.3k tokens · $0.0262",
    "",
]


def test_elsewhere_than_on_a_terminal_there_are_plain_lines() -> None:
    out = io.StringIO()
    play(Live(out))
    assert out.getvalue().split("\n") == PLAYED


def test_on_a_terminal_the_lines_are_the_same_and_the_status_is_gone_at_the_end() -> None:
    screen = Screen(80)
    play(Live(screen.out))
    text = screen.text()
    assert rows(text) == PLAYED
    assert "\x1b[36m→ Bash" in text
    assert "running · 0 s · 12.3k tokens · $0.0262" in text


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen(80)
    play(Live(screen.out))
    text = screen.text()
    assert set(re.findall(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", text)) == {"\x1b[2K"}
    assert rows(text) == PLAYED


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    screen = Screen(80)
    play(Live(screen.out))
    text = screen.text()
    assert "\x1b" not in text
    assert rows(text) == PLAYED


@pytest.mark.parametrize("columns", [1, 12, 30, 200])
def test_no_row_is_wider_than_the_terminal(columns: int) -> None:
    screen = Screen(columns)
    live = Live(screen.out, labels=True)
    for run in ("first-run", "second run with a very long name", "三"):
        live.start(run)
        live.status(run, "building image")
        live.event(run, Text("word " * 100))
        live.event(run, ToolResult("\t你好 " * 100))
        live.done(run, Ending.TIMEOUT, Verdict.FAIL, reason="because " * 30)
    live.close()
    for part in re.split(r"\r\n|" + re.escape(CLEAR_ROW), screen.text()):
        assert width(re.sub(r"\x1b\[[0-9;]*m", "", part)) <= max(columns - 1, 10)


def test_several_runs_are_told_apart() -> None:
    out = io.StringIO()
    live = Live(out, labels=True)
    live.start("a", "claude")
    live.start("b", "gpt")
    live.event("a", Text("one\ntwo"))
    live.event("b", Note("success"))
    live.note(None, "stopping")
    live.done("b", Ending.SESSION_LIMIT, reason="resets at 3")
    assert out.getvalue().splitlines() == [
        "claude │ one",
        "claude │ two",
        "gpt    │ · success",
        "       │ ▪ stopping",
        "gpt    │ ■ session-limit (resets at 3)",
    ]


def test_quiet_is_only_how_it_ended() -> None:
    out = io.StringIO()
    play(Live(out, quiet=True))
    assert out.getvalue().splitlines() == [PLAYED[-2]]


def test_the_status_line_counts_several_runs() -> None:
    screen = Screen(100)
    live = Live(screen.out, color=False)
    for run in "abc":
        live.start(run)
    live.event("a", Progress(Tokens(1000), 0.5))
    live.status("b", "grading")
    live.done("c", Ending.FINISHED)
    live.close()
    assert "2 running · 1 done · 0 s · 1.0k tokens · $0.5000 · a 0 s · b grading" in screen.text()


def test_the_clock_goes_on_while_nothing_happens() -> None:
    screen = Screen(80)
    live = Live(screen.out, color=False)
    live.start("a")
    until = time.monotonic() + 20
    while b"running \xc2\xb7 1 s" not in b"".join(screen._written) and time.monotonic() < until:
        time.sleep(0.05)
    live.close()
    assert "running · 1 s" in screen.text()


def test_many_threads_write_whole_lines() -> None:
    out = io.StringIO()
    live = Live(out, labels=True)

    def drive(run: str) -> None:
        for n in range(200):
            live.event(run, Text(f"{run}-{n}"))
        live.done(run, Ending.FINISHED)

    runs = [f"run{n:02}" for n in range(16)]
    threads = [threading.Thread(target=drive, args=(run,)) for run in runs]
    for run in runs:
        live.start(run)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = out.getvalue().splitlines()
    for run in runs:
        mine = [line for line in lines if line.startswith(run)]
        assert mine == [*(f"{run} │ {run}-{n}" for n in range(200)), f"{run} │ ■ finished"]


CLOSED = """
import sys
from assay.model.events import Text
from assay.terminal.live import Live
live = Live(sys.stdout)
live.start("a")
for n in range(100_000):
    live.event("a", Text(f"line {n}"))
live.close()
print("survived", file=sys.stderr)
"""


def test_a_reader_that_goes_away_is_no_failure() -> None:
    process = subprocess.Popen([sys.executable, "-c", CLOSED], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"line 0\n"
    process.stdout.close()
    assert process.stderr.read() == b"survived\n"
    process.stderr.close()
    assert process.wait() == 0


def test_an_encoding_that_lacks_the_marks_is_no_failure() -> None:
    code = CLOSED.replace("100_000", "1").replace("line {n}", "→ 你")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert done.stdout == b"  ? ?\n"


def test_sixteen_runs_cost_little() -> None:
    """Sixteen busy agents, each with five events a second, need well below a twentieth of a core."""
    screen = Screen(160)
    live = Live(screen.out, labels=True)
    runs = [f"run{n:02}" for n in range(16)]
    for run in runs:
        live.start(run)
    start = time.process_time()
    for n in range(100):
        for run in runs:
            live.event(run, ToolResult(f"some output of step {n}", ok=True))
    cost = (time.process_time() - start) / 1600
    live.close()
    screen.text()
    assert cost * 16 * 5 < 0.05
