"""The sample tasks are sound: their solution passes, doing nothing fails, and their rehearsals end as they say."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from assay.model.task import load_task
from assay.rehearsal.script import load
from tests.conftest import MakeProject
from tests.project import REPOSITORY, SAMPLES, Project

TASKS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
STAGES = {"assay.toml": (REPOSITORY / "assay.toml").read_text(encoding="utf-8")}


def record(here: Project) -> dict[str, Any]:
    """The record of the newest run."""
    return tomllib.loads((here.runs[-1] / "run.toml").read_text(encoding="utf-8"))


def test_the_samples_are_there() -> None:
    assert {"hello", "log-report", "numeric-sort"} <= set(TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_a_sample_has_all_parts(name: str) -> None:
    task = load_task(SAMPLES / name)
    assert task.checker is not None
    assert task.solution is not None
    assert task.rehearsal is not None
    for script in (task.rehearsal, *(path for _, path in task.rehearsals)):
        assert load(script).about


@pytest.mark.docker
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TASKS)
def test_a_sample_is_sound(project: MakeProject, name: str) -> None:
    here = project(None, name)
    here.run("run", f"tasks/{name}", "--agent", "nop", timeout=500).assert_code(1)
    assert record(here)["verdict"] == "fail"
    here.run("run", f"tasks/{name}", "--agent", "oracle", timeout=100).assert_code(0)
    assert record(here)["verdict"] == "pass"


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_a_score_between_fail_and_pass(project: MakeProject) -> None:
    here = project(None, "numeric-sort")
    wrong = "sort -u numbers.txt > sorted.txt"
    here.run("run", "tasks/numeric-sort", "--agent", "script", "--command", wrong, timeout=280).assert_code(1)
    assert 0 < record(here)["score"] < 1


@pytest.mark.docker
@pytest.mark.cli
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "verdicts"), [("hello", ["pass"]), ("log-report", ["pass"]), ("numeric-sort", ["fail", "pass"])]
)
def test_a_rehearsal_ends_as_it_says(project: MakeProject, name: str, verdicts: list[str]) -> None:
    here = project(STAGES, name)
    here.run("run", f"tasks/{name}", "--stage", "rehearse", timeout=800).assert_code(0)
    kept = [tomllib.loads((path / "run.toml").read_text(encoding="utf-8")) for path in here.runs]
    assert [run["verdict"] for run in sorted(kept, key=lambda run: run["rung"])] == verdicts
    assert all(run["rehearsal"] for run in kept)
