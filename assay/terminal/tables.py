"""Plain tables and aligned fields, as wide as the terminal at most."""

from __future__ import annotations

from collections.abc import Sequence

from assay.terminal.sanitise import cut, one_line, sanitise, width

GAP = 2
LEAST = 6
"""Columns that a shrunken cell keeps."""


def table(
    header: Sequence[str], rows: Sequence[Sequence[object]], *, right: str = "", columns: int | None = None
) -> str:
    """Rows under a header, aligned; None is an empty cell.

    Args:
        header: Names of the columns.
        rows: Cells; anything is shown by `str`, sanitised, in one line.
        right: Names of the columns that are set to the right, separated by spaces.
        columns: Width that must not be exceeded, by cutting the widest cells; None for any.

    Returns:
        Lines, each ended by a line break.
    """
    cells = [[one_line(name) for name in header]]
    cells += [["" if cell is None else one_line(str(cell)) for cell in row] for row in rows]
    widths = [max(width(row[n]) for row in cells) for n in range(len(header))]
    if columns is not None:
        _shrink(widths, columns - GAP * (len(widths) - 1))
    to_right = {n for n, name in enumerate(header) if name in right.split()}
    return "".join(f"{_row(row, widths, to_right)}\n" for row in cells)


def fields(pairs: Sequence[tuple[str, object]], *, columns: int | None = None) -> str:
    """Names and values below each other; pairs whose value is None or "" are left out.

    A value of several lines goes on under its first.
    """
    shown = [(name, sanitise(str(value)).rstrip().split("\n")) for name, value in pairs if value not in (None, "")]
    indent = max((width(name) for name, _ in shown), default=0) + GAP
    lines = [f"{name if n == 0 else '':{indent}}{line}" for name, value in shown for n, line in enumerate(value)]
    return "".join(f"{line if columns is None else cut(line, columns)}\n" for line in lines)


def _row(cells: Sequence[str], widths: Sequence[int], to_right: set[int]) -> str:
    parts = []
    for n, (cell, room) in enumerate(zip(cells, widths, strict=True)):
        cell = cut(cell, room)
        space = " " * (room - width(cell))
        parts.append(space + cell if n in to_right else cell + space)
    return (" " * GAP).join(parts).rstrip()


def _shrink(widths: list[int], room: int) -> None:
    """Take from the widest column, again and again, until all fit or none can give any more."""
    while (over := sum(widths) - room) > 0:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= LEAST:
            return
        second = max((w for n, w in enumerate(widths) if n != widest), default=LEAST)
        widths[widest] = max(LEAST, min(widths[widest] - 1, second, widths[widest]), widths[widest] - over)
