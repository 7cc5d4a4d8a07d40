"""Types of the values in our TOML files."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema

from assay.model.units import MOST_JOBS, MOST_RUNS, parse_duration, parse_size

_NAME = r"^[a-z0-9][a-z0-9._-]*$"
_ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
_ENV_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*\*?$"
_HOST = (
    r"^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*"
    r"[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$"
)
_HEADER = r"^[a-z][a-z0-9-]*$"
_PATH = r"^/[A-Za-z0-9._~/-]*$"
_WORD = r"^[A-Za-z0-9_-]*$"
_DECODER = r"^[a-z][a-z0-9]*$"
_VERSION = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"
_HOME_PATH = r"^~/[^\x00-\x1f\x7f]+$"
# As the engine's own grammar of references has it: [host[:port]/]path[:tag][@digest].
_IMAGE = (
    r"^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?/|\[[0-9A-Fa-f:]+\](:[0-9]+)?/)?"
    r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,})?$"
)

IN_WORDS = {
    _NAME: "lower-case letters, digits, '.', '_' and '-'",
    _ENV_NAME: "letters, digits and '_', as a variable's name",
    _ENV_PATTERN: "letters, digits and '_', as a variable's name, with '*' at the end for a prefix",
    _HOST: "a host's name, as in api.example.com; an address is none",
    _HEADER: "lower-case letters, digits and '-', as a header's name",
    _PATH: "'/', then letters, digits, '.', '_', '~', '-' and '/', as a URL's path",
    _WORD: "letters, digits, '_' and '-'",
    _DECODER: "the name of a decoder: lower-case letters and digits",
    _VERSION: "letters, digits, '.', '_', '+' and '-', as a version",
    _HOME_PATH: "'~/' and a path below the home directory",
    _IMAGE: "an image's name as the engine takes it: name, name:tag or host/name:tag, the name in lower case",
}
"""What each pattern allows, for people."""

Name = Annotated[str, StringConstraints(pattern=_NAME)]
EnvName = Annotated[str, StringConstraints(pattern=_ENV_NAME)]
EnvPattern = Annotated[str, StringConstraints(pattern=_ENV_PATTERN)]
Host = Annotated[str, StringConstraints(pattern=_HOST)]
HeaderName = Annotated[str, StringConstraints(pattern=_HEADER)]
DecoderName = Annotated[str, StringConstraints(pattern=_DECODER)]
Version = Annotated[str, StringConstraints(pattern=_VERSION)]
ImageName = Annotated[str, StringConstraints(pattern=_IMAGE, max_length=512)]
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

LEAST_DISK = 1 << 20
"""Less than this no CLI's own files fit in, and any run would end at the disk limit."""


def _enough_disk(value: int) -> int:
    if value < LEAST_DISK:
        msg = f"{value} bytes are less than the 1MiB that any run writes; each would end at its disk limit; write more"
        raise ValueError(msg)
    return value


Disk = Annotated[int, BeforeValidator(parse_size), AfterValidator(_enough_disk), _SIZE]
"""Bytes, enough for a run to begin."""

Pids = Annotated[int, Field(gt=0, le=1 << 22)]
"""Processes and threads; a Linux kernel numbers no more than 2^22."""

Runs = Annotated[int, Field(gt=0, le=MOST_RUNS)]
"""Runs of a rung."""

Jobs = Annotated[int, Field(gt=0, le=MOST_JOBS)]
"""Runs at once."""

Cpus = Annotated[float, Field(ge=0.01)]
"""Processors, fractions allowed; a Docker Engine takes no less than a hundredth."""


def _not_the_home(value: str) -> str:
    if value == "HOME":
        msg = "HOME is the agent's own, where its CLI keeps sign-in and session; it would find neither; leave it out"
        raise ValueError(msg)
    return value


OwnEnvName = Annotated[str, StringConstraints(pattern=_ENV_NAME), AfterValidator(_not_the_home)]
"""A variable that a task may set."""


def _no_nul(value: str) -> str:
    if "\0" in value:
        msg = "holds a NUL byte, which no variable can hold: no process would start; take it out"
        raise ValueError(msg)
    return value


EnvValue = Annotated[str, AfterValidator(_no_nul)]
"""What a variable is set to."""


def _below(value: str) -> str:
    if any(part in ("", ".", "..") for part in value.rstrip("/").split("/")):
        msg = f"{value!r} may lie elsewhere than below the home directory; write the path without '.', '..' and '//'"
        raise ValueError(msg)
    return value


HomePath = Annotated[str, StringConstraints(pattern=_HOME_PATH), AfterValidator(_below)]
"""A path below the agent's home, `~/...`; placeholders and `*` where its field says so."""
