from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from assay.model.errors import ConfigError, Refused, UsageError
from assay.model.task import Task, load_task

Files = dict[str, str]


def make(root: Path, files: Files) -> Path:
    folder = root / "foo"
    for name, text in {"prompt.md": "Do it.\n", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def refused(folder: Path) -> str:
    with pytest.raises(Refused) as caught:
        load_task(folder)
    return str(caught.value)


def test_the_smallest_task(tmp_path: Path) -> None:
    task = load_task(make(tmp_path, {}))
    assert task.name == "foo"
    assert task.prompt == "Do it.\n"
    assert (task.files, task.checker, task.solution, task.dockerfile) == (None, None, None, None)
    assert (task.settings.workdir, task.settings.user, task.settings.timeout) == ("/app", "agent", None)


def test_a_whole_task(tmp_path: Path) -> None:
    settings = 'timeout = "5s"\nmemory = "1GiB"\nuser = "root"\n[env]\nA = "b"\n[checker]\ntimeout = 9\n'
    parts = ("files/a/b", "checker/check.sh", "checker/Dockerfile", "solution/solve.sh", "Dockerfile", "rehearsal.toml")
    more = {"task.toml": settings, "rehearsal/small-1.toml": "", "rehearsal/org/big.toml": ""}
    folder = make(tmp_path, {**dict.fromkeys(parts, "x"), **more})
    task = load_task(folder)
    assert task.checker is not None
    assert (task.checker.kind, task.checker.script) == ("sh", folder / "checker/check.sh")
    assert task.checker.dockerfile == folder / "checker/Dockerfile"
    assert (task.settings.timeout, task.settings.memory, task.settings.checker.timeout) == (5, 1 << 30, 9)
    assert task.rehearsal_for("small-1") == folder / "rehearsal/small-1.toml"
    assert task.rehearsal_for("org/big") == folder / "rehearsal/org/big.toml"
    assert task.rehearsal_for("other") == task.rehearsal_for(None) == folder / "rehearsal.toml"


def test_paths_that_hold_no_task(tmp_path: Path) -> None:
    folder = make(tmp_path, {})
    assert refused(tmp_path / "fooo") == f"{tmp_path}/fooo: no such task (did you mean 'foo'?)"
    assert "this is a file" in refused(folder / "prompt.md")
    assert "it has no prompt.md" in refused(tmp_path)
    assert "no such task" in refused(folder / "prompt.md" / "deeper")
    with pytest.raises(UsageError):
        load_task(Path("a\0b"))
    with pytest.raises(UsageError):
        load_task(Path("x" * 5000))


@pytest.mark.parametrize("prompt", ["/cost", " /cost\n", "/code-review", "/mcp__x:y"])
def test_a_slash_command_is_no_prompt(tmp_path: Path, prompt: str) -> None:
    assert "exactly a slash command" in refused(make(tmp_path, {"prompt.md": prompt}))


@pytest.mark.parametrize("prompt", ["/app/x is broken. Mend it.", "/app/data.txt", "Say /cost", "-p", "/", "/cost now"])
def test_what_only_begins_with_a_slash_is_a_prompt(tmp_path: Path, prompt: str) -> None:
    assert load_task(make(tmp_path, {"prompt.md": prompt})).prompt == prompt


@pytest.mark.parametrize(("raw", "words"), [(b"", "empty"), (b" \n\t", "empty"), (b"a\xff", "UTF-8"), (b"a\0b", "NUL")])
def test_prompts_that_cannot_be_given(tmp_path: Path, raw: bytes, words: str) -> None:
    folder = make(tmp_path, {})
    (folder / "prompt.md").write_bytes(raw)
    message = refused(folder)
    assert words in message
    assert message.startswith(f"{folder}/prompt.md: ")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["check.sh", "check.py"], "both check.sh and check.py"),
        (["check.sh", "test_a.py"], "check.sh and test_a.py"),
        (["check.py", "a_test.py"], "check.py and a_test.py"),
        (["helper.py"], "holds no checker"),
        (["Dockerfile"], "holds no checker"),
    ],
)
def test_checkers_that_are_none_or_two(tmp_path: Path, names: list[str], words: str) -> None:
    assert words in refused(make(tmp_path, {f"checker/{name}": "" for name in names}))


@pytest.mark.parametrize(
    ("names", "kind", "tests"),
    [
        (["check.sh", "tests/test_a.py"], "sh", ()),
        (["check.py", "helper.py"], "py", ()),
        (["test_b.py", "sub/a_test.py", "conftest.py"], "pytest", ("sub/a_test.py", "test_b.py")),
        (["test_both_test.py"], "pytest", ("test_both_test.py",)),
    ],
)
def test_kinds_of_checker(tmp_path: Path, names: list[str], kind: str, tests: tuple[str, ...]) -> None:
    checker = load_task(make(tmp_path, {f"checker/{name}": "" for name in names})).checker
    assert checker is not None
    assert (checker.kind, checker.tests) == (kind, tests)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"checkers/check.sh": ""}, "call it 'checker'"),
        ({"Checker/check.sh": ""}, "call it 'checker'"),
        ({"dockerfile": ""}, "call it 'Dockerfile'"),
        ({"checker": ""}, "must be a folder"),
        ({"files": ""}, "must be a folder"),
        ({"solution/readme": ""}, "solve.sh"),
        ({"Dockerfile": "", "task.toml": 'image = "x"'}, "task.toml: image: given beside a Dockerfile"),
        (
            {"task.toml": "timout = 5"},
            "task.toml: timout: unknown key, it would have been ignored (did you mean 'timeout'?)",
        ),
        ({"task.toml": "[checker]\nmemroy = 5"}, "checker.memroy"),
        ({"task.toml": 'workdir = "app"'}, "workdir: 'app' is not an absolute path"),
        ({"task.toml": 'workdir = "/etc/x"'}, "belongs to the system"),
        ({"task.toml": 'workdir = "/"'}, "belongs to the system"),
        ({"task.toml": 'workdir = "/a/../b"'}, "without '..'"),
        ({"task.toml": 'user = "admin"'}, "user: 'admin' is not one of agent, root"),
        ({"task.toml": "cpus = 0.001"}, "cpus: should be greater than or equal to 0.01"),
        ({"task.toml": 'memory = "1kB"'}, "memory: 1000 bytes are less than the 6MiB that a container needs"),
        ({"task.toml": '[checker]\nmemory = "1kB"'}, "checker.memory: 1000 bytes"),
        ({"task.toml": '[env]\nHOME = "/app"'}, "env.HOME"),
        ({"task.toml": "timeout ="}, "task.toml: line 1"),
    ],
)
def test_folders_that_say_something_wrong(tmp_path: Path, files: Files, words: str) -> None:
    message = refused(make(tmp_path, files))
    assert words in message
    assert "\n" not in message


def test_other_files_beside_a_task_are_fine(tmp_path: Path) -> None:
    load_task(make(tmp_path, {"README.md": "", "notes/x": "", "checkers/x": "", "checker/check.sh": ""}))


# -- digest -----------------------------------------------------------------------------------------------------------

RICH: Files = {
    "files/a.txt": "1",
    "checker/check.sh": "exit 0",
    "checker/Dockerfile": "FROM x",
    "Dockerfile": "FROM y",
    "task.toml": 'timeout = "60s"',
    "solution/solve.sh": "",
    "rehearsal.toml": "",
}


def rich(root: Path) -> Task:
    return load_task(make(root, RICH))


@pytest.mark.parametrize("name", ["prompt.md", "files/a.txt", "checker/check.sh", "checker/Dockerfile", "Dockerfile"])
def test_every_part_counts(tmp_path: Path, name: str) -> None:
    before = rich(tmp_path).digest
    (tmp_path / "foo" / name).write_text("other")
    assert load_task(tmp_path / "foo").digest != before


def test_settings_count_by_what_they_say(tmp_path: Path) -> None:
    before = rich(tmp_path).digest
    (tmp_path / "foo/task.toml").write_text("# the same\ntimeout = 60\nworkdir = '/app'\n")
    assert load_task(tmp_path / "foo").digest == before
    (tmp_path / "foo/task.toml").write_text("timeout = 61\n")
    assert load_task(tmp_path / "foo").digest != before


@pytest.mark.parametrize("name", ["solution/solve.sh", "rehearsal.toml", "rehearsal/m.toml", "README.md"])
def test_what_does_not_define_the_task_does_not_count(tmp_path: Path, name: str) -> None:
    before = rich(tmp_path).digest
    (tmp_path / "foo" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "foo" / name).write_text("other")
    assert load_task(tmp_path / "foo").digest == before


def test_the_same_task_elsewhere_is_the_same(tmp_path: Path) -> None:
    before = rich(tmp_path).digest
    shutil.copytree(tmp_path / "foo", tmp_path / "bar")
    assert load_task(tmp_path / "bar").digest == before


def test_modes_names_links_and_empty_folders_count(tmp_path: Path) -> None:
    digests = [rich(tmp_path).digest]
    files = tmp_path / "foo/files"

    def changed() -> None:
        digests.append(load_task(tmp_path / "foo").digest)

    (files / "a.txt").chmod(0o755)
    changed()
    (files / "a.txt").rename(files / "b.txt")
    changed()
    (files / "link").symlink_to("nowhere")
    changed()
    (files / "link").unlink()
    (files / "link").symlink_to("elsewhere")
    changed()
    (files / "empty").mkdir()
    changed()
    (files / "b.txt").rename(files / "empty" / "b.txt")
    changed()
    assert len(set(digests)) == len(digests)


def test_content_cannot_pose_as_structure(tmp_path: Path) -> None:
    one = load_task(make(tmp_path / "1", {"files/a": "b", "files/c": "d"})).digest
    two = load_task(make(tmp_path / "2", {"files/a": "bc", "files/d": ""})).digest
    assert one != two


def test_names_that_are_not_utf8_survive(tmp_path: Path) -> None:
    folder = make(tmp_path, {"files/a": ""})
    odd = os.fsencode(folder) + b"/files/\xff\n\xe9"
    fd = os.open(odd, os.O_CREAT | os.O_WRONLY)
    os.close(fd)
    first = load_task(folder).digest
    Path(os.fsdecode(odd)).rename(os.fsdecode(odd.replace(b"\xff", b"\xfe")))
    assert load_task(folder).digest != first


def test_a_fifo_is_refused_not_waited_for(tmp_path: Path) -> None:
    task = load_task(make(tmp_path, {"files/a": ""}))
    os.mkfifo(tmp_path / "foo/files/pipe")
    with pytest.raises(ConfigError, match="neither a regular file, a folder nor a link"):
        _ = task.digest


def test_links_are_not_followed(tmp_path: Path) -> None:
    folder = make(tmp_path, {"files/a": ""})
    (folder / "files/up").symlink_to("..")
    assert load_task(folder).digest


def test_a_task_folder_that_is_a_link(tmp_path: Path) -> None:
    folder = make(tmp_path, {})
    (tmp_path / "alias").symlink_to(folder)
    assert load_task(tmp_path / "alias").digest == load_task(folder).digest
