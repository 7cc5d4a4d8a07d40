"""`assay init`: a project and a task that work, and nothing overwritten."""

from __future__ import annotations

import pytest

from assay.model.project import find_project
from assay.model.task import load_task
from assay.rehearsal.script import load
from tests.conftest import MakeProject

TASK = "tasks/count-lines"


def test_what_it_writes_is_valid(project: MakeProject) -> None:
    here = project()
    here.run("init", "new").assert_code(0).assert_says(
        "written  new/assay.toml", "cd new && assay run tasks/count-lines"
    )
    made = find_project(here.root / "new", environ={})
    assert set(made.stages) == {"prune", "rehearse", "ask"}
    task = load_task(made.root / TASK)
    assert task.checker is not None
    assert task.solution is not None
    assert task.rehearsal is not None
    load(task.rehearsal)
    assert (made.root / TASK / "checker/check.sh").stat().st_mode & 0o111
    assert (made.root / ".gitignore").read_text() == "/runs/\n"


def test_nothing_is_overwritten(project: MakeProject) -> None:
    here = project({"assay.toml": "# mine\n", f"{TASK}/prompt.md": "mine"})
    here.run("init").assert_code(0).assert_says("kept     assay.toml", f"kept     {TASK}/prompt.md")
    assert (here.root / "assay.toml").read_text() == "# mine\n"
    assert (here.root / TASK / "prompt.md").read_text() == "mine"
    before = {path: path.stat().st_mtime_ns for path in here.root.rglob("*")}
    assert "written" not in here.run("init").assert_code(0).out
    assert {path: path.stat().st_mtime_ns for path in here.root.rglob("*")} == before


def test_a_link_in_the_way_is_not_written_through(project: MakeProject) -> None:
    here = project()
    (here.root / "new").mkdir()
    (here.root / "new" / "assay.toml").symlink_to(here.root / "elsewhere")
    here.run("init", "new").assert_code(0)
    assert not (here.root / "elsewhere").exists()


def test_a_file_in_the_way_of_a_folder(project: MakeProject) -> None:
    here = project({"tasks": "a file"})
    here.run("init").assert_refused("tasks: is a file", "nothing was written")
    assert not (here.root / ".gitignore").exists()


@pytest.mark.docker
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("agent", "code"), [("oracle", 0), ("nop", 1)])
def test_its_task_is_sound(project: MakeProject, agent: str, code: int) -> None:
    here = project()
    here.run("init").assert_code(0)
    here.run("run", TASK, "--agent", agent, timeout=280).assert_code(code)
