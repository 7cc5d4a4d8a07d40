"""Durations and sizes as people write them: `"30m"`, `"1h30m"`, `90`; `"2GiB"`, `"512MB"`, `1048576`; and moments."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = (
    {"B": 1}
    | {p + "B": 1000**i for i, p in enumerate("kMGT", 1)}
    | {p + "iB": 1024**i for i, p in enumerate("KMGT", 1)}
)
LONGEST = 365 * 86400
LARGEST = 1 << 60
MOST_RUNS = 1000
"""Of one rung: each is planned and remembered before the first begins."""
MOST_JOBS = 256
"""Runs at once: each has threads, connections and containers of its own."""
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)")
_DURATION_HINT = 'write seconds (90) or a number with ms, s, m, h or d ("30m", "1h30m")'
_SIZE_HINT = 'write bytes (1048576) or a number with kB, MB, GB, TB, KiB, MiB, GiB or TiB ("2GiB")'


def parse_duration(value: object) -> float:
    """Seconds, from a number of seconds or a text such as `"30m"`.

    Raises:
        ValueError: It is no duration, or not longer than nothing; the message says what to write.
    """
    seconds: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(min(value, LONGEST + 1))
    elif isinstance(value, str):
        text = value.strip()
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
            seconds = float(text)
        elif text and not _DURATION.sub("", text):
            seconds = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(text))
    if seconds is None or not math.isfinite(seconds):
        msg = f"{value!r} is not a duration; {_DURATION_HINT}"
        raise ValueError(msg)
    if seconds <= 0:
        msg = f"a duration must be longer than nothing, not {value!r}"
        raise ValueError(msg)
    if seconds > LONGEST:
        msg = f"a duration of more than {show_duration(LONGEST)} cannot be waited for; write a shorter one"
        raise ValueError(msg)
    return seconds


def parse_size(value: object) -> int:
    """Bytes, from a number of bytes or a text such as `"2GiB"`.

    Raises:
        ValueError: It is no size, or not more than nothing; the message says what to write.
    """
    size: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str):
        text = value.strip()
        if text.isascii() and text.isdigit():
            size = int(text)
        elif match := _SIZE.fullmatch(text):
            unit = next((u for u in _BYTES if u.lower() == match[2].lower()), None)
            size = int(float(match[1]) * _BYTES[unit]) if unit else None
    if size is None:
        msg = f"{value!r} is not a size; {_SIZE_HINT}"
        raise ValueError(msg)
    if size <= 0:
        msg = f"a size must be more than nothing, not {value!r}"
        raise ValueError(msg)
    if size > LARGEST:
        msg = f"a size of more than {show_size(LARGEST)} is more than an engine can count; write a smaller one"
        raise ValueError(msg)
    return size


def show_duration(seconds: float) -> str:
    """The shortest text that `parse_duration` reads back as the same: `1800` becomes `30m`."""
    if seconds != int(seconds):
        return f"{seconds:g}s"
    left, parts = int(seconds), []
    for unit in ("d", "h", "m"):
        n, left = divmod(left, int(_SECONDS[unit]))
        parts += [f"{n}{unit}"] if n else []
    return "".join(parts + ([f"{left}s"] if left or not parts else []))


def show_size(size: int) -> str:
    """The shortest text that `parse_size` reads back as the same: `2147483648` becomes `2GiB`."""
    for unit, factor in sorted(_BYTES.items(), key=lambda pair: -pair[1]):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}B"


def show_moment(at: datetime, *, dated: bool = False) -> str:
    """A moment by the reader's clock, with what that clock differs from UTC: `15:40 UTC+02:00`.

    Args:
        at: With a zone of its own.
        dated: With the whole date; else only the day, and only if that is not today.
    """
    local = at.astimezone()
    today = type(at).now(local.tzinfo).date()
    offset = f"{local:%z}"
    zone = "UTC" if offset == "+0000" else f"UTC{offset[:3]}:{offset[3:5]}"
    day = f"{local:%Y-%m-%d} " if dated else f"{local:%a %d %b} " if local.date() != today else ""
    return f"{day}{local:%H:%M} {zone}"
