"""What is seen of a folder: git's own cases, odd files, and a name for each state."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from assay.model.errors import UsageError
from assay.run.repository import Repository, look
from tests.ask.conftest import MakeRepository, git, hash_of, write


def names(repository: Repository) -> set[str]:
    return {os.fsdecode(thing.name) for thing in repository.files}


def test_tracked_and_untracked_but_not_ignored(repository: MakeRepository) -> None:
    folder = repository({".gitignore": "*.o\nout/\n", "src/a.c": "x", "forced.o": "x", ".env": "S=1", "gone.c": "x"})
    write(folder, {"new.c": "x", "b.o": "x", "out/c": "x", "deploy/.env.prod": "S=2"})
    (folder / "gone.c").unlink()
    found = look(folder)
    assert names(found) == {".gitignore", "src/a.c", "forced.o", "new.c"}
    assert dict(found.withheld) == {".env": "may hold a secret", "deploy/.env.prod": "may hold a secret"}
    assert found.git


def test_nothing_is_written_and_nothing_is_run(repository: MakeRepository, tmp_path: Path) -> None:
    folder = repository({"a": "x"})
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    git(folder, "config", "core.fsmonitor", str(trap))
    before = hash_of(folder)
    look(folder, history=True)
    assert hash_of(folder) == before
    assert not (tmp_path / "sprung").exists()


def test_the_environment_points_git_nowhere_else(repository: MakeRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, other = repository({"a": "x"}), repository({"b": "x"}, "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    assert names(look(folder)) == {"a"}


def test_names_of_any_bytes(repository: MakeRepository) -> None:
    folder = repository({"plain": "x"})
    odd = [b"with space", b"line\nbreak", b"t\tab", b"\xff\xfe", "für 世界".encode(), b"-dash", b"x" * 200]
    for name in odd:
        (folder / os.fsdecode(name)).write_text("x")
    assert {thing.name for thing in look(folder).files} == {b"plain", *odd}


def test_submodules_and_repositories_inside(repository: MakeRepository) -> None:
    library = repository({"lib.c": "x", ".gitignore": "*.o\n"}, "library")
    folder = repository({"main.c": "x"})
    git(folder, "submodule", "add", "-q", str(library), "lib")
    git(folder, "commit", "-q", "-m", "with a submodule")
    write(folder, {"lib/new.c": "x", "lib/y.o": "x"})
    nested = folder / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    write(nested, {"n.c": "x", "skip.o": "x", ".gitignore": "*.o\n"})
    assert names(look(folder)) == {
        ".gitmodules",
        "main.c",
        "lib/.gitignore",
        "lib/lib.c",
        "lib/new.c",
        "nested/.gitignore",
        "nested/n.c",
    }


def test_a_submodule_that_is_not_checked_out(repository: MakeRepository, tmp_path: Path) -> None:
    library = repository({"lib.c": "x"}, "library")
    folder = repository({"main.c": "x"})
    git(folder, "submodule", "add", "-q", str(library), "lib")
    git(folder, "commit", "-q", "-m", "with a submodule")
    git(tmp_path, "clone", "-q", str(folder), "clone")
    assert names(look(tmp_path / "clone")) == {".gitmodules", "main.c"}


def test_a_worktree_and_its_history(repository: MakeRepository, tmp_path: Path) -> None:
    folder = repository({"a.c": "x"})
    git(folder, "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    write(tmp_path / "tree", {"b.c": "x"})
    assert names(look(tmp_path / "tree")) == {"a.c", "b.c"}
    shown = unpacked(look(tmp_path / "tree", history=True), tmp_path / "copy")
    assert git(shown, "log", "--format=%s %D").strip() == "first HEAD -> side, main"
    assert git(shown, "status", "--short").strip() == "?? b.c"


def unpacked(found: Repository, to: Path) -> Path:
    """The copy on this machine, as the engine would make it."""
    from assay.run.withheld import is_private_key
    from assay.sandbox.archive import END
    from assay.sandbox.volumes import Copied, stream

    to.mkdir()
    tar = b"".join(stream(found.things, os.getuid(), Copied(), is_private_key)) + END
    subprocess.run(["tar", "-x", "-C", to], input=tar, check=True)
    return to


def test_history_is_whole_and_holds_no_configuration(repository: MakeRepository, tmp_path: Path) -> None:
    folder = repository({"a.c": "x"})
    git(folder, "gc", "-q")
    write(folder, {"b.c": "x"})
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "second")
    git(folder, "config", "remote.origin.url", "https://user:hunter2@example.com/x.git")
    (folder / ".git/hooks/post-checkout").write_text("#!/bin/sh\n")
    found = look(folder, history=True)
    assert names(found) == {"a.c", "b.c"}
    shown = unpacked(found, tmp_path / "copy")
    assert git(shown, "log", "--format=%s").split() == ["second", "first"]
    assert git(shown, "fsck", "--strict") == ""
    assert b"hunter2" not in b"".join(path.read_bytes() for path in shown.rglob("*") if path.is_file())
    assert not (shown / ".git/hooks").exists()
    assert any("ever committed" in note for note in found.notes)


def test_without_history_there_is_no_git_folder(repository: MakeRepository) -> None:
    found = look(repository({"a.c": "x"}))
    assert not any(thing.name.startswith(b".git/") or thing.name == b".git" for thing in found.things)


def test_history_of_one_commitless_repository(repository: MakeRepository, tmp_path: Path) -> None:
    folder = repository()
    write(folder, {"a.c": "x"})
    shown = unpacked(look(folder, history=True), tmp_path / "copy")
    assert git(shown, "status", "--short").strip() == "?? a.c"


def test_a_folder_of_a_repository(repository: MakeRepository) -> None:
    folder = repository({"src/a.c": "x", "b.c": "x"})
    found = look(folder / "src")
    assert names(found) == {"a.c"}
    assert any("only this folder" in note for note in found.notes)
    with pytest.raises(UsageError, match="not the top folder"):
        look(folder / "src", history=True)


def test_an_ignored_folder_is_seen_as_it_is(repository: MakeRepository) -> None:
    folder = repository({".gitignore": "vendor/\n", "a.c": "x"})
    write(folder, {"vendor/v.c": "x", "vendor/.env": "x"})
    assert names(look(folder)) == {".gitignore", "a.c"}
    assert names(look(folder / "vendor")) == {"v.c"}


def test_outside_git_everything_but_secrets(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    write(folder, {"a.c": "x", "b.o": "x", ".gitignore": "*.o\n", ".env": "x", "d/id_rsa": "x"})
    (folder / "empty").mkdir()
    inside = folder / "project"
    inside.mkdir()
    git(inside, "init", "-q")
    write(inside, {"p.c": "x", "p.o": "x", ".gitignore": "*.o\n"})
    found = look(folder)
    assert names(found) == {"a.c", "b.o", ".gitignore", "project/p.c", "project/.gitignore"}
    assert not found.git
    assert {name for name, _ in found.withheld} == {".env", "d/id_rsa"}
    assert any(thing.name == b"empty" for thing in found.things)


def test_links_are_never_followed(repository: MakeRepository, tmp_path: Path) -> None:
    write(tmp_path / "outside", {"secret": "hunter2"})
    folder = repository({"real/f": "x"})
    (folder / "to-file").symlink_to("real/f")
    (folder / "to-folder").symlink_to("real")
    (folder / "out").symlink_to(tmp_path / "outside")
    (folder / "up").symlink_to("../outside/secret")
    (folder / "loop").symlink_to("loop")
    found = look(folder)
    links = {thing.name.decode(): thing.link.decode() for thing in found.files if thing.link}
    assert links["to-folder"] == "real"
    assert set(links) == {"to-file", "to-folder", "out", "up", "loop"}
    assert not any("secret" in name.split("/") for name in names(found))
    assert "out, up: leads out of the folder" in "\n".join(found.notes)


def test_a_folder_behind_a_link_is_the_folder(repository: MakeRepository, tmp_path: Path) -> None:
    folder = repository({"a.c": "x"})
    (tmp_path / "link").symlink_to(folder)
    assert look(tmp_path / "link").root == folder


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    write(folder, {"a.c": "x"})
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        found = look(folder)
    assert names(found) == {"a.c"}
    assert "fifo, socket: is no file" in "\n".join(found.notes)


@pytest.mark.parametrize("in_git", [True, False])
def test_an_empty_one_is_refused(tmp_path: Path, in_git: bool) -> None:
    if in_git:
        git(tmp_path, "init", "-q")
    with pytest.raises(UsageError, match="nothing to see"):
        look(tmp_path)


def test_what_has_no_files_is_refused(repository: MakeRepository, tmp_path: Path) -> None:
    folder = repository({"a.c": "x"})
    git(tmp_path, "clone", "-q", "--bare", str(folder), "bare")
    with pytest.raises(UsageError, match="bare repository"):
        look(tmp_path / "bare")
    with pytest.raises(UsageError, match="git's own folder"):
        look(folder / ".git")
    with pytest.raises(UsageError, match="is no folder"):
        look(folder / "a.c")
    with pytest.raises(UsageError, match="cannot be looked at"):
        look(folder / "nowhere")


def test_a_repository_that_git_refuses_is_refused(repository: MakeRepository) -> None:
    folder = repository({"a.c": "x", ".gitignore": "secret\n"})
    write(folder, {"secret": "x"})
    (folder / ".git/HEAD").write_text("nonsense")
    with pytest.raises(UsageError, match="what it ignores would be shown"):
        look(folder)


def test_no_git_on_this_machine(repository: MakeRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = repository({"a.c": "x"})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="install git"):
        look(folder)


def test_runs_and_exclusions(repository: MakeRepository) -> None:
    folder = repository({"a.c": "x", "data/big.bin": "x", "runs/1/events.jsonl": "x"})
    found = look(folder, exclude=["data/"], runs=folder / "runs")
    assert names(found) == {"a.c"}
    assert dict(found.withheld) == {"data/big.bin": "excluded by data/", "runs/": "runs of Assay"}


def test_each_state_has_its_name(repository: MakeRepository) -> None:
    folder = repository({"a.c": "1", "b.c": "1"})
    states = [look(folder).state]
    assert look(folder).state == states[0]
    (folder / "a.c").write_text("2")
    states.append(look(folder).state)
    (folder / "a.c").chmod(0o755)
    states.append(look(folder).state)
    (folder / "c.c").write_text("")
    states.append(look(folder).state)
    (folder / "b.c").unlink()
    states.append(look(folder).state)
    states.append(look(folder, history=True).state)
    states.append(look(folder, exclude=["c.c"]).state)
    assert len(set(states)) == len(states)


def test_a_change_of_the_same_size_within_one_tick_is_seen(repository: MakeRepository) -> None:
    folder = repository({"a.c": "0"})
    seen = set()
    for number in range(8):
        (folder / "a.c").write_text(str(number))
        seen.add(look(folder).state)
    assert len(seen) == 8


def test_ignored_changes_leave_the_state_alone(repository: MakeRepository) -> None:
    folder = repository({".gitignore": "*.o\n", "a.c": "x"})
    before = look(folder).state
    write(folder, {"a.o": "x"})
    assert look(folder).state == before


def test_keys_are_found_by_content(repository: MakeRepository) -> None:
    folder = repository({"a.c": "x", "notes.txt": "-----BEGIN PRIVATE KEY-----\nMIIE\n"})
    assert list(look(folder).keys_inside()) == ["notes.txt"]


def test_a_copy_is_true(repository: MakeRepository, tmp_path: Path) -> None:
    folder = repository({"a.sh": "#!/bin/sh\n", "empty": "", "d/e/f": "deep", "blob": bytes(range(256)) * 9000})
    (folder / "a.sh").chmod(0o700)
    (folder / ("long-" * 40)).write_text("x")
    (folder / ("l" * 120)).symlink_to("t" * 150)
    (folder / "hidden.txt").write_text("-----BEGIN PRIVATE KEY-----\n")
    shown = unpacked(look(folder), tmp_path / "copy")
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if inside.parts[0] == ".git" or inside.name == "hidden.txt":
            continue
        if path.is_symlink():
            assert (shown / inside).readlink() == path.readlink()
        elif path.is_file():
            assert (shown / inside).read_bytes() == path.read_bytes()
            assert (shown / inside).stat().st_mode == path.stat().st_mode
    assert not (shown / "hidden.txt").exists()


@pytest.mark.timeout(120)
def test_a_hundred_thousand_files(tmp_path: Path) -> None:
    """Taking stock of them costs a few seconds of CPU, and the stream no more than the standard library's."""
    import tarfile
    import time

    from assay.run.withheld import is_private_key
    from assay.sandbox.volumes import Copied, stream

    for n in range(100):
        (tmp_path / f"d{n}").mkdir()
        for m in range(1000):
            os.close(os.open(f"{tmp_path}/d{n}/f{m}", os.O_WRONLY | os.O_CREAT, 0o644))
    began = time.process_time()
    found = look(tmp_path)
    assert len(found.files) == 100_000
    surveyed = time.process_time() - began
    size = sum(map(len, stream(found.things, 1000, Copied(), is_private_key)))
    streamed = time.process_time() - began - surveyed
    assert size == 512 * 100_100
    assert surveyed < 12
    began = time.process_time()
    with tarfile.open(os.devnull, "w|") as tar:
        for n in range(20):
            tar.add(tmp_path / f"d{n}", f"d{n}")
    assert streamed < 5 * (time.process_time() - began)
