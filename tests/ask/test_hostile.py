"""A repository may be anybody's: whatever its configuration names, asking about it runs nothing on this machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from assay.run.repository import Repository, look
from assay.run.withheld import is_private_key
from assay.sandbox.volumes import Copied, stream
from tests.ask.conftest import IDENTITY, MakeRepository, git, hash_of, write
from tests.conftest import MakeProject

pytestmark = pytest.mark.timeout(120)

Arm = Callable[[Path, str], list[str]]
"""Sets the trap in a repository; the words with which plain git would spring it."""


def _configured(values: Mapping[str, str], *springs: str) -> Arm:
    def arm(folder: Path, trap: str) -> list[str]:
        for key, value in values.items():
            git(folder, "config", key, value.replace("TRAP", trap))
        return list(springs)

    return arm


def _filtered(values: Mapping[str, str], attribute: str, *springs: str) -> Arm:
    def arm(folder: Path, trap: str) -> list[str]:
        write(folder, {".gitattributes": f"* {attribute}\n", "a.c": "changed"})
        return _configured(values, *springs)(folder, trap)

    return arm


def _included(folder: Path, trap: str) -> list[str]:
    write(folder, {"more": f"[core]\n\tfsmonitor = {trap}\n"})
    git(folder, "config", "include.path", "../more")
    return ["ls-files", "--others"]


def _of_the_worktree(folder: Path, trap: str) -> list[str]:
    git(folder, "config", "extensions.worktreeConfig", "true")
    write(folder, {".git/config.worktree": f"[core]\n\tfsmonitor = {trap}\n"})
    return ["ls-files", "--others"]


def _hook(folder: Path, trap: str) -> list[str]:
    (folder / ".git/hooks/post-index-change").symlink_to(trap)
    write(folder, {"a.c": "changed"})
    return ["add", "a.c"]


def _hook_elsewhere(folder: Path, trap: str) -> list[str]:
    write(folder, {"hooks/post-index-change": Path(trap).read_bytes(), "a.c": "changed"})
    (folder / "hooks/post-index-change").chmod(0o755)
    git(folder, "config", "core.hooksPath", "hooks")
    return ["add", "a.c"]


def _fetched(url: str, values: Mapping[str, str]) -> Arm:
    """An index that names a folder whose tree is missing, so that git wants to fetch it."""

    def arm(folder: Path, trap: str) -> list[str]:
        write(folder, {"out/b.c": "x"})
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", "second")
        git(folder, "sparse-checkout", "init", "--cone", "--sparse-index")
        git(folder, "sparse-checkout", "set", "in")
        missing = git(folder, "rev-parse", "HEAD:out").strip()
        (folder / ".git/objects" / missing[:2] / missing[2:]).unlink()
        git(folder, "config", "core.repositoryformatversion", "1")
        git(folder, "config", "extensions.partialClone", "origin")
        promisor = {"remote.origin.url": url, "remote.origin.promisor": "true"}
        return _configured({**promisor, **values}, "ls-files", "--stage")(folder, trap)

    return arm


def _inside(arm: Arm) -> Arm:
    """The same in a repository inside of the one that is asked about."""

    def within(folder: Path, trap: str) -> list[str]:
        inner = folder / "inner"
        inner.mkdir()
        git(inner, "init", "-q")
        write(inner, {"a.c": "x"})
        git(inner, "add", "-A")
        git(inner, "commit", "-q", "-m", "first")
        return ["-C", "inner", *arm(inner, trap)]

    return within


_MONITOR = _configured({"core.fsmonitor": "TRAP"}, "ls-files", "--others")
_UPLOAD = _fetched("file:///nowhere", {"remote.origin.uploadpack": "TRAP"})

TRICKS: dict[str, Arm] = {
    "fsmonitor": _MONITOR,
    "fsmonitor-inside": _inside(_MONITOR),
    "include": _included,
    "worktree-config": _of_the_worktree,
    "hook": _hook,
    "hooks-path": _hook_elsewhere,
    "filter-clean": _filtered({"filter.x.clean": "TRAP"}, "filter=x", "add", "a.c"),
    "filter-process": _filtered({"filter.x.process": "TRAP"}, "filter=x", "add", "a.c"),
    "external-diff": _filtered({"diff.external": "TRAP"}, "-text", "diff"),
    "textconv": _filtered({"diff.x.textconv": "TRAP"}, "diff=x", "diff"),
    "alias": _configured({"alias.look": "!TRAP"}, "look"),
    "upload-pack": _UPLOAD,
    "upload-pack-inside": _inside(_UPLOAD),
    "ssh-command": _fetched("ssh://nowhere.invalid/x", {"core.sshCommand": "TRAP"}),
    "git-proxy": _fetched("git://nowhere.invalid/x", {"core.gitProxy": "TRAP"}),
    "remote-helper": _fetched("ext::TRAP", {"protocol.ext.allow": "always", "remote.origin.url": "ext::TRAP"}),
}


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a mark."""
    program = tmp_path / "trap"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    program.chmod(0o755)
    return program


def armed(folder: Path, trap: Path, arm: Arm) -> Path:
    """The mark that the trap would leave, after it was seen to work with plain git on a copy."""
    mark, springs = trap.with_name("sprung"), arm(folder, str(trap))
    copy = folder.with_name("plain")
    subprocess.run(["cp", "-a", folder, copy], check=True)
    subprocess.run(["git", *springs], cwd=copy, env={**os.environ, **IDENTITY}, capture_output=True, check=False)
    assert mark.exists(), f"the trap does not work: git {' '.join(springs)}"
    mark.unlink()
    return mark


def copied(found: Repository) -> bytes:
    """The copy, as the engine gets it."""
    list(found.keys_inside())
    return b"".join(stream(found.things, 1000, Copied(), is_private_key))


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("history", [False, True], ids=["files", "history"])
def test_nothing_that_a_repository_names_is_run(
    repository: MakeRepository, trap: Path, trick: str, history: bool
) -> None:
    folder = repository({"in/a.c": "x", "a.c": "x"})
    mark = armed(folder, trap, TRICKS[trick])
    before = hash_of(folder)
    assert b"a.c" in copied(look(folder, history=history))
    assert not mark.exists()
    assert hash_of(folder) == before


@pytest.mark.parametrize("trick", TRICKS)
def test_nor_by_the_command(repository: MakeRepository, project: MakeProject, trap: Path, trick: str) -> None:
    folder = repository({"in/a.c": "x", "a.c": "x"})
    mark = armed(folder, trap, TRICKS[trick])
    here = project({})
    for words in ([], ["--history"]):
        here.run("ask", "--repo", str(folder), "--rehearse", "--dry-run", *words, "Why?").assert_code(0)
        assert not mark.exists()


def test_files_outside_of_the_sparse_part_are_seen_where_they_are_there(repository: MakeRepository) -> None:
    folder = repository({"in/a.c": "x", "out/b.c": "x", "out/c.c": "x", "out/deep/d.c": "x", ".gitignore": "*.o\n"})
    git(folder, "sparse-checkout", "init", "--cone", "--sparse-index")
    git(folder, "sparse-checkout", "set", "in")
    before = hash_of(folder)
    assert {thing.name for thing in look(folder).files} == {b".gitignore", b"in/a.c"}
    assert hash_of(folder) == before
    write(folder, {"out/b.c": "x", "out/new.c": "x", "out/new.o": "x"})
    before = hash_of(folder)
    assert {thing.name for thing in look(folder).files} == {b".gitignore", b"in/a.c", b"out/b.c", b"out/new.c"}
    assert hash_of(folder) == before


def test_the_environment_makes_git_write_nowhere(
    repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_TRACE", "GIT_TRACE2", "GIT_TRACE2_EVENT", "GIT_TRACE_SETUP"):
        monkeypatch.setenv(name, str(tmp_path / "trace"))
    git(tmp_path, "--version")
    assert (tmp_path / "trace").exists()
    folder = repository({"a.c": "x"})
    (tmp_path / "trace").unlink()
    look(folder, history=True)
    assert not (tmp_path / "trace").exists()


def test_a_git_in_the_folder_is_not_git(
    repository: MakeRepository, trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository({"a.c": "x"})
    (folder / "git").symlink_to(trap)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    look(folder)
    assert not trap.with_name("sprung").exists()


def test_a_work_tree_elsewhere_is_not_looked_at(repository: MakeRepository, tmp_path: Path) -> None:
    write(tmp_path / "host", {"secret.txt": "hunter2"})
    folder = repository({"a.c": "x"})
    git(folder, "config", "core.worktree", str(tmp_path / "host"))
    assert [thing.name for thing in look(folder).files] == [b"a.c"]


def test_its_own_lists_of_what_is_ignored_are_kept_to(repository: MakeRepository, tmp_path: Path) -> None:
    write(tmp_path, {"list": "*.log\n"})
    folder = repository({"a.c": "x", ".gitignore": "*.o\n"})
    git(folder, "config", "core.excludesFile", str(tmp_path / "list"))
    write(folder, {".git/info/exclude": "*.tmp\n", "b.o": "x", "b.log": "x", "b.tmp": "x", "b.c": "x"})
    assert {thing.name for thing in look(folder).files} == {b".gitignore", b"a.c", b"b.c"}


def test_so_is_the_users(repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"home/.config/git/ignore": "*.swp\n"})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    folder = repository({"a.c": "x"})
    write(folder, {"b.swp": "x"})
    assert [thing.name for thing in look(folder).files] == [b"a.c"]


def test_an_index_in_two_parts_and_one_with_sha256(repository: MakeRepository, tmp_path: Path) -> None:
    folder = repository({"a.c": "x", "b.c": "x"})
    git(folder, "update-index", "--split-index")
    write(folder, {"c.c": "x"})
    git(folder, "add", "c.c")
    assert list((folder / ".git").glob("sharedindex.*"))
    before = hash_of(folder)
    assert {thing.name for thing in look(folder).files} == {b"a.c", b"b.c", b"c.c"}
    assert hash_of(folder) == before
    other = tmp_path / "sha256"
    other.mkdir()
    git(other, "init", "-q", "--object-format=sha256")
    write(other, {"a.c": "x"})
    git(other, "add", "-A")
    assert {thing.name for thing in look(other).files} == {b"a.c"}


def index_of(*names: bytes) -> bytes:
    """An index as no git would write it."""
    data = b"DIRC" + (2).to_bytes(4, "big") + len(names).to_bytes(4, "big")
    for name in sorted(names):
        entry = bytes(24) + (0o100644).to_bytes(4, "big") + bytes(12) + bytes.fromhex("11" * 20)
        entry += len(name).to_bytes(2, "big") + name
        data += entry + bytes(8 - len(entry) % 8)
    return data + hashlib.sha1(data).digest()


def test_an_index_cannot_name_what_lies_outside(repository: MakeRepository, tmp_path: Path) -> None:
    write(tmp_path, {"host/secret.txt": "hunter2"})
    folder = repository({"a.c": "x"})
    git(folder, "config", "remote.origin.url", "https://user:hunter2@example.com/x.git")
    names = [b"../host/secret.txt", b".git/config", b".GIT/config", b"a.c", b"d/../../host/secret.txt"]
    (folder / ".git/index").write_bytes(index_of(*names))
    listed = git(folder, "-c", "core.quotePath=false", "ls-files")
    assert "../host/secret.txt" in listed
    found = look(folder)
    assert [thing.name for thing in found.files] == [b"a.c"]
    assert {name for name, _ in found.withheld} == {os.fsdecode(name) for name in names} - {"a.c"}
    assert b"hunter2" not in copied(found)
