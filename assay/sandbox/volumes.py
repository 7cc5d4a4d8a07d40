"""Volumes that are filled once and then only read: a copy of a folder of this machine, for containers to look at.

The name of a volume stands for what is in it, so one that is complete is right and is never filled again. Complete is
one that has its mark, which is put in last of all; it lies beside the copy, readable by root alone.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from assay.model.errors import EngineError
from assay.sandbox import archive
from assay.sandbox.archive import Put, TarReader
from assay.sandbox.below import Below
from assay.sandbox.build import Say, engine_words, only_one
from assay.sandbox.engine import Engine
from assay.sandbox.spec import LABEL, NotThere, Spec

MARK = ".assay.json"
MOUNT = "/copy"
FILL_SECONDS = 1800
"""For another process that is filling the same volume."""

CHUNK = 1 << 20
_LONG = 100
_LARGEST_OCTAL = 8**11


class Thing(NamedTuple):
    """One thing to copy. Names are bytes, relative to the top of the volume.

    Attributes:
        source: Where a regular file lies on this machine; "" if `data` is its content.
        within: The folder, above the file, below which no link is followed.
        stamp: Whatever tells this state of the file from another.
        link: Target of a symbolic link.
    """

    name: bytes
    kind: bytes
    mode: int = 0o755
    source: bytes = b""
    size: int = 0
    stamp: tuple[int, ...] = ()
    link: bytes = b""
    data: bytes = b""
    within: bytes = b""


class Copied:
    """What was found out while copying.

    Attributes:
        refused: Names of files that were left out because of what they begin with.
        unread: Names of files that could not be read.
    """

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.unread: list[str] = []

    def as_dict(self) -> dict[str, list[str]]:
        """As the mark has it."""
        return {"refused": self.refused, "unread": self.unread}


def ensure(
    engine: Engine,
    image: str,
    volume: str,
    labels: Mapping[str, str],
    fill: Callable[[Copied], Iterable[bytes]],
    say: Say,
    title: str,
    *,
    container_labels: Mapping[str, str],
) -> dict[str, Any]:
    """Fill a volume unless it is there and complete; what its mark says.

    Args:
        engine: Where.
        image: Any image; nothing of it is started.
        volume: Its name.
        labels: Of the volume.
        fill: The tar stream of its content, without an end mark.
        say: Is told when another process is filling it.
        title: What is copied, for a reader.
        container_labels: Of the container through which it is filled.

    Raises:
        EngineError: The engine failed; what was filled until then counts as nothing.
        BuildFailed: Another process did not finish in time.
    """
    with only_one(volume, title, say, FILL_SECONDS):
        marks = {**container_labels, "assay.volume": volume}
        for stale in engine.containers({"assay.volume": volume, "assay.role": "copy"}):
            # We hold the lock: whoever made it is gone.
            engine.remove(stale["Id"])
        if _exists(engine, volume):
            found = _looked_at(engine, image, volume, marks)
            if found is not None:
                return found
            remove(engine, volume)
        with engine_words(f"create the volume {volume}"):
            engine.api.create_volume(volume, labels={LABEL: "1", **labels})
        return _filled(engine, image, volume, marks, fill)


def _looked_at(engine: Engine, image: str, volume: str, labels: Mapping[str, str]) -> dict[str, Any] | None:
    holder = _holder(engine, image, volume, labels)
    try:
        return mark_of(engine, holder, MOUNT)
    finally:
        engine.remove(holder)


def _filled(
    engine: Engine, image: str, volume: str, labels: Mapping[str, str], fill: Callable[[Copied], Iterable[bytes]]
) -> dict[str, Any]:
    holder, copied = _holder(engine, image, volume, labels), Copied()

    def stream() -> Iterator[bytes]:
        yield from fill(copied)
        yield archive.END

    try:
        engine.put(holder, stream(), MOUNT)
        said = copied.as_dict()
        engine.put(holder, archive.pack([Put(MARK, json.dumps(said).encode(), 0o600)]), MOUNT)
    finally:
        engine.remove(holder)
    return dict(said)


def _holder(engine: Engine, image: str, volume: str, labels: Mapping[str, str]) -> str:
    """A container that is never started: through it the engine opens the volume."""
    spec = Spec(image, ["/"], f"{volume}-copy", {**labels, "assay.role": "copy"}, volumes={MOUNT: (volume, "rw")})
    return engine.create(spec)


def mark_of(engine: Engine, container: str, mount: str) -> dict[str, Any] | None:
    """What the mark of the volume says that a container has mounted there; None if it is not complete."""
    try:
        _, stream = engine.get(container, f"{mount}/{MARK}")
    except NotThere:
        return None
    with stream:
        reader = TarReader(stream)
        content = [b"".join(reader.content()) for _ in reader]
    try:
        said = json.loads(b"".join(content))
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def listed(engine: Engine, label: str) -> list[dict[str, Any]]:
    """Our volumes with a label."""
    with engine_words("list volumes"):
        found = engine.api.volumes(filters={"label": [LABEL, label]})
    return list(found.get("Volumes") or [])


def remove(engine: Engine, volume: str) -> None:
    """Remove a volume; one that is gone is fine.

    Raises:
        EngineError: A container uses it, or the engine failed.
    """
    import docker.errors

    with engine_words(f"remove the volume {volume}"):
        try:
            engine.api.remove_volume(volume)
        except docker.errors.NotFound:
            return


def remove_unused(engine: Engine, label: str, but: str) -> None:
    """Remove our volumes with a label, except one and those that a container uses."""
    for found in listed(engine, label):
        if found["Name"] != but:
            try:
                remove(engine, found["Name"])
            except EngineError:
                continue


def _exists(engine: Engine, volume: str) -> bool:
    import docker.errors

    with engine_words(f"look at the volume {volume}"):
        try:
            engine.api.inspect_volume(volume)
        except docker.errors.NotFound:
            return False
    return True


# -- the stream -----------------------------------------------------------------------------------------------------


def stream(things: Iterable[Thing], owner: int, copied: Copied, refuse: Callable[[bytes], bool]) -> Iterator[bytes]:
    """A tar stream of these things, in chunks, all of them `owner`'s and readable by it; without an end mark.

    A file is as long as it was when it was opened. 100,000 small files cost 2.3 s of CPU, with the standard library's
    writer three times as much (measured).

    Args:
        things: In an order in which folders come before what is in them.
        owner: User and group.
        copied: Is told what had to be left out.
        refuse: Whether a file that begins like this is left out.
    """
    parts: list[bytes] = []
    held = 0
    with Below() as below:
        for thing in things:
            for part in _member(thing, owner, copied, refuse, below):
                parts.append(part)
                held += len(part)
                if held >= CHUNK:
                    yield b"".join(parts)
                    parts, held = [], 0
    yield b"".join(parts)


def _member(thing: Thing, owner: int, copied: Copied, refuse: Callable[[bytes], bool], below: Below) -> Iterator[bytes]:
    if thing.kind != archive.REGULAR:
        mode = 0o777 if thing.kind == archive.SYMLINK else thing.mode & 0o777 | 0o500
        yield _header(thing, owner, 0, mode)
        return
    if not thing.source:
        yield _header(thing, owner, len(thing.data), thing.mode & 0o777 | 0o400)
        yield thing.data + bytes(-len(thing.data) % archive.BLOCK)
        return
    try:
        # Whatever has come in the place of the file since it was listed: no link is followed, no fifo waited for.
        number = below.open(thing.within, thing.source)
    except OSError:
        copied.unread.append(os.fsdecode(thing.name))
        return
    try:
        state = os.fstat(number)
        head = os.read(number, CHUNK) if stat.S_ISREG(state.st_mode) else b""
        if not stat.S_ISREG(state.st_mode) or refuse(head):
            copied.refused.append(os.fsdecode(thing.name))
            return
        yield _header(thing, owner, state.st_size, thing.mode & 0o777 | 0o400)
        yield from _exactly(number, head, state.st_size)
    finally:
        os.close(number)


def _exactly(number: int, part: bytes, size: int) -> Iterator[bytes]:
    """A file's content cut, or padded with zeros, to the size that its header promised."""
    left = size
    while left:
        part = part[:left] or bytes(min(left, CHUNK))
        yield part
        left -= len(part)
        if left:
            part = os.read(number, CHUNK)
    if padding := -size % archive.BLOCK:
        yield bytes(padding)


def _header(thing: Thing, owner: int, size: int, mode: int) -> bytes:
    """A header as GNU tar writes it: names may be any bytes, of any length."""
    name = thing.name + b"/" if thing.kind == archive.DIRECTORY else thing.name
    mtime = thing.stamp[0] // 10**9 if thing.stamp else 0
    long = b""
    for kind, text in ((b"L", name), (b"K", thing.link)):
        if len(text) > _LONG:
            data = text + b"\0"
            long += _block(b"././@LongLink", kind, 0, 0, len(data), 0, b"")
            long += data + bytes(-len(data) % archive.BLOCK)
    return long + _block(name[:_LONG], thing.kind, mode, owner, size, max(0, mtime), thing.link[:_LONG])


def _block(name: bytes, kind: bytes, mode: int, owner: int, size: int, mtime: int, link: bytes) -> bytes:
    length = b"%011o\0" % size if size < _LARGEST_OCTAL else b"\x80" + size.to_bytes(11, "big")
    head = b"%-8s%-8s" % (b"%07o\0" % owner, b"%07o\0" % owner)
    before = name.ljust(_LONG, b"\0") + b"%07o\0" % mode + head + length + b"%011o\0" % min(mtime, _LARGEST_OCTAL - 1)
    after = kind + link.ljust(_LONG, b"\0") + b"ustar  \0"
    total = sum(before) + sum(after) + 8 * 32
    return (before + b"%06o\0 " % total + after).ljust(archive.BLOCK, b"\0")
