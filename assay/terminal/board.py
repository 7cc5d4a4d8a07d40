"""The table below the transcripts: one row for each run at work, as wide and as high as there is room. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from assay.terminal.sanitise import cut, one_line, width

HEAD = ("RUN", "AGENT", "MODEL", "EFFORT", "TIME", "TOKENS", "COST", "LAST")
TO_RIGHT = frozenset({4, 5, 6})
DISPENSABLE = (3, 1, 2, 6, 5)
"""Columns that go first where there is no room: the run's label names the agent as well."""

LEAST_LAST = 16
"""Columns that the last action is to have."""

WIDEST = 28
"""Columns of one cell."""


def board(rows: Sequence[Sequence[str]], columns: int, height: int) -> list[str]:
    """A header and as many of the rows as fit, none wider than `columns`.

    Args:
        rows: Cells in the order of `HEAD`, sanitised here.
        columns: Width of the terminal that may be used.
        height: Rows that may be used; what does not fit is counted in the last one.
    """
    cells = [list(HEAD), *([one_line(cell) for cell in row] for row in rows)]
    last = len(HEAD) - 1
    shown = [n for n in range(len(HEAD)) if n == last or any(row[n] for row in cells[1:])]
    widths = {n: min(WIDEST, max(width(row[n]) for row in cells)) for n in shown}
    for n in DISPENSABLE:
        if columns - sum(widths[m] + 2 for m in shown if m != last) >= LEAST_LAST:
            break
        shown = [m for m in shown if m != n]
    lines = [cut(_line(row, shown, widths), columns) for row in cells]
    if len(lines) <= height:
        return lines
    fit = lines[: max(1, height - 1)]
    return [*fit, cut(f"… {len(lines) - len(fit)} more at work", columns)]


def _line(row: Sequence[str], shown: Sequence[int], widths: dict[int, int]) -> str:
    parts = []
    for n in shown:
        if n == len(HEAD) - 1:
            parts.append(row[n])
            continue
        cell = cut(row[n], widths[n])
        space = " " * (widths[n] - width(cell))
        parts.append(space + cell if n in TO_RIGHT else cell + space)
    return "  ".join(parts).rstrip()
