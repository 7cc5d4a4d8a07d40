"""The live view: transcripts streaming as they happen, of one run or of several side by side.

On a terminal the last row is a status line, or the last rows are a table of the runs at work; elsewhere there are
only the lines. Each run is told from by its own thread; everything here is safe to call from any of them, never raises
because the reader has gone, and costs one write an event (with a table: twenty a second at most) and one a second.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from assay.model.events import Event, Progress
from assay.model.outcome import Ending, Tokens, Verdict
from assay.terminal import figures
from assay.terminal.board import board
from assay.terminal.paint import is_terminal, paint, silence, tolerant, wants_color
from assay.terminal.sanitise import cut, one_line, width
from assay.terminal.transcript import Line, lines

LINES = 12
"""Lines of one call or result that are shown live."""

LABEL_COLORS = ("36", "33", "35", "32", "34", "96", "93", "95", "92", "94")
LABEL_WIDTH = 24
NARROW = 50
"""Columns below which labels have a quarter of the row at most."""

CLEAR_ROW = "\r\x1b[2K"

TABLE_SECONDS = 0.05
"""The least time between two drawings of the table."""

TABLE_SHARE = 0.6
"""Of the terminal's rows, the most that the table takes."""


@dataclass(slots=True)
class _Run:
    """What the view knows of one run."""

    label: str
    color: str
    phase: str = ""
    began: float = field(default_factory=time.monotonic)
    tokens: Tokens | None = None
    cost: float | None = None
    over: bool = False
    about: Sequence[str] = ()
    last: str = ""

    def cells(self) -> list[str]:
        """The run's row of the table."""
        total = None if self.tokens is None else self.tokens.total
        elapsed = figures.clock(time.monotonic() - self.began)
        spent = [figures.tokens(total), figures.dollars(self.cost)]
        return [self.label, *self.about, elapsed, *spent, self.phase or self.last]


class Live:
    """A view of runs, written to one stream.

    Args:
        out: Where to; usually standard output.
        labels: Whether each line begins with its run's label: as soon as there is more than one run.
        color: Whether to colour; None: as the terminal and NO_COLOR say.
        quiet: Only how each run ended.
    """

    def __init__(self, out: TextIO, *, labels: bool = False, color: bool | None = None, quiet: bool = False) -> None:
        self._out = tolerant(out)
        self._terminal = is_terminal(out)
        self._color = wants_color(out) if color is None else color
        self._labels, self._quiet = labels, quiet
        self._lock = threading.RLock()
        self._runs: dict[str, _Run] = {}
        self._gone = False
        self._drawn: list[int] = []
        self._held: list[str] = []
        self._wake = threading.Event()
        self._ladder = ""
        self._closed = threading.Event()
        self._began = time.monotonic()
        if self._terminal and not quiet:
            threading.Thread(target=self._tick, name="live view", daemon=True).start()

    def start(self, run: str, label: str = "", about: Sequence[str] = ()) -> None:
        """A run begins.

        Args:
            run: Its name in all other calls.
            label: What the reader sees of it.
            about: Agent, model and effort: the run then has a row in a table of its own.
        """
        with self._lock:
            color = LABEL_COLORS[len(self._runs) % len(LABEL_COLORS)]
            self._runs[run] = _Run(cut(one_line(label or run), LABEL_WIDTH), color, about=about)
            self._write(run, [])

    def ladder(self, text: str) -> None:
        """How far the whole has come: the last row below the table."""
        with self._lock:
            if text != self._ladder:
                self._ladder = text
                self._write(None, [])

    def status(self, run: str, phase: str) -> None:
        """What the run is doing, for the status line: `building image`, `grading`; "" for its agent at work."""
        with self._lock:
            self._run(run).phase = one_line(phase)
            self._write(run, [])

    def event(self, run: str, event: Event) -> None:
        """The agent said or did something."""
        if isinstance(event, Progress):
            with self._lock:
                # The next line or tick shows it.
                known = self._run(run)
                known.tokens, known.cost = event.tokens, event.cost_usd
            return
        if not self._quiet and (shown := lines(event, LINES)):
            with self._lock:
                self._run(run).last = shown[0].text
                self._write(run, shown)

    def note(self, run: str | None, text: str) -> None:
        """The harness has something to say, about one run or about all."""
        if not self._quiet:
            self._write(run, [Line(f"▪ {one_line(text)}", "harness")])

    def done(
        self,
        run: str,
        ending: Ending | None,
        verdict: Verdict | None = None,
        *,
        reason: str | None = None,
        seconds: float | None = None,
        tokens: Tokens | None = None,
        cost: float | None = None,
    ) -> None:
        """The run is over; unknown figures are left out."""
        with self._lock:
            self._run(run).over = True
            words = [str(ending or "no ending"), "" if verdict in (None, Verdict.NONE) else str(verdict)]
            words += [figures.seconds(seconds), _spend(tokens, cost)]
            said = f" ({one_line(reason)})" if reason else ""
            style = {Verdict.PASS: "good", None: "harness", Verdict.NONE: "harness"}.get(verdict, "bad")
            self._write(run, [Line(f"■ {' · '.join(filter(None, words))}{said}", style)])

    def close(self) -> None:
        """Take the status line away; nothing more is drawn."""
        with self._lock:
            self._closed.set()
            self._wake.set()
            self._send("")

    def _run(self, run: str) -> _Run:
        if run not in self._runs:
            self.start(run)
        return self._runs[run]

    def _write(self, run: str | None, shown: Iterable[Line]) -> None:
        with self._lock:
            before, painted = self._label(run)
            room = self._columns() - width(before)
            rows = []
            for line in shown:
                text = cut(line.text.expandtabs(4), room) if self._terminal else line.text
                rows.append(f"{painted}{paint(text, line.style) if self._color else text}\n")
            self._send("".join(rows))

    def _label(self, run: str | None) -> tuple[str, str]:
        """What comes before a run's lines, plain and as it is written."""
        if not self._labels:
            return "", ""
        columns = self._columns()
        most = LABEL_WIDTH if columns >= NARROW else columns // 4
        room = max((min(width(known.label), most) for known in self._runs.values()), default=0)
        known = None if run is None else self._run(run)
        name = cut(known.label, room) if known else ""
        plain = f"{name}{' ' * (room - width(name))} │ "
        return plain, f"\x1b[{known.color}m{plain}\x1b[0m" if known and self._color else plain

    def _send(self, text: str) -> None:
        """Write whole lines above the rows at the bottom, and draw those anew."""
        if self._tabled() and not self._closed.is_set():
            self._held.append(text)
            self._wake.set()
        else:
            self._draw("".join([*self._held, text]))
            self._held.clear()

    def _draw(self, text: str) -> None:
        """One write: the bottom rows away, the lines, the bottom rows as they are now."""
        if self._gone:
            return
        if self._terminal and not self._quiet:
            bottom = [] if self._closed.is_set() else self._bottom()
            away = self._away()
            self._drawn = [width(row) for row in bottom]
            shown = [paint(row, "note") for row in bottom] if self._color else bottom
            text = f"{away}{text}" + "\n".join(shown)
        if not text:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):
            self._gone = True
            silence(self._out)

    def _away(self) -> str:
        """What takes the drawn rows away, also where a narrower terminal has broken them since."""
        if not self._drawn:
            return ""
        columns = self._columns() + 1
        rows = sum(max(1, -(-row // columns)) for row in self._drawn)
        return CLEAR_ROW if rows == 1 else f"\r\x1b[{rows - 1}A\x1b[J"

    def _tabled(self) -> bool:
        return self._terminal and not self._quiet and any(run.about and not run.over for run in self._runs.values())

    def _bottom(self) -> list[str]:
        """The rows below the lines."""
        if self._tabled():
            going = [run.cells() for run in self._runs.values() if run.about and not run.over]
            most = max(2, int(self._size()[1] * TABLE_SHARE) - 1)
            ladder = [cut(one_line(self._ladder), self._columns())] if self._ladder else []
            return [*board(going, self._columns(), most), *ladder]
        return [status] if (status := self._status()) else []

    def _status(self) -> str:
        going = [run for run in self._runs.values() if not run.over]
        if not going:
            return cut(one_line(self._ladder), self._columns())
        if len(going) == 1:
            text = _progress(going[0], named=self._labels)
        else:
            over = len(self._runs) - len(going)
            spent = sum((run.tokens or Tokens() for run in self._runs.values()), Tokens())
            costs = [run.cost for run in self._runs.values() if run.cost is not None]
            parts = [
                f"{len(going)} running",
                f"{over} done" if over else "",
                figures.clock(time.monotonic() - self._began),
            ]
            parts += [_spend(spent, sum(costs) if costs else None), *(_progress(run, named=True) for run in going)]
            text = " · ".join(filter(None, parts))
        return cut(text, self._columns())

    def _columns(self) -> int:
        """Usable columns: the last one is left free, since some terminals break the line when it is filled."""
        return max(10, self._size()[0] - 1)

    def _size(self) -> tuple[int, int]:
        """Columns and rows of the terminal."""
        try:
            size = os.get_terminal_size(self._out.fileno())
        except (OSError, ValueError):
            return 80, 24
        return size.columns or 80, size.lines or 24

    def _tick(self) -> None:
        while not self._closed.is_set() and not self._gone:
            if self._wake.wait(1.0) and not self._closed.is_set():
                self._closed.wait(TABLE_SECONDS)
                self._wake.clear()
            with self._lock:
                if not self._closed.is_set():
                    self._draw("".join(self._held))
                    self._held.clear()


def _progress(run: _Run, *, named: bool) -> str:
    elapsed = figures.clock(time.monotonic() - run.began)
    if named:
        return f"{run.label} {run.phase or elapsed}"
    return " · ".join(filter(None, [run.phase or "running", elapsed, _spend(run.tokens, run.cost)]))


def _spend(tokens: Tokens | None, cost: float | None) -> str:
    total = None if tokens is None else tokens.total
    words = [f"{figures.tokens(total)} tokens" if total else "", figures.dollars(cost)]
    return " · ".join(filter(None, words))
