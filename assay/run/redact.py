"""Keep known secrets out of everything that is kept.

Values are found plain, JSON-escaped and in base64 at its three alignments, and are overwritten with asterisks of the
same length: offsets, tar sizes and line lengths stay true. What this cannot see: a secret that was compressed,
encrypted, encoded otherwise, or split over several events.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from pathlib import Path

STEP = 1 << 20
SHORTEST = 6
"""A shorter secret would strike out innocent words."""

SHORTEST_PART = 8
"""The same of what a path shows of a secret with slashes in it."""


def forms(secret: str) -> set[bytes]:
    """Every way of writing a secret that is looked for."""
    plain = secret.encode("utf-8", "surrogateescape")
    if len(plain) < SHORTEST:
        return set()
    found = {plain}
    found.add(json.dumps(secret)[1:-1].encode())
    found.add(json.dumps(secret, ensure_ascii=False)[1:-1].encode("utf-8", "surrogateescape"))
    for shift in range(3):
        # The first and last characters of an encoding also depend on the neighbours, so only the inner ones are sure.
        encoded = base64.b64encode(bytes(shift) + plain)
        first = (0, 2, 3)[shift]
        last = len(encoded) - (0, 3, 2)[(len(plain) + shift) % 3]
        inner = encoded[first:last]
        if len(inner) >= SHORTEST:
            found.add(inner)
            found.add(inner.replace(b"+", b"-").replace(b"/", b"_"))
    return found


class Redactor:
    """Overwrites known secrets and counts how often it did.

    Args:
        secrets: The values that must not be kept.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._needles: list[bytes] = []
        self._parts: list[bytes] = []
        self.count = 0
        self.know(secrets)

    def know(self, secrets: Iterable[str]) -> None:
        """Learn further values (a token that was renewed during the run)."""
        needles = set(self._needles).union(*(forms(secret) for secret in secrets))
        self._needles = sorted(needles, key=len, reverse=True)
        cuts = {needle[: at + 1] for needle in needles for at, byte in enumerate(needle) if byte == ord("/")}
        self._parts = sorted((part for part in cuts if len(part) > SHORTEST_PART), key=len, reverse=True)

    @property
    def longest(self) -> int:
        """Length of the longest form; 0 when there is nothing to look for."""
        return len(self._needles[0]) if self._needles else 0

    def clean(self, data: bytes) -> bytes:
        """The same bytes with every known secret overwritten."""
        for needle in self._needles:
            if needle in data:
                self.count += data.count(needle)
                data = data.replace(needle, b"*" * len(needle))
        return data

    def clean_name(self, name: bytes) -> bytes:
        """The same path with every known secret overwritten.

        One with slashes in it becomes folders, which have names of their own: what they show of it goes too.
        """
        name = self.clean(name)
        for part in self._parts:
            if part in name:
                self.count += name.count(part)
                name = name.replace(part, b"*" * (len(part) - 1) + b"/")
        return name

    def finds(self, data: bytes) -> bool:
        """Whether there is anything to overwrite; not counted."""
        return any(needle in data for needle in self._needles)


def clean_file(path: Path, redactor: Redactor) -> None:
    """Overwrite secrets in a file that was kept before they were known; one that is not there is left alone."""
    overlap = redactor.longest - 1
    if overlap < 0 or not path.is_file():
        return
    with path.open("r+b") as file:
        at = 0
        while len(data := file.read(STEP)) > (overlap if at else 0):
            cleaned = redactor.clean(data)
            if cleaned != data:
                file.seek(at)
                file.write(cleaned)
            at += max(len(data) - overlap, 1)
            file.seek(at)


class Stream:
    """Clean a stream in chunks, also where a secret lies across two of them.

    Args:
        redactor: Knows the secrets.
        out: Gets the cleaned bytes, in order; the last `longest - 1` only at `close`.
    """

    def __init__(self, redactor: Redactor, out: Callable[[bytes], object]) -> None:
        self._redactor, self._out = redactor, out
        self._held = b""

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        keep = self._redactor.longest - 1
        if keep < 0:
            self._out(data)
            return
        data = self._redactor.clean(self._held + data)
        cut = max(0, len(data) - keep)
        self._out(data[:cut])
        self._held = data[cut:]

    def close(self) -> None:
        """Let go of what was held back."""
        if self._held:
            self._out(self._redactor.clean(self._held))
            self._held = b""
