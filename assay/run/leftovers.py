"""Which of the things an agent left go into the checker's container.

Regular files, directories and links do. Fifos, sockets and devices do not: a checker that opens one would hang. A
link into /proc, /sys or /dev does not either: through `/proc/self/fd` it would show the checker its own expected
answer in the agent's name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from assay.run.collect import TAR, Entry
from assay.sandbox import archive
from assay.sandbox.archive import TarReader

SPECIAL = (b"/proc", b"/sys", b"/dev")
MOST_LINKS = 40
"""Links followed before a path counts as a loop, as in the kernel."""


def graded_stream(run: Path, workdir: str) -> Iterator[bytes]:
    """The tar stream of the kept left files, for the folder that holds the working directory.

    Raises:
        OSError: The kept file cannot be read.
    """
    links = {m.name: m.link for m in _members(run) if m.type == archive.SYMLINK}
    top = posixpath.dirname(workdir.rstrip("/")).encode() or b"/"
    resolve = {posixpath.join(top, name): target for name, target in links.items()}
    reader = TarReader(_chunks(run))
    for member in reader:
        passed = member.type in (archive.REGULAR, archive.DIRECTORY, archive.HARD)
        if member.type == archive.SYMLINK:
            passed = not leads_astray(posixpath.join(top, member.name), resolve, workdir.encode())
        if passed:
            yield member.raw
            yield from reader.content()
            if member.padding:
                yield member.padding
    yield archive.END


def leads_astray(path: bytes, links: Mapping[bytes, bytes], workdir: bytes) -> bool:
    """Whether a path, followed through these links, may end in or above /proc, /sys or /dev.

    Only the links that were left are known. The image has links of its own: once outside of the working directory and
    the folders above it, a step upwards may lead anywhere, and counts as astray.
    """
    todo, done, followed = path.split(b"/")[::-1], b"/", 0
    while todo:
        part = todo.pop()
        if part in (b"", b"."):
            continue
        if part == b"..":
            if not (_within(done, workdir) or _within(workdir, done)):
                return True
            done = posixpath.dirname(done)
            continue
        step = posixpath.join(done, part)
        if step in SPECIAL:
            return True
        target = links.get(step)
        if target is None:
            done = step
            continue
        followed += 1
        if followed > MOST_LINKS:
            return True
        todo += target.split(b"/")[::-1]
        if target.startswith(b"/"):
            done = b"/"
    return done == b"/"


def _within(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")


def not_passed(tree: Mapping[bytes, Entry]) -> list[bytes]:
    """Names of the fifos, sockets and devices that were left."""
    odd = (archive.FIFO, archive.CHAR, archive.BLOCK_DEVICE)
    return sorted(name for name, entry in tree.items() if entry.type in odd)


def _chunks(run: Path) -> Iterator[bytes]:
    import zstandard

    with (run / TAR).open("rb") as file:
        yield from zstandard.ZstdDecompressor().read_to_iter(file, read_size=1 << 20)


def _members(run: Path) -> Iterable[archive.Member]:
    return TarReader(_chunks(run))
