"""One table of assay.toml from four layers: built in, file, environment, flag; the last that speaks decides."""

from __future__ import annotations

import contextlib
import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from assay.model.errors import ConfigError, UsageError
from assay.model.place import PROJECT_FILE
from assay.model.toml import validate

if TYPE_CHECKING:
    from assay.model.table import Table

_YES_NO = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}

T = TypeVar("T", bound="Table")


class Source(StrEnum):
    """What kind of place a value came from."""

    DEFAULT = "default"
    FILE = "file"
    TASK = "task"
    ENVIRONMENT = "environment"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: the kind of place, and which one (a file, a variable, an option)."""

    source: Source
    where: str = ""

    def __str__(self) -> str:
        return f"{self.source} {self.where}".rstrip()


BUILT_IN = Origin(Source.DEFAULT)


@dataclass(frozen=True, slots=True)
class Layered(Generic[T]):
    """A table, the origin of each of its keys by dotted path, and what to warn of."""

    table: T
    origins: dict[str, Origin]
    warnings: tuple[str, ...]


def layered(
    model: type[T], name: str, data: Mapping[str, Any], flags: Mapping[str, object], environ: Mapping[str, str]
) -> Layered[T]:
    """Make the table `name` of what the file, the environment and the flags say of it.

    Variables are `ASSAY_<KEY>` for `[defaults]` and `ASSAY_<TABLE>_<KEY>` for another table; flags are keys of
    `[defaults]`, or `table.key`.

    Raises:
        UsageError: A variable or a flag has a value that does not do.
    """
    values: dict[str, Any] = dict(data.get(name, {}))
    origins = {f"{name}.{key}": BUILT_IN for key in model.model_fields}
    origins |= {f"{name}.{key}": Origin(Source.FILE, PROJECT_FILE) for key in values}
    stem = "ASSAY_" if name == "defaults" else f"ASSAY_{name.upper()}_"
    for key in model.model_fields:
        variable, option = stem + key.upper(), key if name == "defaults" else f"{name}.{key}"
        given = [
            (Origin(Source.ENVIRONMENT, variable), environ.get(variable) or None),
            (Origin(Source.FLAG, "--" + option.replace("_", "-").replace(".", "-")), flags.get(option)),
        ]
        for origin, value in given:
            if value is not None:
                values[key] = _checked(model, key, value, origin)
                origins[f"{name}.{key}"] = origin
    return Layered(validate(model, values, PROJECT_FILE, name), origins, _near_misses(model, stem, environ))


def _checked(model: type[T], key: str, value: object, origin: Origin) -> object:
    """The value, or its text read as TOML where the key wants no text."""
    tries = [value]
    if isinstance(value, str):
        for text in (value.lower(), _YES_NO.get(value.lower(), value)):
            with contextlib.suppress(ValueError, RecursionError):
                tries.append(tomllib.loads(f"v = {text}")["v"])
    fault = ""
    for candidate in tries:
        try:
            validate(model, {key: candidate}, origin.where)
        except ConfigError as error:
            fault = fault or error.problem
        else:
            return candidate
    msg = f"{origin.where}: {fault}"
    raise UsageError(msg)


def _near_misses(model: type[T], stem: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Variables that look like a misspelt one of ours: they would be ignored in silence."""
    known = [key.upper() for key in model.model_fields]
    warnings = []
    for variable in sorted(environ):
        key = variable.removeprefix(stem)
        if (
            variable.startswith(stem)
            and key not in known
            and (near := difflib.get_close_matches(key, known, n=1, cutoff=0.75))
        ):
            warnings.append(
                f"{variable} in the environment is none of ours and ignored (did you mean {stem}{near[0]}?)"
            )
    return tuple(warnings)
