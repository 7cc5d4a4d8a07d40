"""JSON for other programs."""

from __future__ import annotations

import json
from datetime import datetime


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
