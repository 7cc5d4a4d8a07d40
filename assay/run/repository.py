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
from assay.run.survey import Survey
from assay.run.withheld import HEAD, Withheld, is_private_key
from assay.sandbox.archive import DIRECTORY, REGULAR
from assay.sandbox.below import Below
from assay.sandbox.volumes import Thing

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
        with Below() as below:
            for thing in self.files:
                if thing.kind == REGULAR and is_private_key(_head(below, thing)):
                    yield os.fsdecode(thing.name)


def _head(below: Below, thing: Thing) -> bytes:
    try:
        number = below.open(thing.within, thing.source)
    except OSError:
        return b""
    with open(number, "rb") as file:  # noqa: PTH123 - a descriptor
        return file.read(HEAD) if stat.S_ISREG(os.fstat(number).st_mode) else b""


def look(folder: Path, *, exclude: Sequence[str] = (), runs: Path | None = None, history: bool = False) -> Repository:
    """Take stock of a folder.

    Args:
        folder: The repository.
        exclude: Patterns of what is not shown, as in .gitignore.
        runs: Where runs are kept, now or later. Other folders with runs are known by what is in them; none is shown.
        history: Whether git's history is shown too.

    Raises:
        UsageError: It is no folder, there is nothing to see in it, it is too large, or git refuses it.
    """
    root = _folder(folder)
    git.refuse_odd(root)
    survey = Survey(root, Withheld(exclude), runs)
    in_git = survey.take()
    if history:
        survey.add_history()
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
