"""Types of the values in our TOML files."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, StringConstraints, WithJsonSchema

from assay.model.units import parse_duration, parse_size

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
EnvPattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\*?$")]
Host = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.-]+$")]

_NUMBER: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0}
_COUNT: dict[str, Any] = {"type": "integer", "exclusiveMinimum": 0}

Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema({"anyOf": [_NUMBER, {"type": "string", "pattern": r"^\s*([0-9]+(\.[0-9]+)?(ms|s|m|h|d)?)+\s*$"}]}),
]
"""Seconds."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema(
        {"anyOf": [_COUNT, {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([kKMGTmgt]i?)?[bB]?\s*$"}]}
    ),
]
"""Bytes."""
