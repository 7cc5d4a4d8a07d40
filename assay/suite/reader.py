"""A strict view of one table of a suite's file: every key must be asked for, or it is an error."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from assay.model.errors import ConfigError, did_you_mean
from assay.model.toml import dotted
from assay.model.units import parse_duration
from assay.suite.patterns import BadPattern, Pattern

T = TypeVar("T")

_GO_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_GO_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_YES = {"yes": True, "on": True, "no": False, "off": False}


def seconds_of(value: object) -> float:
    """Seconds, from a number of seconds or a text such as `1m30s`, `500us` or `1.5h`.

    Raises:
        ValueError: It is no duration, or not longer than nothing.
    """
    text = value.strip().removeprefix("+") if isinstance(value, str) else ""
    if text and not _GO_PART.sub("", text):
        total = sum(float(number) * _GO_UNITS[unit] for number, unit in _GO_PART.findall(text))
        if total > 0:
            return total
    if text.startswith("-") or (text and text.strip("0.") in ("", "s")):
        msg = f"a duration must be longer than nothing, not {value!r}; leave the key out for no limit"
        raise ValueError(msg)
    if re.fullmatch(r"\d+(\.\d+)?", text):
        msg = f"{value!r} has no unit; write {text}s, or the number of seconds without quotes"
        raise ValueError(msg)
    return parse_duration(value)


class Table:
    """One table: read its keys, then call `finish`.

    Args:
        data: The table.
        file: The file, as the user would name it.
        where: Its place in the file.
    """

    def __init__(self, data: Mapping[str, Any], file: Path, where: tuple[str | int, ...] = ()) -> None:
        self.data, self.file, self.where = data, file, where
        self._asked: list[str] = []

    def __contains__(self, key: str) -> bool:
        """Whether the key is given; asking counts as knowing it."""
        return self.get(key) is not None

    def fail(self, key: str, problem: str) -> NoReturn:
        """Say what is wrong with a key ("" for the table itself)."""
        path = dotted((*self.where, key) if key else self.where)
        raise ConfigError(self.file, path, problem)

    def get(self, key: str) -> Any:
        """The value as it stands; None when it is not given."""
        self._asked.append(key)
        return self.data.get(key)

    def finish(self) -> None:
        """Refuse every key that nothing asked for."""
        for key in self.data:
            if key not in self._asked:
                known = sorted(set(self._asked))
                hint = did_you_mean(key, known) or f"; known here: {', '.join(known)}"
                self.fail(key, f"unknown key, it would have been ignored{hint}")

    def text(self, key: str, default: str = "") -> str:
        """A text; a number is taken as it was spelled."""
        value = self.get(key)
        return default if value is None else self._as_text(key, value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; () when not given."""
        value = self.get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            self.fail(key, f"must be a list of texts, not {shown(value)}; write [{shown(value)}]")
        return tuple(self._as_text(key, item) for item in value)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, str) and self.file.suffix != ".toml":
            value = _YES.get(value.lower(), value)
        if not isinstance(value, bool):
            self.fail(key, f"must be true or false, not {shown(value)}")
        return value

    def seconds(self, key: str) -> float | None:
        """A duration in seconds, longer than nothing."""
        value = self.get(key)
        if value is None:
            return None
        try:
            return seconds_of(value)
        except ValueError as error:
            self.fail(key, str(error))

    def number(self, key: str, low: float = -math.inf, high: float = math.inf) -> float | None:
        """A finite number in [low, high]."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.fail(key, f"must be a number, not {shown(value)}")
        if not low <= value <= high:
            self.fail(key, f"must lie between {low:g} and {high:g}, not be {shown(value)}")
        return value

    def whole(self, key: str, low: int = 0) -> int | None:
        """A whole number of at least `low`."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(key, f"must be a whole number, not {shown(value)}")
        if value < low:
            self.fail(key, f"must be at least {low}, not {value}")
        return value

    def choice(self, key: str, choices: tuple[str, ...], default: str) -> str:
        """One of a closed list of words."""
        value = self.get(key)
        if value is None:
            return default
        if value not in choices:
            hint = did_you_mean(str(value), choices)
            self.fail(key, f"must be one of {', '.join(choices)}, not {shown(value)}{hint}")
        return str(value)

    def mapping(self, key: str) -> dict[str, Any] | None:
        """A table as plain data, JSON all through; None when not given."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.fail(key, f"must be a table of keys, not {shown(value)}")
        return {str(name): self.plain(key, item) for name, item in value.items()}

    def plain(self, key: str, value: object) -> object:
        """A value as JSON can carry it: numbers lose their spelling, a TOML date becomes its text."""
        if isinstance(value, dict):
            return {str(name): self.plain(key, item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.plain(key, item) for item in value]
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                self.fail(key, f"{value} has no place in JSON")
            return float(value)
        return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)

    def patterns(self, key: str) -> tuple[Pattern, ...]:
        """Regular expressions, compiled now so that a bad one is found before anything starts."""
        out = []
        for index, text in enumerate(self.texts(key)):
            if not text:
                self.fail(key, "the empty pattern matches everything, so it asserts nothing; leave it out")
            try:
                out.append(Pattern(text))
            except BadPattern as error:
                self.fail(key, f"item {index + 1}, {text!r}, is no regular expression: {error}")
        return tuple(out)

    def table(self, key: str) -> Table | None:
        """A table below this one."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.fail(key, f"must be a table of keys, not {shown(value)}")
        return Table(value, self.file, (*self.where, key))

    def tables(self, key: str) -> Iterator[Table]:
        """A list of tables."""
        value = self.get(key)
        if value is None:
            return
        if not isinstance(value, list):
            self.fail(key, f"must be a list, not {shown(value)}")
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                place = dotted((*self.where, key, index))
                raise ConfigError(self.file, place, f"must be a table of keys, not {shown(item)}")
            yield Table(item, self.file, (*self.where, key, index))

    def each(self, key: str, read: Callable[[Table], T]) -> tuple[T, ...]:
        """A list of tables, each read by `read` and finished."""
        out = []
        for table in self.tables(key):
            out.append(read(table))
            table.finish()
        return tuple(out)

    def _as_text(self, key: str, value: object) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int | float):
            return str(getattr(value, "text", value))
        return self.fail(key, f"must be a text, not {shown(value)}")


def shown(value: object) -> str:
    """A value for a message, short."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    text = repr(value) if isinstance(value, str) else str(getattr(value, "text", value))
    return text if len(text) <= 60 else f"{text[:57]}…"
