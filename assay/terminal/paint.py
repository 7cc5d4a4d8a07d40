"""Colour, where it is wanted, and writing to whatever standard output is."""

from __future__ import annotations

import os
from io import TextIOWrapper
from typing import TextIO

from assay.terminal.transcript import Line

STYLES = {
    "thinking": "2;3",
    "call": "36",
    "result": "2",
    "failure": "31",
    "note": "2",
    "warning": "33",
    "error": "31",
    "harness": "34",
    "good": "32",
    "bad": "31",
}
"""SGR parameters; a style that is not here is plain."""


def wants_color(out: TextIO) -> bool:
    """Whether to colour: a terminal that is not dumb, and no NO_COLOR (https://no-color.org)."""
    return is_terminal(out) and not os.environ.get("NO_COLOR")


def is_terminal(out: TextIO) -> bool:
    """Whether the cursor can be moved there."""
    return out.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str) -> str:
    """The text in a style's colour."""
    sgr = STYLES.get(style)
    return f"\x1b[{sgr}m{text}\x1b[0m" if sgr else text


def printed(line: Line, *, color: bool) -> str:
    """A transcript line as it is written out, with its line break."""
    return f"{paint(line.text, line.style) if color else line.text}\n"


def tolerant(out: TextIO) -> TextIO:
    """The same stream, told to write `?` for what its encoding lacks instead of failing."""
    if isinstance(out, TextIOWrapper):
        out.reconfigure(errors="replace")
    return out


def silence(out: TextIO) -> None:
    """The reader has gone (`| head`): what is still written goes nowhere instead of failing."""
    try:
        number = out.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
