"""What git says of a folder. Nothing is written in it, and nothing that its configuration names is run."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from assay.model.errors import UsageError

SECONDS = 120
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false")
_SUBMODULE = b"160000"
_PARTS = ("HEAD", "index", "packed-refs", "shallow")
"""Files of a git folder that make up its history; its configuration may hold passwords, its hooks are programs."""


def is_inside(folder: Path) -> bool:
    """Whether a folder belongs to a git repository, by what lies in it and above it."""
    return any((place / ".git").exists() for place in (folder, *folder.parents))


def refuse_odd(folder: Path) -> None:
    """Refuse what has no working tree to look at.

    Raises:
        UsageError: It is a bare repository, or lies in a git folder.
    """
    if ".git" in folder.parts:
        msg = f"{folder} is git's own folder, which has no files to ask about; name the repository's top folder"
        raise UsageError(msg)
    if (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir():
        msg = f"{folder} is a bare repository, which has no files to ask about; clone it and name the clone"
        raise UsageError(msg)


def listing(folder: Path) -> tuple[list[bytes], list[bytes]]:
    """Files below a folder that are tracked, or untracked and not ignored; and folders that are repositories.

    Names are relative to the folder. A submodule that is not checked out is left out.

    Raises:
        UsageError: Git is missing, or refuses this repository: what is ignored cannot be told from what is not.
    """
    names: dict[bytes, None] = {}
    nested: dict[bytes, None] = {}
    for entry in _split(_git(folder, "ls-files", "-z", "--stage")):
        head, _, name = entry.partition(b"\t")
        (nested if head.startswith(_SUBMODULE) else names)[name] = None
    for name in _split(_git(folder, "ls-files", "-z", "--others", "--exclude-standard")):
        (nested if name.endswith(b"/") else names)[name.rstrip(b"/")] = None
    inside = os.fsencode(folder)
    return list(names), [name for name in nested if os.path.lexists(inside + b"/" + name + b"/.git")]


def is_ignored(folder: Path) -> bool:
    """Whether the repository above ignores this folder."""
    try:
        _git(folder.parent, "check-ignore", "-q", "--", folder.name)
    except UsageError:
        return False
    return True


def top(folder: Path) -> Path:
    """The top folder of the repository's working tree.

    Raises:
        UsageError: Git refuses.
    """
    return Path(os.fsdecode(_git(folder, "rev-parse", "--show-toplevel").rstrip(b"\n")))


def history(folder: Path) -> Iterator[tuple[bytes, bytes, bytes]]:
    """What makes up the history: (name below `.git`, file on this machine, or "" and its content).

    Objects that are borrowed from another repository come too; configuration, hooks and logs do not.

    Raises:
        UsageError: Git refuses.
    """
    said = _git(folder, "rev-parse", "--absolute-git-dir", "--git-common-dir").rstrip(b"\n").split(b"\n")
    own, common = said[0], os.path.join(os.fsencode(folder), said[1])  # noqa: PTH118 - names are bytes
    seen: set[bytes] = set()
    for name in map(str.encode, _PARTS):
        place = next((place for place in (own, common) if os.path.isfile(place + b"/" + name)), None)  # noqa: PTH113
        if place is not None:
            yield name, place + b"/" + name, b""
    for name in sorted(os.listdir(own)):  # noqa: PTH208
        if name.startswith(b"sharedindex."):
            yield name, own + b"/" + name, b""
    for part in (b"refs", b"reftable"):
        for place in dict.fromkeys((own, common)):
            yield from _below(place + b"/" + part, part, seen)
    for objects in _object_folders(common + b"/objects"):
        yield from _below(objects, b"objects", seen, skip=b"info")
    yield b"config", b"", _config(folder)


def _object_folders(objects: bytes) -> list[bytes]:
    """A repository's objects, and those of the repositories that it borrows from."""
    found, todo = [], [objects]
    while todo:
        folder = todo.pop(0)
        if folder in found:
            continue
        found.append(folder)
        try:
            with open(folder + b"/info/alternates", "rb") as file:  # noqa: PTH123
                borrowed = file.read().splitlines()
        except OSError:
            continue
        todo += [os.path.normpath(os.path.join(folder, line)) for line in borrowed if line]  # noqa: PTH118
    return found


def _below(folder: bytes, name: bytes, seen: set[bytes], skip: bytes = b"") -> Iterator[tuple[bytes, bytes, bytes]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        inside = name + b"/" + entry.name
        if entry.is_dir(follow_symlinks=False):
            if entry.name != skip:
                yield from _below(entry.path, inside, seen)
        elif stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode) and inside not in seen:
            seen.add(inside)
            yield inside, entry.path, b""


def _config(folder: Path) -> bytes:
    """Just what the format of the repository needs to be understood."""
    keys = ("core.repositoryformatversion", "extensions.objectformat", "extensions.refstorage")
    lines = {}
    for key in keys:
        try:
            lines[key] = _git(folder, "config", "--local", "--get", key).decode("ascii", "replace").strip()
        except UsageError:
            continue
    text = f"[core]\n\trepositoryformatversion = {lines.pop(keys[0], '0')}\n\tbare = false\n"
    text += "[extensions]\n" if lines else ""
    return (text + "".join(f"\t{key.partition('.')[2]} = {value}\n" for key, value in lines.items())).encode()


def _split(output: bytes) -> list[bytes]:
    return output.split(b"\0")[:-1]


def _git(folder: Path, *words: str) -> bytes:
    """Git's answer; nothing of our own environment points it elsewhere.

    Raises:
        UsageError: It is missing, refuses, or takes too long.
    """
    program = shutil.which("git")
    if program is None:
        msg = f"{folder} is a git repository and there is no git on this machine to say what it ignores; install git"
        raise UsageError(msg)
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [program, *_SAFE, *words], cwd=folder, env=env, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        msg = f"git did not list {folder} within {SECONDS} s"
        raise UsageError(msg) from None
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").split()) or f"exit {done.returncode}"
        msg = f"git cannot list {folder}, so what it ignores would be shown: {said}"
        raise UsageError(msg)
    return done.stdout
