"""Types of the values in our TOML files."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema

from assay.model.units import parse_duration, parse_size

_NAME = r"^[a-z0-9][a-z0-9._-]*$"
_ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
_ENV_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*\*?$"
_HOST = r"^[A-Za-z0-9.-]+$"
_HEADER = r"^[a-z][a-z0-9-]*$"
_PATH = r"^/[A-Za-z0-9._~/-]*$"
_WORD = r"^[A-Za-z0-9_-]*$"

IN_WORDS = {
    _NAME: "lower-case letters, digits, '.', '_' and '-'",
    _ENV_NAME: "letters, digits and '_', as a variable's name",
    _ENV_PATTERN: "letters, digits and '_', as a variable's name, with '*' at the end for a prefix",
    _HOST: "letters, digits, '.' and '-', as a host's name",
    _HEADER: "lower-case letters, digits and '-', as a header's name",
    _PATH: "'/', then letters, digits, '.', '_', '~', '-' and '/', as a URL's path",
    _WORD: "letters, digits, '_' and '-'",
}
"""What each pattern allows, for people."""

Name = Annotated[str, StringConstraints(pattern=_NAME)]
EnvName = Annotated[str, StringConstraints(pattern=_ENV_NAME)]
EnvPattern = Annotated[str, StringConstraints(pattern=_ENV_PATTERN)]
Host = Annotated[str, StringConstraints(pattern=_HOST)]
HeaderName = Annotated[str, StringConstraints(pattern=_HEADER)]
UrlPath = Annotated[str, StringConstraints(pattern=_PATH)]
Word = Annotated[str, StringConstraints(pattern=_WORD)]

_NUMBER: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0}
_COUNT: dict[str, Any] = {"type": "integer", "exclusiveMinimum": 0}

Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema({"anyOf": [_NUMBER, {"type": "string", "pattern": r"^\s*([0-9]+(\.[0-9]+)?(ms|s|m|h|d)?)+\s*$"}]}),
]
"""Seconds."""

_SIZE = WithJsonSchema(
    {"anyOf": [_COUNT, {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([kKMGTmgt]i?)?[bB]?\s*$"}]}
)

Size = Annotated[int, BeforeValidator(parse_size), _SIZE]
"""Bytes."""

LEAST_MEMORY = 6 << 20
"""What a Docker Engine asks for at least (20.10, "Minimum memory limit allowed is 6MB")."""


def _enough_memory(value: int) -> int:
    if value < LEAST_MEMORY:
        msg = f"{value} bytes are less than the 6MiB that a container needs; no run would start; write more"
        raise ValueError(msg)
    return value


Memory = Annotated[int, BeforeValidator(parse_size), AfterValidator(_enough_memory), _SIZE]
"""Bytes, enough for a container."""

Cpus = Annotated[float, Field(ge=0.01)]
"""Processors, fractions allowed; a Docker Engine takes no less than a hundredth."""


def _not_the_home(value: str) -> str:
    if value == "HOME":
        msg = "HOME is the agent's own, where its CLI keeps sign-in and session; it would find neither; leave it out"
        raise ValueError(msg)
    return value


OwnEnvName = Annotated[str, StringConstraints(pattern=_ENV_NAME), AfterValidator(_not_the_home)]
"""A variable that a task may set."""
