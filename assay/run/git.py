"""What git says of a folder. Nothing is written in it, and nothing that its configuration names is run.

Git runs what a repository's configuration names in more places than can be switched off one by one, and fetches what an
index lacks. So it is given a git folder of our own, which has the repository's index, its list of what is ignored and
the few words of its configuration that say how these are read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from assay.model.errors import UsageError
from assay.run import git_folder
from assay.run.git_folder import GitFolder, small

SECONDS = 120
_SAFE = (
    *("-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.attributesFile=/dev/null", "-c", "core.quotePath=false"),
)
_LIST = ("config", "--no-includes", "-z", "--list", "--file", "-")
_SUBMODULE, _FOLDER = b"160000", b"040000"
_SWITCHES = (
    "core.ignorecase",
    "core.precomposeunicode",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "index.sparse",
)
"""What decides how names are told apart and which of them the index leaves out."""
_ON, _OFF = ("", "true", "yes", "on", "1"), ("false", "no", "off", "0")
_SHARED = re.compile(r"sharedindex\.[0-9a-f]{40,64}")


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


def listing(folder: Path, found: GitFolder) -> tuple[list[bytes], list[bytes]]:
    """Files below a folder that are tracked, or untracked and not ignored; and folders that are repositories.

    Names are relative to the folder, and are what an index says, which may be anything. A submodule that is not checked
    out is left out.

    Raises:
        UsageError: Git is missing, or refuses this repository: what is ignored cannot be told from what is not.
    """
    names: dict[bytes, None] = {}
    nested: dict[bytes, None] = {}
    with _stand_in(found) as env:
        for entry in _split(_git(folder, env, "ls-files", "-z", "--stage", "--sparse")):
            head, _, name = entry.partition(b"\t")
            if not head.startswith(_FOLDER):
                (nested if head.startswith(_SUBMODULE) else names)[name] = None
        for name in _split(_git(folder, env, "ls-files", "-z", "--others", "--exclude-standard")):
            (nested if name.endswith(b"/") else names)[name.rstrip(b"/")] = None
    inside = os.fsencode(folder)
    return list(names), [name for name in nested if os.path.lexists(inside + b"/" + name + b"/.git")]


def is_ignored(folder: Path, found: GitFolder) -> bool:
    """Whether the repository above ignores this folder."""
    with _stand_in(found) as env:
        try:
            _git(folder.parent, env, "check-ignore", "-q", "--", folder.name)
        except UsageError:
            return False
    return True


def history(found: GitFolder) -> Iterator[tuple[bytes, bytes, bytes]]:
    """What makes up the history: (name below `.git`, file on this machine, or "" and its content).

    Raises:
        UsageError: It is, or may be, another repository's.
    """
    said = _configuration(found)
    for name, source in git_folder.history(found, said.get("core.worktree", "")):
        yield name, source, b""
    refs = {key: said[key] for key in ("extensions.refstorage",) if key in said}
    yield b"config", b"", _written(_checked(found, _format(said) | refs))


# -- a git folder of our own ----------------------------------------------------------------------------------------


@contextmanager
def _stand_in(found: GitFolder) -> Iterator[dict[str, str]]:
    """What points git to a folder of ours in place of the repository's own.

    It has no objects, which git would mark as used: a name in a sparse index that stands for a whole folder stays as it
    is, and where git wants what is in it (2.39 does when that folder is there after all), its files count as untracked.
    """
    said = _configuration(found)
    with tempfile.TemporaryDirectory(prefix="assay-git-") as name:
        place = Path(name)
        for part in ("refs", "info", "objects"):
            (place / part).mkdir(parents=True)
        (place / "HEAD").write_text("ref: refs/heads/main\n")
        (place / "config").write_bytes(_written(_checked(found, _format(said) | _switches(said))))
        (place / "info/exclude").write_bytes(_excluded(found, said))
        (place / "info/sparse-checkout").write_bytes(small(found.own / "info/sparse-checkout") or b"")
        for shared in found.own.glob("sharedindex.*"):
            if _SHARED.fullmatch(shared.name) and shared.is_file() and not shared.is_symlink():
                shutil.copyfile(shared, place / shared.name)
        index = found.own / "index"
        if not index.is_file():
            index = place / "index"
        yield {"GIT_DIR": name, "GIT_WORK_TREE": str(found.tree), "GIT_INDEX_FILE": str(index)}


def _configuration(found: GitFolder) -> dict[str, str]:
    """The repository's own configuration, without what it includes; git reads it as it would any text."""
    said: dict[str, str] = {}
    for path in (found.common / "config", found.own / "config.worktree"):
        # The second one counts where the first one says so.
        if path.name == "config" or said.get("extensions.worktreeconfig", "false").lower() in _ON:
            listed = _git(found.common, {"GIT_DIR": "/nowhere"}, *_LIST, given=small(path) or b"")
            pairs = (entry.partition(b"\n") for entry in _split(listed))
            said |= {key.decode("utf-8", "replace"): os.fsdecode(value) for key, _, value in pairs}
    return said


def _format(said: Mapping[str, str]) -> dict[str, str]:
    """Just what the format of the repository needs to be understood."""
    needed = {"core.bare": "false", "core.repositoryformatversion": said.get("core.repositoryformatversion", "0")}
    return needed | {key: said[key] for key in ("extensions.objectformat",) if key in said}


def _checked(found: GitFolder, values: dict[str, str]) -> dict[str, str]:
    """Values that are words and nothing else.

    Raises:
        UsageError: One is not.
    """
    for key, value in values.items():
        if not re.fullmatch(r"[a-z0-9]+", value):
            msg = f"{found.common / 'config'}: {key}: {value!r} is none of git's words, so it cannot be read; mend it"
            raise UsageError(msg)
    return values


def _switches(said: Mapping[str, str]) -> dict[str, str]:
    words = {key: said[key].lower() for key in _SWITCHES if key in said}
    return {key: "true" if word in _ON else "false" for key, word in words.items() if word in (*_ON, *_OFF)}


def _written(values: Mapping[str, str]) -> bytes:
    parts = (key.partition(".") for key in values)
    return "".join(f"[{section}]\n\t{name} = {values[f'{section}.{name}']}\n" for section, _, name in parts).encode()


def _excluded(found: GitFolder, said: Mapping[str, str]) -> bytes:
    """What is ignored by the repository's own lists; `.gitignore` and the user's list are read by git."""
    named = os.path.expanduser(said.get("core.excludesfile", ""))  # noqa: PTH111 - "" is no path
    lists = ([found.tree / named] if named else []) + [found.common / "info/exclude"]
    return b"\n".join(small(path) or b"" for path in lists)


# -- git ------------------------------------------------------------------------------------------------------------


def _split(output: bytes) -> list[bytes]:
    return output.split(b"\0")[:-1]


def _git(folder: Path, where: Mapping[str, str], *words: str, given: bytes = b"") -> bytes:
    """Git's answer; nothing of our own environment points it elsewhere, and it talks to nobody.

    Raises:
        UsageError: It is missing, refuses, or takes too long.
    """
    path = os.pathsep.join(part for part in os.get_exec_path() if Path(part).is_absolute())
    program = shutil.which("git", path=path)
    if program is None:
        msg = f"{folder} is a git repository and there is no git on this machine to say what it ignores; install git"
        raise UsageError(msg)
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "PATH": path}
    env |= {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", **where}
    try:
        done = subprocess.run(
            [program, *_SAFE, *words],
            cwd=folder,
            env=env,
            input=given,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        msg = f"git did not list {folder} within {SECONDS} s"
        raise UsageError(msg) from None
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").split()) or f"exit {done.returncode}"
        msg = f"git cannot list {folder}, so what it ignores would be shown: {said}"
        raise UsageError(msg)
    return done.stdout
