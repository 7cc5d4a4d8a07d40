"""Where git keeps a repository, found without git: a repository that is looked at may be anybody's, and hostile.

Whatever a folder says of itself (`.git`, `commondir`, `alternates`) may name any place of this machine. For a list of
names that is harmless. History is content: it is taken from within the folder, or from a place that itself names the
folder as its own, which nobody else can write.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.model.errors import UsageError

MOST_BYTES = 64 << 20
"""Of one of git's small files."""
_HEAD = re.compile(rb"ref: *refs/[^\0]+|(?:[0-9a-f]{40}|[0-9a-f]{64})")
_PARTS = ("HEAD", "index", "packed-refs", "shallow")
"""Files of a git folder that make up its history; its configuration may hold passwords, its hooks are programs."""
_OBJECT = re.compile(
    rb"objects/(?:[0-9a-f]{2}/(?:[0-9a-f]{38}|[0-9a-f]{62})"
    rb"|pack/(?:pack-[^/]+\.(?:pack|idx|rev|bitmap|mtimes|keep|promisor)|multi-pack-index[^/]*))"
)


@dataclass(frozen=True)
class GitFolder:
    """A repository.

    Attributes:
        tree: The folder in which `.git` lies.
        own: Git's folder for it, with no link on the way.
        common: The one that it shares with other worktrees; the same if there are none.
    """

    tree: Path
    own: Path
    common: Path

    @property
    def elsewhere(self) -> bool:
        """Whether its history lies outside of the tree."""
        return not (self.own.is_relative_to(self.tree) and self.common.is_relative_to(self.tree))


def find(folder: Path) -> GitFolder | None:
    """The repository that a folder belongs to, by what lies in it and above it.

    Raises:
        UsageError: What lies there is no git folder.
    """
    tree = next((place for place in (folder, *folder.parents) if os.path.lexists(place / ".git")), None)
    if tree is None:
        return None
    try:
        own = _own(tree / ".git").resolve(strict=True)
        common = own
        if (said := small(own / "commondir")) is not None:
            common = (own / os.fsdecode(said.rstrip(b"\r\n"))).resolve(strict=True)
        why = _wrong(own, common)
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
    if why:
        msg = f"{tree / '.git'} is no git folder ({why}), so what it ignores would be shown; mend it, or name another"
        raise UsageError(msg)
    return GitFolder(tree, own, common)


def _own(place: Path) -> Path:
    said = None if place.is_dir() else small(place)
    if said is None:
        return place
    if not said.startswith(b"gitdir: "):
        msg = "it does not say gitdir"
        raise ValueError(msg)
    return place.parent / os.fsdecode(said.removeprefix(b"gitdir: ").rstrip(b"\r\n"))


def _wrong(own: Path, common: Path) -> str:
    head = own / "HEAD"
    said = b"ref: " + os.fsencode(head.readlink()) if head.is_symlink() else small(head)
    if said is None or not _HEAD.fullmatch(said.strip()):
        return "its HEAD names no branch and no commit"
    return next((f"it has no {part}" for part in ("objects", "refs") if not (common / part).is_dir()), "")


def small(path: Path) -> bytes | None:
    """Content of one of git's own files; None where there is no such file.

    Raises:
        UsageError: It cannot be read, or is larger than any of them would be.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        msg = f"{path} cannot be read ({error.strerror}), so what git ignores would be shown"
        raise UsageError(msg) from None
    if len(data) > MOST_BYTES:
        msg = f"{path} is larger than {MOST_BYTES >> 20} MiB, so what git ignores would be shown; make it smaller"
        raise UsageError(msg)
    return data


def history(found: GitFolder, worktree: str) -> Iterator[tuple[bytes, bytes]]:
    """Files that make up the history: name below `.git`, place on this machine.

    Configuration, hooks and logs do not, nor does anything that is only linked to.

    Args:
        found: The repository.
        worktree: `core.worktree` of its configuration.

    Raises:
        UsageError: It is, or may be, another repository's history.
    """
    _refuse_strange(found, worktree)
    seen: set[bytes] = set()
    places = [os.fsencode(place) for place in dict.fromkeys((found.own, found.common))]
    shared = [name for name in os.listdir(places[0]) if name.startswith(b"sharedindex.")]  # noqa: PTH208
    for name in (*map(str.encode, _PARTS), *shared):
        for place in places:
            if name not in seen and _is_file(place + b"/" + name):
                seen.add(name)
                yield name, place + b"/" + name
    for part in (b"refs", b"reftable"):
        for place in places:
            for name in _below(place, part):
                if name not in seen:
                    seen.add(name)
                    yield name, place + b"/" + name
    for name in _below(places[-1], b"objects"):
        if _OBJECT.fullmatch(name):
            yield name, places[-1] + b"/" + name


def _refuse_strange(found: GitFolder, worktree: str) -> None:
    if found.elsewhere and not _is_claimed(found, worktree):
        msg = (
            f"--history: {found.tree / '.git'} leads to {found.common}, which does not name this folder as its own, so "
            f"another repository's history would be shown; if it is this one's, "
            f"write `git --git-dir={found.own} config core.worktree {found.tree}`"
        )
        raise UsageError(msg)
    for name in ("objects", "objects/pack", "refs", "reftable"):
        for place in (found.own, found.common):
            if (place / name).is_symlink():
                msg = (
                    f"--history: {place / name} is a link, and whatever it leads to would be shown; "
                    "make a clone with `git clone --no-local` and name that"
                )
                raise UsageError(msg)
    if (small(found.common / "objects/info/alternates") or b"").strip():
        msg = (
            f"--history: {found.common} borrows objects from another repository (objects/info/alternates), whose whole "
            "history would be shown; make it stand alone: `git repack -a -d`, then remove that file"
        )
        raise UsageError(msg)


def _is_claimed(found: GitFolder, worktree: str) -> bool:
    """Whether the place outside of the folder names it as its own: as a worktree, or in its configuration."""
    if found.own.parent == found.common / "worktrees":
        back = (small(found.own / "gitdir") or b"").rstrip(b"\r\n")
        return bool(back) and (found.own / os.fsdecode(back)).parent.resolve() == found.tree
    inside = found.own.is_relative_to(found.tree)
    return (
        found.own == found.common and not inside and bool(worktree) and (found.own / worktree).resolve() == found.tree
    )


def _is_file(path: bytes) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _below(place: bytes, part: bytes) -> Iterator[bytes]:
    """Names of the files in a folder and below it."""
    todo = [part]
    while todo:
        name = todo.pop()
        if os.path.islink(place + b"/" + name):  # noqa: PTH114 - names are bytes
            continue
        try:
            entries = list(os.scandir(place + b"/" + name))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                todo.append(name + b"/" + entry.name)
            elif entry.is_file(follow_symlinks=False):
                yield name + b"/" + entry.name
