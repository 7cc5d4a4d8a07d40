"""What the agent left: taken out of the stopped container in one pass, kept exactly, unpacked with care, compared.

The names, types, sizes and links in the stream are the agent's: nothing of it decides where we write. The exact stream
goes to left.tar.zst; `left/` holds its directories and regular files for reading; everything else is listed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from assay.run.clean_tar import clean_member
from assay.run.redact import Redactor, Stream
from assay.sandbox import archive
from assay.sandbox.archive import Member, TarReader
from assay.sandbox.engine import Engine
from assay.sandbox.spec import NotThere

TAR = "left.tar.zst"
TREE = "left"
LISTED = "left-listed.txt"
CHANGES = "changes.txt"

DELETED = 2
"""As the engine numbers kinds of change."""

LONGEST_PATH = 3800
"""The kernel's limit is 4096; a directory with a longer name than this may hold what nobody can reach by its path."""

KINDS = {
    archive.HARD: "hard link",
    archive.SYMLINK: "link",
    archive.CHAR: "character device",
    archive.BLOCK_DEVICE: "block device",
    archive.FIFO: "fifo",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is collected before it is called too large.

    Attributes:
        size: Apparent bytes (a sparse file is cheap to make); 2 GiB by default.
        entries: Files, directories, links.
        seconds: Wall time of the whole collection.
    """

    size: int = 2 << 30
    entries: int = 200_000
    seconds: float = 300


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a tree: enough to tell whether it changed."""

    type: bytes
    executable: bool = False
    digest: bytes = b""
    link: bytes = b""


Tree = dict[bytes, Entry]
"""Paths relative to the working directory; the directory itself is not in it."""


@dataclass(slots=True)
class Left:
    """What was collected.

    Attributes:
        tree: Every entry.
        complete: False when a limit was reached; what was taken until then is kept, and it is never graded.
        reason: Why it is incomplete, or what was odd.
        listed: Lines for what was not unpacked.
    """

    tree: Tree = field(default_factory=dict)
    complete: bool = True
    reason: str = ""
    listed: list[bytes] = field(default_factory=list)


class Writer(Protocol):
    """The one thing that the zstd writer and a plain file have in common here."""

    def write(self, data: bytes, /) -> int:
        """Take bytes."""
        ...


def collect(engine: Engine, container: str, workdir: str, to: Path, redactor: Redactor, limits: Limits) -> Left:
    """Take the working directory out of a stopped container, into the run directory `to`.

    A working directory that is gone or was replaced by something else counts as an empty one, with a reason.

    Raises:
        EngineError: The engine failed in the middle.
        OSError: The run directory cannot be written.
    """
    import zstandard

    left = Left()
    (to / TREE).mkdir()
    with ExitStack() as stack:
        file = stack.enter_context((to / TAR).open("xb"))
        out = stack.enter_context(zstandard.ZstdCompressor(level=3).stream_writer(file, closefd=False))
        stream: Iterable[bytes] = ()
        try:
            stat, outgoing = engine.get(container, workdir)
        except NotThere:
            left.reason = "the working directory was deleted"
        else:
            stack.enter_context(outgoing)
            if stat.is_dir:
                stream = outgoing
            else:
                left.reason = "the working directory was replaced by " + ("a link" if stat.link else "a file")
        _take(TarReader(stream), out, to / TREE, left, redactor, limits)
        out.write(archive.END)
    return left


def clear(path: Path) -> None:
    """Remove a half-done collection from a run directory: it is done again."""
    for name in (TREE, "checker", "volumes"):
        shutil.rmtree(path / name, ignore_errors=True)
    for name in (TAR, LISTED):
        with contextlib.suppress(OSError):
            (path / name).unlink()


def note_withheld(left: Left, changed: Iterable[Mapping[str, Any]], workdir: str, redactor: Redactor) -> None:
    """List what the engine knows of and did not hand out: sockets always, and whatever lies too deep.

    Args:
        left: What was collected; a path too long to be handed out makes it incomplete.
        changed: `Engine.changes` of the same container.
        workdir: The working directory.
        redactor: Knows the secrets.
    """
    if not left.complete:
        return
    top = workdir.rstrip("/") + "/"
    for change in changed:
        path = str(change["Path"])
        # A name that is not UTF-8 comes mangled in this list, and is in the tree under its own.
        if change["Kind"] == DELETED or not path.startswith(top) or "\ufffd" in path:
            continue
        name = os.fsencode(path.removeprefix(top))
        if name not in left.tree and name + b"/" not in left.tree:
            left.listed.append(b"not handed out by the engine (a socket?): " + quote(redactor.clean_name(name)))
    # The engine leaves out without a word what lies below a path that is too long for it.
    if any(len(name) + len(top) > LONGEST_PATH for name in left.tree):
        left.complete, left.reason = False, f"a path of more than {LONGEST_PATH} bytes: what lies below is missing"


def tree_of(engine: Engine, container: str, workdir: str) -> Tree:
    """What the image itself holds in the working directory (empty where it has none)."""
    try:
        stat, stream = engine.get(container, workdir)
    except NotThere:
        return {}
    with stream:
        if not stat.is_dir:
            return {}
        reader, tree = TarReader(stream), Tree()
        for member in reader:
            if name := _inside(member.name):
                tree[name] = _entry(member, hashlib.sha256(b"".join(reader.content())).digest())
    return tree


def _take(reader: TarReader, out: Writer, root: Path, left: Left, redactor: Redactor, limits: Limits) -> None:
    size, deadline, unpack = 0, time.monotonic() + limits.seconds, _Unpacker(root, redactor)
    for count, member in enumerate(reader):
        size += member.size
        left.reason = (
            f"more than {limits.size >> 20} MiB were left"
            if size > limits.size
            else f"more than {limits.entries} files were left"
            if count > limits.entries
            else f"collecting took longer than {limits.seconds:.0f} s"
            if time.monotonic() > deadline
            else left.reason
        )
        if size > limits.size or count > limits.entries or time.monotonic() > deadline:
            left.complete = False
            return
        cleaned = clean_member(member, redactor)
        out.write(cleaned.raw)
        tar = Stream(redactor, out.write)
        digest = hashlib.sha256()
        with unpack.file(cleaned, left.listed) as kept:
            for part in reader.content():
                digest.update(part)
                tar.write(part)
                kept.write(part)
                if time.monotonic() > deadline:
                    deadline = 0.0  # the file is finished first: the stream stays a valid one
        tar.close()
        out.write(member.padding)
        if name := _inside(member.name):
            left.tree[name] = _entry(member, digest.digest())


def _entry(member: Member, digest: bytes) -> Entry:
    regular = member.type == archive.REGULAR
    return Entry(member.type, regular and bool(member.mode & 0o100), digest if regular else b"", member.link)


def _inside(name: bytes) -> bytes:
    """The path below the working directory; the engine puts its last part in front."""
    return name.strip(b"/").partition(b"/")[2]


class _Unpacker:
    """Writes directories and regular files below one root; follows nothing, replaces nothing.

    Only this class creates anything below the root, and it creates no link, so no path can lead out of it.
    """

    def __init__(self, root: Path, redactor: Redactor) -> None:
        self._root = os.fsencode(root)
        self._redactor = redactor
        self._made: set[bytes] = {b""}
        self._files: set[bytes] = set()

    def file(self, member: Member, listed: list[bytes]) -> _Kept:
        """Where the content of a member goes, whose names were cleaned."""
        if not (name := _inside(member.name)):
            return _Kept(None, self._redactor)
        kind = KINDS.get(member.type)
        if kind is not None and not (member.type == archive.HARD and self._join(member, name)):
            listed.append(_listing(kind, name, member))
            return _Kept(None, self._redactor)
        try:
            if member.type == archive.DIRECTORY:
                self._folder(name.rstrip(b"/"))
            elif member.type == archive.REGULAR:
                return _Kept(self._open(name, member), self._redactor)
            elif kind is None:
                listed.append(_listing("unknown", name, member))
        except (OSError, ValueError) as error:
            # A name this file system cannot hold: the exact one is in the tar.
            if isinstance(error, OSError) and error.errno in FATAL:
                raise
            listed.append(_listing("not unpacked", name, member))
        return _Kept(None, self._redactor)

    def _folder(self, name: bytes) -> None:
        if name in self._made:
            return
        parts = name.split(b"/")
        if any(part in (b"", b".", b"..") for part in parts):
            raise ValueError(name)
        self._folder(b"/".join(parts[:-1]))
        os.mkdir(os.path.join(self._root, name), 0o755)  # noqa: PTH102, PTH118 - names are bytes
        self._made.add(name)

    def _open(self, name: bytes, member: Member) -> IO[bytes]:
        folder, _, last = name.rpartition(b"/")
        self._folder(folder)
        if last in (b"", b".", b".."):
            raise ValueError(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        mode = 0o755 if member.mode & 0o100 else 0o644
        self._files.add(name)
        return os.fdopen(os.open(os.path.join(self._root, name), flags, mode), "wb")  # noqa: PTH118

    def _join(self, member: Member, name: bytes) -> bool:
        """A second name of a file that we wrote; anything else is only listed."""
        target = _inside(member.link)
        if target not in self._files:
            return False
        try:
            folder, _, last = name.rpartition(b"/")
            self._folder(folder)
            if last in (b"", b".", b".."):
                return False
            os.link(os.path.join(self._root, target), os.path.join(self._root, name))  # noqa: PTH118
        except (OSError, ValueError):
            return False
        self._files.add(name)
        return True


FATAL = {errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO}
"""The run directory cannot be written; not the name's fault."""

HOLE = bytes(1 << 12)
"""So many zeros are not written but passed over: a file of gigabytes that holds nothing takes up next to nothing."""


class _Kept:
    """One file being unpacked, cleaned of secrets; or nothing."""

    def __init__(self, file: IO[bytes] | None, redactor: Redactor) -> None:
        self._file = file
        self._stream = Stream(redactor, self._sparsely) if file is not None else None

    def write(self, data: bytes) -> None:
        if self._stream is not None:
            self._stream.write(data)

    def __enter__(self) -> _Kept:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None and self._file is not None:
            # Closed whatever happens: a file that is open takes up its room even when it was removed.
            with self._file:
                self._stream.close()
                self._file.truncate(self._file.tell())

    def _sparsely(self, data: bytes) -> None:
        assert self._file is not None  # noqa: S101 - without one there is no stream
        written = 0
        for at in range(0, len(data), len(HOLE)):
            after = min(at + len(HOLE), len(data))
            if data.startswith(HOLE if after - at == len(HOLE) else HOLE[: after - at], at):
                self._file.write(memoryview(data)[written:at])
                self._file.seek(after - at, os.SEEK_CUR)
                written = after
        self._file.write(memoryview(data)[written:])


def _listing(kind: str, name: bytes, member: Member) -> bytes:
    arrow = b" -> " + quote(member.link) if member.type in (archive.SYMLINK, archive.HARD) else b""
    return kind.encode() + b": " + quote(name) + arrow


# -- changes --------------------------------------------------------------------------------------------------------


def given_tree(chunks: Iterable[bytes], workdir: str) -> Tree:
    """What a tar stream for `/` puts into the working directory."""
    top = workdir.strip("/").encode() + b"/"
    reader, tree = TarReader(chunks), Tree()
    for member in reader:
        name = member.name.strip(b"/")
        if name.startswith(top):
            content = hashlib.sha256(b"".join(reader.content())).digest()
            # A hard link's target carries the whole way too; entries name it as the engine's own streams do.
            entry = _entry(member, content)
            if member.type == archive.HARD:
                entry = Entry(member.type, link=b"/" + member.link.removeprefix(top))
            tree[name.removeprefix(top)] = entry
    return tree


def changes(before: Mapping[bytes, Entry], after: Mapping[bytes, Entry], redactor: Redactor) -> Iterator[bytes]:
    """`A`, `M` or `D`, a space and the path, without secrets, quoted as git does; sorted by path.

    A directory is listed only where it is itself the whole change (an empty one that came or went).
    """
    before, after = _plain(before), _plain(after)
    full_before, full_after = _parents(before), _parents(after)
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        folder = (new or old or Entry(b"")).type == archive.DIRECTORY
        if folder and name in (full_after if old is None else full_before if new is None else ()):
            continue
        kind = b"A " if old is None else b"D " if new is None else b"M "
        # Before it is quoted: that changes how a secret is written.
        yield kind + quote(redactor.clean_name(name + b"/" if folder else name))


def _plain(tree: Mapping[bytes, Entry]) -> dict[bytes, Entry]:
    """Hard links seen as the files they are: which of two names comes first in a stream is chance."""
    plain = {}
    for name, entry in tree.items():
        if entry.type == archive.HARD:
            entry = tree.get(_inside(entry.link) or entry.link.strip(b"/"), entry)
        plain[name.rstrip(b"/")] = entry
    return plain


def _parents(tree: Iterable[bytes]) -> set[bytes]:
    return {name.rpartition(b"/")[0] for name in tree}


def quote(name: bytes) -> bytes:
    """A path as git quotes it: plain where every byte is printable ASCII, else in double quotes with C escapes."""
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in name):
        return name
    escapes = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
    out = b"".join(escapes.get(byte) or (bytes([byte]) if 0x20 <= byte < 0x7F else b"\\%03o" % byte) for byte in name)
    return b'"' + out + b'"'
