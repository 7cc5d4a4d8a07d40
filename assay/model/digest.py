"""One digest over files and folders: names, kinds, modes, link targets and contents."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

from assay.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_FORMAT = b"assay task 1\n"


def digest_of(head: bytes, paths: Iterable[Path]) -> str:
    """sha256 in hex over `head` and all that is at or below the paths; a path that is not there counts as such.

    Contents are streamed. Names are bytes, so those that are not UTF-8 count as they are. Owner and times do not
    count. A link counts by its target and is not followed, except where a path itself is one.

    Raises:
        ConfigError: Something cannot be read, or is neither a regular file, a directory nor a link.
    """
    total = hashlib.sha256(_FORMAT)
    _add(total, head)
    for path in paths:
        if path.exists():
            for record in _walk(os.fsencode(path.resolve()), os.fsencode(path.name)):
                for field in record:
                    _add(total, field)
    return total.hexdigest()


def _add(total: hashlib._Hash, field: bytes) -> None:
    total.update(len(field).to_bytes(8, "big"))
    total.update(field)


def _walk(real: bytes, name: bytes) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """(name, kind, mode, content or its digest) of a path and of everything below, in the order of names."""
    try:
        state = os.lstat(real)
        mode = f"{stat.S_IMODE(state.st_mode):o}".encode()
        if stat.S_ISLNK(state.st_mode):
            yield name, b"link", b"", os.readlink(real)  # noqa: PTH115 - a name that is bytes has no Path
        elif stat.S_ISREG(state.st_mode):
            with open(real, "rb") as file:  # noqa: PTH123 - as above
                yield name, b"file", mode, hashlib.file_digest(file, "sha256").digest()
        elif stat.S_ISDIR(state.st_mode):
            yield name, b"folder", mode, b""
            for entry in sorted(os.listdir(real)):  # noqa: PTH208 - as above
                yield from _walk(real + b"/" + entry, name + b"/" + entry)
        else:
            problem = "is neither a regular file, a folder nor a link; a task holds nothing else"
            raise ConfigError(os.fsdecode(real), "", problem)
    except OSError as error:
        problem = f"cannot be read: {(error.strerror or str(error)).lower()}"
        raise ConfigError(os.fsdecode(real), "", problem) from None
