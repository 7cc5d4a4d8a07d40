"""Writing while runs go on, and JSON for other programs."""

from __future__ import annotations

import json
import sys
from datetime import datetime

import click


def tell(text: str) -> None:
    """Write a line to standard output. A reader or a terminal that has gone is no reason to end what runs."""
    try:
        click.echo(text)
    except OSError:
        from assay.terminal.paint import silence

        silence(sys.stdout)


def json_line(facts: object) -> str:
    """One object on one line; times as ISO text."""
    return json.dumps(facts, ensure_ascii=False, default=_plain)


def json_text(facts: object) -> str:
    """The same, indented for a reader."""
    return json.dumps(facts, ensure_ascii=False, indent=2, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value)
