"""What there is in a folder, by name: what git says of it, or everything, and what is kept out.

The folder may be anybody's. Names come from an index that may say anything, and links may lead anywhere: what is taken
lies below the folder, and nothing behind a link is.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from assay.model.errors import UsageError
from assay.model.place import as_named
from assay.run import git, git_folder
from assay.run.find import keeps_runs
from assay.run.git_folder import GitFolder
from assay.run.withheld import Withheld
from assay.sandbox.archive import DIRECTORY, REGULAR, SYMLINK
from assay.sandbox.volumes import Thing

MOST_FILES = 1_000_000
MOST_BYTES = 16 << 30
_RUNS = b"runs"
"""What every project calls the folder of its runs."""


class Survey:
    """Names of what is there, and what is kept out."""

    def __init__(self, root: Path, rules: Withheld, runs: Path | None = None) -> None:
        self._root, self._rules = root, rules
        self._runs: dict[bytes, bool] = {}
        self._told: set[bytes] = set()
        if runs is not None and runs != root and runs.is_relative_to(root):
            self._runs[os.fsencode(runs.relative_to(root))] = True
        self._base = os.fsencode(root).rstrip(b"/")
        self._found: dict[bytes, Thing] = {}
        self.withheld: list[tuple[str, str]] = []
        self._links: dict[bytes, bytes] = {}
        self._git: GitFolder | None = None
        self._size = 0
        self._odd: list[str] = []
        self._remarks: list[str] = []

    def take(self) -> bool:
        """Look at everything; whether git said what there is."""
        found = git_folder.find(self._root)
        if found is not None:
            names, nested = git.listing(self._root, found)
            if names or nested or found.tree == self._root or not git.is_ignored(self._root, found):
                self._git = found
                self._listed(b"", names, nested)
                if found.tree != self._root:
                    self._remarks.append(f"only this folder of the repository {found.tree} is shown")
                return True
        self._walk(b"")
        return False

    def add_history(self) -> None:
        """Git's history."""
        found = self._git
        if found is None or found.tree != self._root:
            msg = f"--history: {as_named(self._root)} is not the top folder of a git repository; name that one"
            raise UsageError(msg)
        for name in (b".git", b".git/objects", b".git/refs"):
            self._found[name] = Thing(name, DIRECTORY)
        for name, source, data in git.history(found):
            if source:
                self._add(b".git/" + name, source)
            else:
                self._found[b".git/" + name] = Thing(b".git/" + name, REGULAR, 0o644, size=len(data), data=data)
        if found.elsewhere:
            self._remarks.append(f"the history is that of {found.common}, which names this folder as its own")
        self._remarks.append("whoever sees the history sees all that was ever committed, secrets included")

    def things(self) -> list[Thing]:
        """Everything, with the folders on the way."""
        folders = {folder for name in self._found for folder in _above(name)}
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
            if self._lies_here(prefix + name):
                self._consider(prefix + name)
        for name in nested:
            inner = prefix + name
            if not self._lies_here(inner):
                continue
            if self._linked(inner):
                self._consider(inner)
            elif not self._kept_out(inner, folder=True):
                self._repository(inner)

    def _repository(self, name: bytes) -> None:
        """One inside of the folder, which says itself what it ignores."""
        folder = self._root / os.fsdecode(name)
        found = git_folder.find(folder)
        if found is not None and found.tree == folder:
            self._listed(name + b"/", *git.listing(folder, found))

    def _lies_here(self, name: bytes) -> bool:
        """Whether a name that an index says is one of a file below the folder: it may be any, by accident or intent."""
        steps = name.split(b"/")
        if {b"", b".", b".."}.intersection(steps) or any(step.lower() == b".git" for step in steps):
            self.withheld.append((os.fsdecode(name), "is no name of a file of the repository"))
            return False
        if link := self._linked(b"/".join(steps[:-1])):
            entry = (os.fsdecode(link) + "/", "is a link now; nothing behind it is shown")
            if entry not in self.withheld[-1:]:
                self.withheld.append(entry)
            return False
        return True

    def _linked(self, folder: bytes) -> bytes:
        """The first link on the way to a folder, itself included; "" if there is none."""
        if folder not in self._links:
            link = b""
            for step in (*_above(folder), *([folder] if folder else ())):
                if step not in self._links:
                    is_link = not link and os.path.islink(self._base + b"/" + step)  # noqa: PTH114 - names are bytes
                    self._links[step] = step if is_link else link
                link = self._links[step]
            self._links[folder] = link
        return self._links[folder]

    def _walk(self, prefix: bytes) -> None:
        """Outside git; a repository inside says itself what it ignores."""
        todo = [prefix]
        while todo:
            inside = todo.pop()
            try:
                # Sorted: what is told first is not up to the file system.
                entries = sorted(os.scandir(self._base + b"/" + inside), key=lambda entry: entry.name)
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
                        self._repository(name)
                    else:
                        self._found[name] = Thing(name, DIRECTORY)
                        todo.append(name + b"/")

    def _consider(self, name: bytes) -> None:
        if not self._kept_out(name):
            self._add(name, self._base + b"/" + name)

    def _kept_out(self, name: bytes, *, folder: bool = False) -> bool:
        path = name + b"/" if folder else name
        if runs := self._runs_above(path):
            # Told once: git says its files one by one, and there may be thousands.
            if runs not in self._told:
                self._told.add(runs)
                self.withheld.append((os.fsdecode(runs) + "/", "runs of Assay"))
            return True
        if why := self._rules.why(os.fsdecode(name), folder=folder):
            self.withheld.append((os.fsdecode(path), why))
        return bool(why)

    def _runs_above(self, path: bytes) -> bytes:
        """The folder with runs of Assay that a path is (ending in a slash) or lies in; "" if there is none."""
        if _RUNS + b"/" not in path.lower():
            return b""
        for folder in _above(path):
            if posixpath.basename(folder).lower() == _RUNS:
                if folder not in self._runs:
                    self._runs[folder] = keeps_runs(self._base + b"/" + folder)
                if self._runs[folder]:
                    return folder
        return b""

    def _add(self, name: bytes, source: bytes) -> None:
        try:
            state = os.lstat(source)
            link = os.readlink(source) if stat.S_ISLNK(state.st_mode) else b""  # noqa: PTH115
        except OSError:
            return  # tracked and deleted, or gone meanwhile
        stamp = (state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
        if stat.S_ISREG(state.st_mode):
            mode, inside = stat.S_IMODE(state.st_mode), source.startswith(self._base + b"/")
            within = (self._base or b"/") if inside else os.path.dirname(source)  # noqa: PTH120 - names are bytes
            self._found[name] = Thing(name, REGULAR, mode, source, state.st_size, stamp, within=within)
        elif link:
            self._found[name] = Thing(name, SYMLINK, 0o777, b"", 0, stamp, link)
        elif not stat.S_ISDIR(state.st_mode):
            self._odd.append(os.fsdecode(name))
        self._size += state.st_size
        if len(self._found) > MOST_FILES or self._size > MOST_BYTES:
            much = f"more than {MOST_FILES} files" if len(self._found) > MOST_FILES else f"over {MOST_BYTES >> 30} GiB"
            msg = f"{as_named(self._root)}: {much} are too much to copy; name a folder below it"
            raise UsageError(msg)


def _above(name: bytes) -> Iterator[bytes]:
    """The folders on the way to a name, topmost first."""
    return (name[:at] for at, byte in enumerate(name) if byte == 0x2F)


def _leads_out(link: Thing) -> bool:
    if link.link.startswith(b"/"):
        return True
    return posixpath.normpath(posixpath.join(posixpath.dirname(link.name), link.link)).split(b"/")[0] == b".."


def _few(names: Sequence[str], what: str) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}: {what}"
