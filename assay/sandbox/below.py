"""Opening files below a folder that others may change meanwhile: no link on the way is followed, whenever it came."""

from __future__ import annotations

import os
from types import TracebackType

_PASS = getattr(os, "O_PATH", os.O_RDONLY)
"""A folder that may be passed through need not be one that may be listed."""
_FOLDER = _PASS | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Below:
    """Keeps the last folder open, since files are mostly asked for folder by folder."""

    def __init__(self) -> None:
        self._held: tuple[bytes, bytes] | None = None
        self._number = -1

    def __enter__(self) -> Below:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    def open(self, within: bytes, path: bytes) -> int:
        """A descriptor for reading; a fifo is not waited for.

        Args:
            within: A folder, by a path that is trusted.
            path: A file below it, starting with it.

        Raises:
            OSError: There is no such file, or a link on the way.
        """
        *folders, name = path.removeprefix(within.rstrip(b"/") + b"/").split(b"/")
        if not name or {b"", b".", b".."} & {*folders, name}:
            msg = f"{os.fsdecode(path)} is not below {os.fsdecode(within)}"
            raise FileNotFoundError(msg)
        wanted = (within, b"/".join(folders))
        if self._held != wanted:
            self._let_go()
            self._number, self._held = _walked(within, folders), wanted
        return os.open(name, _FILE, dir_fd=self._number)

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._number)
            self._held = None


def _walked(within: bytes, folders: list[bytes]) -> int:
    number = os.open(within, _FOLDER)
    for folder in folders:
        above = number
        try:
            number = os.open(folder, _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return number
