"""The live view: transcripts streaming as they happen, of one run or of several side by side.

On a terminal the last row is a status line; elsewhere there are only the lines. Each run is told from by its own
thread; everything here is safe to call from any of them, never raises because the reader has gone, and costs one
write an event and one a second.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TextIO

from assay.model.events import Event, Progress
from assay.model.outcome import Ending, Tokens, Verdict
from assay.terminal import figures
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
        self._drawn = False
        self._closed = threading.Event()
        self._began = time.monotonic()
        if self._terminal and not quiet:
            threading.Thread(target=self._tick, name="live view", daemon=True).start()

    def start(self, run: str, label: str = "") -> None:
        """A run begins. `run` names it in all other calls; `label` is what the reader sees of it."""
        with self._lock:
            color = LABEL_COLORS[len(self._runs) % len(LABEL_COLORS)]
            self._runs[run] = _Run(cut(one_line(label or run), LABEL_WIDTH), color)
            self._write(run, [])

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
        """Write whole lines above the status line, and draw that anew; one write."""
        if self._gone:
            return
        if self._terminal and not self._quiet:
            status = "" if self._closed.is_set() else self._status()
            text = f"{CLEAR_ROW if self._drawn else ''}{text}{status}"
            self._drawn = bool(status)
        if not text:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):
            self._gone = True
            silence(self._out)

    def _status(self) -> str:
        going = [run for run in self._runs.values() if not run.over]
        if not going:
            return ""
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
        text = cut(text, self._columns())
        return paint(text, "note") if self._color else text

    def _columns(self) -> int:
        """Usable columns: the last one is left free, since some terminals break the line when it is filled."""
        try:
            return max(10, (os.get_terminal_size(self._out.fileno()).columns or 80) - 1)
        except (OSError, ValueError):
            return 79

    def _tick(self) -> None:
        while not self._closed.wait(1.0) and not self._gone:
            with self._lock:
                if not self._closed.is_set():
                    self._send("")


def _progress(run: _Run, *, named: bool) -> str:
    elapsed = figures.clock(time.monotonic() - run.began)
    if named:
        return f"{run.label} {run.phase or elapsed}"
    return " · ".join(filter(None, [run.phase or "running", elapsed, _spend(run.tokens, run.cost)]))


def _spend(tokens: Tokens | None, cost: float | None) -> str:
    total = None if tokens is None else tokens.total
    words = [f"{figures.tokens(total)} tokens" if total else "", figures.dollars(cost)]
    return " · ".join(filter(None, words))
