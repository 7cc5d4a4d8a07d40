"""Lines of bytes to JSON objects, and safe looks into them: what every decoder stands on.

A line may be anything: half a record, megabytes long, not UTF-8, not JSON at all. None of that raises; what cannot be
read becomes a `Note`. Strings that come out never hold a lone surrogate, so they can always be encoded again.

    for record in records(lines):
        if isinstance(record, Note):
            yield record
            continue
        match record.get("type"): ...
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import orjson

from assay.model.events import Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Record = dict[str, Any]

_SHOWN = 200
_MOST = 1 << 40
"""Sums of it over all lines that are kept of a run still fit the 64 bits that readers of JSON take."""
_DEAREST = 1e12
"""Dollars, or seconds since 1970."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_LENIENT = json.JSONDecoder(strict=False)


def records(lines: Iterable[bytes]) -> Iterator[Record | Note]:
    """One JSON object per line, in order; blank lines are passed over.

    A line that the strict parser refuses (lone surrogates, NaN, bad UTF-8, raw control characters) but the lenient one
    can read yields the object and then a `Note` that it was repaired; any other line yields a `Note` alone. The last
    value of a repeated key wins.
    """
    strict = orjson.loads
    for line in lines:
        try:
            value = strict(line)
        except orjson.JSONDecodeError:
            yield from _refused(line)
            continue
        if type(value) is dict:
            yield value
        else:
            yield _unreadable(line)


def loads(document: str | bytes) -> Any:
    """Any JSON value, read strictly or, where that fails, leniently: for documents inside strings, session files.

    Raises:
        ValueError: Neither parser can read it.
    """
    try:
        return orjson.loads(document)
    except orjson.JSONDecodeError:
        return _leniently(document)


def _leniently(document: str | bytes) -> Any:
    text = document if isinstance(document, str) else document.decode("utf-8", "replace")
    try:
        return _without_surrogates(_LENIENT.decode(text.strip()))
    except RecursionError as error:
        msg = "nested too deeply"
        raise ValueError(msg) from error


def _refused(line: bytes) -> Iterator[Record | Note]:
    if not line.strip():
        return
    try:
        value = _leniently(line)
    except ValueError:
        yield _unreadable(line)
        return
    if isinstance(value, dict):
        yield value
        yield Note("the line above was not valid JSON in UTF-8 and was repaired", "warning")
    else:
        yield _unreadable(line)


def _unreadable(line: bytes) -> Note:
    line = line.rstrip(b"\r\n")
    start = line[: _SHOWN * 4].decode("utf-8", "replace").strip()[:_SHOWN]
    return Note(f"unreadable line of {len(line)} bytes: {start}", "warning")


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value


def obj(value: object) -> Record:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """The value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def string(value: object) -> str:
    """The value if it is a string, else the empty one."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """The value if it is a whole number from 0 up, and not absurd, else None: unknown, never 0."""
    if type(value) is int:
        return value if 0 <= value <= _MOST else None
    if isinstance(value, float) and 0 <= value <= _MOST and value.is_integer():
        return int(value)
    return None


def money(value: object) -> float | None:
    """The value if it is a number from 0 up that can be a price (or a time since 1970), else None."""
    if type(value) is float or type(value) is int:
        return float(value) if 0 <= value <= _DEAREST else None
    return None
