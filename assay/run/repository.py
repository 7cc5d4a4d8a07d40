"""A repository as an agent is to see it: which of its files, under their real names, and a name for this very state.

In git that is what is tracked, and what is untracked and not ignored, submodules and repositories inside included;
elsewhere it is everything. Never shown: git's own folder (but for its history on request), files that may hold a
secret, what the project excludes, runs of Assay. Links are copied as links and followed nowhere.

Nothing is read but names and states: the copy is made, and private keys are looked for in it, when it is needed.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import socket
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.model.errors import UsageError
from assay.model.place import as_named
from assay.run import git
from assay.run.withheld import HEAD, RUNS, Withheld, is_private_key
from assay.sandbox.archive import DIRECTORY, REGULAR, SYMLINK
from assay.sandbox.volumes import Thing

MOST_FILES = 1_000_000
MOST_BYTES = 16 << 30
MOST_PLAIN = 2000
_FORMAT = "assay repository 1"
_TICK = 0.05
"""Seconds within which two changes of a file may bear the same time."""
_COARSE = 2.0
"""The same on a file system that keeps whole seconds."""


@dataclass(frozen=True)
class Repository:
    """What can be seen of a folder.

    Attributes:
        root: The folder, absolute.
        things: Files, folders and links with names below the root, folders first.
        withheld: Name of what is not shown (a folder stands for all in it), and why.
        notes: What a user should know, a line each.
        history: Whether git's history is among the things.
        git: Whether git said what is shown.
    """

    root: Path
    things: Sequence[Thing]
    withheld: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    history: bool = False
    git: bool = False
    state: str = field(default="")

    @property
    def files(self) -> list[Thing]:
        """Files and links that a person would call the repository's: history left out."""
        return [t for t in self.things if t.kind != DIRECTORY and not t.name.startswith(b".git/")]

    @property
    def size(self) -> int:
        """Bytes of the copy."""
        return sum(thing.size for thing in self.things)

    @property
    def names(self) -> frozenset[str]:
        """How files are called here: endings such as `.py`, and names without one, as far as they are few."""
        names = [posixpath.basename(os.fsdecode(thing.name)) for thing in self.files]
        endings = {posixpath.splitext(name)[1] for name in names} - {""}
        plain = {name for name in names if not posixpath.splitext(name)[1]}
        return frozenset(endings | plain if len(plain) <= MOST_PLAIN else endings)

    def keys_inside(self) -> Iterator[str]:
        """Names of files that are private keys by what they hold; reads the beginning of every file."""
        for thing in self.files:
            if thing.kind != REGULAR:
                continue
            try:
                with open(thing.source, "rb") as file:  # noqa: PTH123 - names are bytes
                    head = file.read(HEAD)
            except OSError:
                continue
            if is_private_key(head):
                yield os.fsdecode(thing.name)


def look(folder: Path, *, exclude: Sequence[str] = (), runs: Path | None = None, history: bool = False) -> Repository:
    """Take stock of a folder.

    Args:
        folder: The repository.
        exclude: Patterns of what is not shown, as in .gitignore.
        runs: Where runs are kept; no part of any repository.
        history: Whether git's history is shown too.

    Raises:
        UsageError: It is no folder, there is nothing to see in it, it is too large, or git refuses it.
    """
    root = _folder(folder)
    git.refuse_odd(root)
    outputs = [str(runs.relative_to(root))] if runs is not None and runs.is_relative_to(root) else []
    survey = _Survey(root, Withheld(exclude, outputs))
    in_git = survey.take()
    if history:
        survey.add_history(in_git=in_git)
    things = survey.things()
    if not any(thing.kind != DIRECTORY for thing in things):
        what = "that is tracked or not ignored" if in_git else "that may be shown"
        msg = f"{as_named(root)}: there is nothing to see: it has no file {what}"
        raise UsageError(msg)
    state = _state(root, things)
    return Repository(root, things, survey.withheld, survey.notes(things, in_git=in_git), history, in_git, state)


def _folder(folder: Path) -> Path:
    try:
        root = folder.resolve(strict=True)
        entries = root.is_dir() and os.access(root, os.R_OK | os.X_OK)
    except (OSError, RuntimeError, ValueError) as error:
        msg = f"{folder}: cannot be looked at: {getattr(error, 'strerror', None) or error}; name a folder with --repo"
        raise UsageError(msg) from None
    if not entries:
        problem = "cannot be read" if root.is_dir() else "is no folder"
        msg = f"{folder}: {problem}; name the repository's folder with --repo"
        raise UsageError(msg)
    return root


class _Survey:
    """Names of what is there, and what is kept out."""

    def __init__(self, root: Path, rules: Withheld) -> None:
        self._root, self._rules = root, rules
        self._base = os.fsencode(root)
        self._found: dict[bytes, Thing] = {}
        self.withheld: list[tuple[str, str]] = []
        self._size = 0
        self._odd: list[str] = []
        self._remarks: list[str] = []

    def take(self) -> bool:
        """Look at everything; whether git said what there is."""
        if git.is_inside(self._root):
            whole = (self._root / ".git").exists()
            names, nested = git.listing(self._root)
            if names or nested or whole or not git.is_ignored(self._root):
                self._listed(b"", names, nested)
                if not whole:
                    self._remarks.append(f"only this folder of the repository {git.top(self._root)} is shown")
                return True
        self._walk(b"")
        return False

    def add_history(self, *, in_git: bool) -> None:
        """Git's history."""
        if not in_git or not (self._root / ".git").exists():
            msg = f"--history: {as_named(self._root)} is not the top folder of a git repository; name that one"
            raise UsageError(msg)
        for name in (b".git", b".git/objects", b".git/refs"):
            self._found[name] = Thing(name, DIRECTORY)
        for name, source, data in git.history(self._root):
            if source:
                self._add(b".git/" + name, source)
            else:
                self._found[b".git/" + name] = Thing(b".git/" + name, REGULAR, 0o644, size=len(data), data=data)
        self._remarks.append("whoever sees the history sees all that was ever committed, secrets included")

    def things(self) -> list[Thing]:
        """Everything, with the folders on the way."""
        folders = {name[:at] for name in self._found for at, byte in enumerate(name) if byte == 0x2F}
        for name in folders:
            self._found.setdefault(name, Thing(name, DIRECTORY))
        return [self._found[name] for name in sorted(self._found)]

    def notes(self, things: Sequence[Thing], *, in_git: bool) -> list[str]:
        """What a user should know."""
        if not in_git:
            self._remarks.append("not in git: everything is shown but what may hold a secret or is excluded")
        outside = [os.fsdecode(t.name) for t in things if t.kind == SYMLINK and _leads_out(t)]
        if outside:
            self._remarks.append(_few(outside, "leads out of the folder, where the agent sees nothing"))
        if self._odd:
            self._remarks.append(_few(self._odd, "is no file, folder or link and is not shown"))
        return self._remarks

    def _listed(self, prefix: bytes, names: Sequence[bytes], nested: Sequence[bytes]) -> None:
        for name in names:
            self._consider(prefix + name)
        for name in nested:
            inner = prefix + name
            if not self._kept_out(inner, folder=True):
                self._listed(inner + b"/", *git.listing(self._root / os.fsdecode(inner)))

    def _walk(self, prefix: bytes) -> None:
        """Outside git; a repository inside says itself what it ignores."""
        todo = [prefix]
        while todo:
            inside = todo.pop()
            try:
                entries = list(os.scandir(self._base + b"/" + inside))
            except OSError:
                self.withheld.append((os.fsdecode(inside), "cannot be read"))
                continue
            for entry in entries:
                name = inside + entry.name
                if entry.name == b".git":
                    continue
                if not entry.is_dir(follow_symlinks=False):
                    self._consider(name)
                elif not self._kept_out(name, folder=True):
                    if os.path.lexists(entry.path + b"/.git"):
                        self._listed(name + b"/", *git.listing(self._root / os.fsdecode(name)))
                    else:
                        self._found[name] = Thing(name, DIRECTORY)
                        todo.append(name + b"/")

    def _consider(self, name: bytes) -> None:
        if not self._kept_out(name):
            self._add(name, self._base + b"/" + name)

    def _kept_out(self, name: bytes, *, folder: bool = False) -> bool:
        why = self._rules.why(os.fsdecode(name), folder=folder)
        # Runs are no part of a repository, and there may be thousands.
        if why and why != RUNS:
            self.withheld.append((os.fsdecode(name) + ("/" if folder else ""), why))
        return bool(why)

    def _add(self, name: bytes, source: bytes) -> None:
        try:
            state = os.lstat(source)
            link = os.readlink(source) if stat.S_ISLNK(state.st_mode) else b""  # noqa: PTH115
        except OSError:
            return  # tracked and deleted, or gone meanwhile
        stamp = (state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
        if stat.S_ISREG(state.st_mode):
            self._found[name] = Thing(name, REGULAR, stat.S_IMODE(state.st_mode), source, state.st_size, stamp)
        elif link:
            self._found[name] = Thing(name, SYMLINK, 0o777, b"", 0, stamp, link)
        elif not stat.S_ISDIR(state.st_mode):
            self._odd.append(os.fsdecode(name))
        self._size += state.st_size
        if len(self._found) > MOST_FILES or self._size > MOST_BYTES:
            much = f"more than {MOST_FILES} files" if len(self._found) > MOST_FILES else f"over {MOST_BYTES >> 30} GiB"
            msg = f"{as_named(self._root)}: {much} are too much to copy; name a folder below it"
            raise UsageError(msg)


def _leads_out(link: Thing) -> bool:
    if link.link.startswith(b"/"):
        return True
    return posixpath.normpath(posixpath.join(posixpath.dirname(link.name), link.link)).split(b"/")[0] == b".."


def _few(names: Sequence[str], what: str) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}: {what}"


def _state(root: Path, things: Sequence[Thing]) -> str:
    """A name for this very state, in hex: made of names, sizes and times, since any change moves a file's change time.

    Two changes within one tick of the clock bear the same time, so a file changed just now is waited for: whatever is
    copied after that either bears this time for good or gets another one.
    """
    newest = max((thing.stamp[1] for thing in things if thing.stamp), default=0)
    tick = _TICK if newest % 10**9 else _COARSE
    if (fresh := newest / 1e9 + tick - time.time()) > 0:
        time.sleep(min(fresh, tick))
    total = hashlib.sha256(f"{_FORMAT}\0{socket.gethostname()}\0{root}\0".encode("utf-8", "surrogateescape"))
    for thing in things:
        words = (thing.kind.decode(), f"{thing.mode:o}", str(thing.size), *map(str, thing.stamp))
        total.update(thing.name + b"\0" + " ".join(words).encode() + b"\0" + thing.link + b"\0" + thing.data + b"\n")
    return total.hexdigest()


def family(root: Path) -> str:
    """What all copies of one folder have in common, in hex."""
    return hashlib.sha256(f"{socket.gethostname()}\0{root}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
