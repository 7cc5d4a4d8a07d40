"""One file per vendor stream.

A file in this folder is a decoder by its name, but for the shared parts named below; `claude_end` would be a part of
`claude`.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, cast

from assay.model.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from assay.model.events import Decoder

SHARED = frozenset({"ends", "envelope", "lines"})
"""Modules in this folder that decoders are made of."""


def names() -> list[str]:
    """Every decoder there is, sorted; found by file name, nothing is imported."""
    found = {module.name for module in pkgutil.iter_modules(__path__) if "_" not in module.name}
    return sorted(found - SHARED)


def get(name: str) -> Decoder:
    """The decoder of that name.

    Raises:
        UsageError: There is none; the nearest name and all names are told.
    """
    known = names()
    if name not in known:
        near = did_you_mean(name, known)
        msg = f"unknown decoder {name!r}{near}: the stream could not be read; known are {', '.join(known)}"
        raise UsageError(msg)
    return cast("Decoder", importlib.import_module(f"{__name__}.{name}"))
