"""Markdown for a person at a terminal. The text came out of a container: it is sanitised, and its links stay text."""

from __future__ import annotations

from typing import TextIO

from assay.terminal.paint import is_terminal, tolerant, wants_color
from assay.terminal.sanitise import sanitise

WIDEST = 100
"""Columns of running text."""


def show(text: str, out: TextIO) -> None:
    """Write Markdown: laid out on a terminal, as it is anywhere else."""
    if not is_terminal(out):
        write_raw(text, out)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=tolerant(out), no_color=not wants_color(out), highlight=False, emoji=False, markup=False)
    console.print(Markdown(sanitise(text), hyperlinks=False, code_theme="ansi_dark"), width=min(console.width, WIDEST))


def write_raw(text: str, out: TextIO) -> None:
    """Write the text itself, byte for byte where the stream has bytes, with a line break at its end."""
    data = text if text.endswith("\n") else text + "\n"
    buffer = getattr(out, "buffer", None)
    if buffer is None:
        tolerant(out).write(data)
    else:
        out.flush()
        buffer.write(data.encode("utf-8", "replace"))
    out.flush()
