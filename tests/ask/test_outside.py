"""Nothing that lies outside of a repository comes along, wherever its links and its git folder point."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from assay.model.errors import UsageError
from assay.run.repository import Repository, look
from assay.run.withheld import is_private_key
from assay.sandbox.below import Below
from assay.sandbox.volumes import Copied, stream
from tests.ask.conftest import MakeRepository, git, write

SECRET = b"hunter2"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A folder that belongs to no repository."""
    folder = tmp_path / "host"
    write(folder, {"data.txt": SECRET, "deep/data.txt": SECRET, "ab/" + "c" * 38: SECRET, "pack/pack-1.pack": SECRET})
    return folder


@pytest.fixture
def private(repository: MakeRepository) -> Path:
    """Another repository on this machine."""
    return repository({"secret.txt": SECRET}, "private")


def names(found: Repository) -> list[str]:
    return [os.fsdecode(thing.name) for thing in found.files]


def copied(found: Repository) -> bytes:
    """The copy, as the engine gets it: one after the other, and all that were told are in it."""
    told = Copied()
    data = b"".join(stream(found.things, 1000, told, is_private_key))
    assert told.unread == []
    return data


@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize("tracked", ["a/data.txt", "a/deep/data.txt"])
def test_a_tracked_folder_that_is_a_link_now(
    repository: MakeRepository, host: Path, ignored: bool, tracked: str
) -> None:
    folder = repository({tracked: "mine", "main.py": "x", ".gitignore": "/a\n" if ignored else "\n"})
    shutil.rmtree(folder / "a")
    (folder / "a").symlink_to(host)
    found = look(folder)
    assert names(found) == sorted([".gitignore", "main.py", *([] if ignored else ["a"])])
    assert ("a/", "is a link now; nothing behind it is shown") in found.withheld
    assert SECRET not in copied(found)


def test_a_folder_that_became_a_link_to_another_of_the_repository(repository: MakeRepository) -> None:
    folder = repository({"old/a.c": "x", "main.py": "x"})
    (folder / "old").rename(folder / "new")
    (folder / "old").symlink_to("new")
    found = look(folder)
    assert names(found) == ["main.py", "new/a.c", "old"]
    assert [thing.link for thing in found.files if thing.name == b"old"] == [b"new"]


@pytest.mark.parametrize("where", ["lib", "sub/lib"])
def test_a_submodule_that_is_a_link_now(repository: MakeRepository, private: Path, where: str) -> None:
    library = repository({"lib.c": "x"}, "library")
    folder = repository({"main.c": "x"})
    git(folder, "submodule", "add", "-q", str(library), where)
    git(folder, "commit", "-q", "-m", "with a submodule")
    shutil.rmtree(folder / where)
    if where == "lib":
        (folder / "lib").symlink_to(private)
    else:
        (folder / "sub").rmdir()
        shutil.copytree(private, private.with_name("outer") / "lib")
        (folder / "sub").symlink_to(private.with_name("outer"))
    found = look(folder)
    assert set(names(found)) == {".gitmodules", where.partition("/")[0], "main.c"}
    assert SECRET not in copied(found)


@pytest.mark.parametrize("part", ["objects", "objects/pack", "refs", "reftable"])
def test_a_linked_folder_of_git_is_refused(repository: MakeRepository, host: Path, part: str) -> None:
    folder = repository({"a.c": "x"})
    shutil.rmtree(folder / ".git" / part, ignore_errors=True)
    (folder / ".git" / part).symlink_to(host)
    with pytest.raises(UsageError, match=f"{part} is a link.*git clone --no-local"):
        look(folder, history=True)
    assert names(look(folder)) == ["a.c"]


def test_links_among_the_files_of_git_are_left_out(repository: MakeRepository, host: Path) -> None:
    folder = repository({"a.c": "x"})
    dotgit = folder / ".git"
    (dotgit / "packed-refs").symlink_to(host / "data.txt")
    (dotgit / "shallow").symlink_to(host / "data.txt")
    (dotgit / "refs/linked").symlink_to(host)
    (dotgit / "refs/heads/linked").symlink_to(host / "data.txt")
    shutil.rmtree(dotgit / "objects/ab", ignore_errors=True)
    (dotgit / "objects/ab").symlink_to(host / "ab")
    (dotgit / "objects/pack/pack-1.pack").symlink_to(host / "pack/pack-1.pack")
    assert SECRET not in copied(look(folder, history=True))


def test_only_objects_come_from_where_objects_are(repository: MakeRepository, tmp_path: Path) -> None:
    folder = repository({"a.c": "x"})
    git(folder, "gc", "-q")
    objects = folder / ".git/objects"
    odd = {"data.txt": SECRET, "ab/data.txt": SECRET, "pack/data.txt": SECRET, "deep/er/data.txt": SECRET}
    write(objects, {**odd, "info/data.txt": SECRET, "pack/tmp_pack_1": SECRET})
    assert SECRET not in copied(look(folder, history=True))


@pytest.mark.parametrize("what", ["a folder", "objects"])
def test_borrowed_objects_are_refused(repository: MakeRepository, host: Path, private: Path, what: str) -> None:
    folder = repository({"a.c": "x"})
    borrowed = host if what == "a folder" else private / ".git/objects"
    write(folder, {".git/objects/info/alternates": f"{borrowed}\n"})
    with pytest.raises(UsageError, match=r"borrows objects from another repository.*git repack -a -d"):
        look(folder, history=True)
    assert names(look(folder)) == ["a.c"]


def test_a_clone_that_borrows_is_shown_once_it_stands_alone(repository: MakeRepository, tmp_path: Path) -> None:
    """As the refusal says that it can be made to."""
    origin, folder = repository({"a.c": "x"}, "origin"), tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--shared", str(origin), "clone")
    with pytest.raises(UsageError, match="alternates"):
        look(folder, history=True)
    git(folder, "repack", "-a", "-d", "-q")
    (folder / ".git/objects/info/alternates").unlink()
    assert any(name.endswith(".pack") for name in map(os.fsdecode, (t.name for t in look(folder, history=True).things)))


@pytest.mark.parametrize("how", ["file", "link", "commondir", "forged worktree"])
def test_another_repositorys_history_is_refused(repository: MakeRepository, private: Path, how: str) -> None:
    folder = repository({"a.c": "x"})
    dotgit = folder / ".git"
    if how == "commondir":
        write(dotgit, {"commondir": f"{private}/.git\n"})
    else:
        kept = dotgit.rename(folder / "kept")
        if how == "file":
            write(folder, {".git": f"gitdir: {private}/.git\n"})
        elif how == "link":
            dotgit.symlink_to(private / ".git")
        else:
            write(kept, {"commondir": f"{private}/.git\n", "gitdir": f"{dotgit}\n"})
            write(folder, {".git": "gitdir: kept\n", ".gitignore": "kept\n"})
    with pytest.raises(UsageError, match=f"{private}/.git, which does not name this folder as its own"):
        look(folder, history=True)
    assert SECRET not in copied(look(folder))


def test_ones_own_worktree_submodule_and_separate_git_folder(repository: MakeRepository, tmp_path: Path) -> None:
    """Whose history is shown is told."""
    library, folder = repository({"lib.c": "x"}, "library"), repository({"a.c": "x"})
    git(folder, "submodule", "add", "-q", str(library), "lib")
    git(folder, "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    git(tmp_path, "clone", "-q", "--separate-git-dir", str(tmp_path / "apart.git"), str(library), "apart")
    with pytest.raises(UsageError, match=r"config core\.worktree"):
        look(tmp_path / "apart", history=True)
    git(tmp_path / "apart", "config", "core.worktree", str(tmp_path / "apart"))
    homes = {folder / "lib": folder / ".git/modules/lib", tmp_path / "tree": folder / ".git"}
    homes[tmp_path / "apart"] = tmp_path / "apart.git"
    for asked, home in homes.items():
        found = look(asked, history=True)
        assert f"the history is that of {home}, which names this folder as its own" in found.notes
        assert any(thing.name.startswith(b".git/objects/") for thing in found.files) or found.history
        assert not any("the history is that of" in note for note in look(asked).notes)


def test_a_link_that_comes_between_looking_and_copying(repository: MakeRepository, host: Path) -> None:
    folder = repository({"a/deep/data.txt": "mine", "data.txt": "mine", "main.py": "x"})
    found = look(folder)
    shutil.rmtree(folder / "a")
    (folder / "a").symlink_to(host)
    (folder / "data.txt").unlink()
    (folder / "data.txt").symlink_to(host / "data.txt")
    assert list(found.keys_inside()) == []
    told = Copied()
    data = b"".join(stream(found.things, 1000, told, is_private_key))
    assert SECRET not in data
    assert told.unread == ["a/deep/data.txt", "data.txt"]


def test_a_fifo_in_the_place_of_a_file_is_not_waited_for(repository: MakeRepository) -> None:
    folder = repository({"a.c": "x", "main.py": "x"})
    found = look(folder)
    (folder / "a.c").unlink()
    os.mkfifo(folder / "a.c")
    done = threading.Thread(target=lambda: list(found.keys_inside()), daemon=True)
    done.start()
    done.join(30)
    assert not done.is_alive()


def test_opening_below_a_folder(tmp_path: Path) -> None:
    write(tmp_path, {"top/a/b/f": "x", "top/g": "y", "outside": "z"})
    (tmp_path / "top/link").symlink_to("a")
    top = os.fsencode(tmp_path / "top")
    with Below() as below:
        for name in (b"a/b/f", b"g", b"a/b/f"):
            with open(below.open(top, top + b"/" + name), "rb") as file:  # noqa: PTH123 - a descriptor
                assert file.read() in (b"x", b"y")
        for name in (b"link/b/f", b"../outside", b"a/../g", b"", b"a//b/f", b"nowhere/f"):
            with pytest.raises(OSError, match=r".+"):
                below.open(top, top + b"/" + name)
        with pytest.raises(OSError, match="is not below"):
            below.open(top, os.fsencode(tmp_path / "outside"))
