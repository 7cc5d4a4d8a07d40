"""index.jsonl: a cache of the committed records, a line each; the next reader makes good an append that was lost."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime
from pathlib import Path

from assay.model.record import RunRecord

INDEX = "index.jsonl"


def index_line(record: RunRecord) -> bytes:
    """The record as one line of JSON."""
    return json.dumps(record.to_toml(), default=_iso, separators=(",", ":")).encode() + b"\n"


def _iso(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(value)


def append_index(runs: Path, record: RunRecord) -> None:
    """Add a committed record. One write of one line: lines of several processes never mix."""
    # A cache: the next reader makes good what could not be written.
    with contextlib.suppress(OSError), (runs / INDEX).open("ab", buffering=0) as file:
        file.write(index_line(record))
