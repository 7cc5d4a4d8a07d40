"""Reading a TOML file strictly: every fault named by file, dotted path, and what to write instead.

`read_toml` needs the standard library only; `validate` imports pydantic when it is called.
"""

from __future__ import annotations

import contextlib
import re
import signal
import tomllib
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from assay.model.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

    M = TypeVar("M", bound=BaseModel)
else:
    M = TypeVar("M")

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_POSITION = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_toml(file: Path) -> dict[str, Any]:
    """The content of a TOML file.

    Raises:
        ConfigError: It is missing, cannot be read, is not UTF-8 or not TOML; with the line where that is known.
    """
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        raise ConfigError(file, "", "no such file") from None
    except OSError as error:
        raise ConfigError(file, "", f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    return parse_toml(raw, file)


def parse_toml(raw: bytes, file: Path | str) -> dict[str, Any]:
    """The content of TOML text; `file` is what the user knows it by.

    Raises:
        ConfigError: It is not UTF-8, not TOML, or no TOML that can be read; with the line where that is known.
    """
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(file, f"line {line}", "not UTF-8; TOML files are UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        text = str(error)
        at = _POSITION.search(text)
        last = raw.count(b"\n") + 1
        place = f"line {at[1]}, column {at[2]}" if at and at[1] else f"line {last}, the end"
        said = _POSITION.sub("", text)
        what = f"{said}: the same key or table is given twice" if "overwrite" in said or "twice" in said else said
        raise ConfigError(file, place, f"not valid TOML: {what[:1].lower()}{what[1:]}") from None
    except RecursionError:
        raise ConfigError(
            file, "", "lists or tables are nested too deeply to be read; nothing here needs that"
        ) from None
    except ValueError:
        raise ConfigError(file, "", "a number has too many digits to be read; write a smaller one") from None


def validate(model: type[M], data: Mapping[str, Any], file: Path | str, prefix: str = "") -> M:
    """Make a model of data that was read from a file.

    Args:
        model: The pydantic model that the data must fit.
        data: What `read_toml` gave, or one table of it.
        file: What the user knows the file by.
        prefix: Dotted path of `data` inside the file.

    Raises:
        ConfigError: One line for each fault: dotted path, what is wrong, what to write instead.
    """
    from pydantic import ValidationError

    try:
        with _uninterrupted():
            return model.model_validate(data)
    except ValidationError as error:
        faults = [_fault(model, detail, file, prefix) for detail in error.errors(include_url=False)]
    raise faults[0] if len(faults) == 1 else ConfigError.several(faults)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits for the end of it: pydantic's core takes one in the midst of a pattern for a value that is wrong."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def dotted(parts: tuple[str | int, ...], prefix: str = "") -> str:
    """A place inside a TOML file: `stage.prune.rungs[1].effort`, keys quoted where TOML wants it."""
    text = prefix
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            key = part if _BARE.fullmatch(part) else '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'
            text += f".{key}" if text else key
    return text


def _fault(model: type[BaseModel], detail: ErrorDetails, file: Path | str, prefix: str) -> ConfigError:
    loc = detail["loc"]
    is_key = bool(loc) and loc[-1] == "[key]"
    loc = loc[:-1] if is_key else loc
    problem = _problem(model, detail, loc)
    if is_key:
        problem = f"as a name, {problem}"
    return ConfigError(file, dotted(loc, prefix), problem)


def _problem(model: type[BaseModel], detail: ErrorDetails, loc: tuple[str | int, ...]) -> str:
    from assay.model.fields import IN_WORDS

    kind, given, ctx = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        known = sorted(set().union(*(m.model_fields for m in _models_at(model, loc[:-1]))))
        hint = did_you_mean(str(loc[-1]), known)
        return f"unknown key, it would have been ignored{hint or '; known here: ' + ', '.join(known)}"
    if kind == "missing":
        return "required, but not given"
    if kind == "literal_error":
        choices = [c.strip("'") for c in re.findall(r"'[^']*'", str(ctx.get("expected", "")))]
        return f"{_shown(given)} is not one of {', '.join(choices)}{did_you_mean(str(given), choices)}"
    if kind == "string_pattern_mismatch":
        pattern = str(ctx.get("pattern"))
        return f"{_shown(given)} does not do; write {IN_WORDS.get(pattern, f'what matches {pattern}')}"
    if kind == "value_error":
        return str(ctx.get("error", detail["msg"]))
    wanted = _WANTED.get(kind.removesuffix("_type"), "")
    if kind.endswith("_type") and wanted:
        return f"must be {wanted}, not {_shown(given)}"
    said = detail["msg"].removeprefix("Input should ").removeprefix("Value error, ")
    return f"should {said}, not {_shown(given)}" if detail["msg"].startswith("Input should ") else said


_WANTED = {
    "string": 'a text in quotes, "…"',
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list, […]",
    "dict": "a table, { … }",
    "model": "a table, { … }",
}


def _shown(value: object) -> str:
    """A value as TOML writes it, cut to what fits in a line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _models_at(model: type[BaseModel], loc: tuple[str | int, ...]) -> Iterator[type[BaseModel]]:
    """The models that a place in a file may hold: down through fields, lists, tables of tables and unions."""
    types: list[Any] = [model]
    for part in loc:
        types = [step for kind in types for step in _step(kind, part)]
    yield from (kind for kind in types if hasattr(kind, "model_fields"))


def _step(kind: Any, part: str | int) -> Iterator[Any]:
    if hasattr(kind, "model_fields"):
        fields = kind.model_fields
        name = next((n for n, f in fields.items() if part in (n, f.alias)), None)
        yield from _spread(fields[name].annotation) if name else ()
    else:
        args = get_args(kind)
        yield from _spread(args[-1]) if args else ()


def _spread(kind: Any) -> Iterator[Any]:
    """The members of a union, Annotated taken off; anything else as it is."""
    if hasattr(kind, "__metadata__"):
        yield from _spread(get_args(kind)[0])
    elif type(kind).__name__ in {"UnionType", "Union", "_UnionGenericAlias"}:
        for member in get_args(kind):
            yield from _spread(member)
    else:
        yield kind
