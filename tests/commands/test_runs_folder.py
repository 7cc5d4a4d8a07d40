"""The folder of runs in somebody's repository: git ignores it, and the file that says so troubles no list of runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from assay.model.errors import UsageError
from assay.model.record import RunRecord
from assay.run.find import all_runs, clear_unborn, left_behind, refuse_unwritable, run_names
from assay.run.record import RunDir
from tests.conftest import MakeProject


def status(folder: Path) -> str:
    said = subprocess.run(["git", "status", "--porcelain"], cwd=folder, check=True, capture_output=True, text=True)
    return said.stdout


def new_run(runs: Path) -> RunDir:
    return RunDir.create(runs, RunRecord("", task="t", agent="nop"))


def test_git_ignores_a_folder_of_runs_that_assay_made(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    runs = tmp_path / "runs"
    refuse_unwritable(runs)
    made = new_run(runs)
    assert (runs / ".gitignore").read_text() == "*\n"
    assert status(tmp_path) == ""
    assert run_names(runs) == [run["id"] for run in all_runs(runs)] == [made.record.id]
    assert left_behind(runs) == []
    made.release()
    clear_unborn(runs)
    assert sorted(entry.name for entry in runs.iterdir()) == [".gitignore", made.record.id]


def test_the_first_run_makes_it_too(tmp_path: Path) -> None:
    runs = tmp_path / "not/yet/runs"
    new_run(runs).release()
    assert (runs / ".gitignore").read_text() == "*\n"


def test_a_folder_that_was_there_is_left_as_it_is(tmp_path: Path) -> None:
    """Whoever made it may want its runs tracked."""
    runs = tmp_path / "runs"
    runs.mkdir()
    made = new_run(runs)
    made.release()
    assert [entry.name for entry in runs.iterdir()] == [made.record.id]


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("mine")
    with pytest.raises(UsageError, match="cannot be written"):
        refuse_unwritable(tmp_path / "runs")
    with pytest.raises(FileExistsError):
        new_run(tmp_path / "runs")
    assert (tmp_path / "runs").read_text() == "mine"


def test_the_commands_that_list_runs_pass_over_it(project: MakeProject) -> None:
    here = project()
    made = new_run(here.root / "runs")
    made.commit()
    assert (here.root / "runs/.gitignore").is_file()
    assert here.run("ls", "--ids").assert_code(0).out.split() == [made.record.id]
    assert made.record.id in here.run("show", "last").assert_code(0).out
    here.run("report").assert_code(0)


def test_a_new_project_ignores_its_runs_itself(project: MakeProject) -> None:
    here = project()
    here.run("init", "new").assert_code(0)
    assert (here.root / "new/.gitignore").read_text() == "/runs/\n"
