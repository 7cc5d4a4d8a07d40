"""Runs of Assay in somebody else's repository are shown to no agent, and a folder that is just called runs is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assay.model.record import RUN_ID, RunRecord
from assay.run.repository import Repository, look
from tests.ask.conftest import MakeRepository, git, write
from tests.commands.kept import keep
from tests.conftest import MakeProject

RUN = "20261130T143935Z-count-lines-claude-6714"
KEPT = {"prompt.md": "-", "transcript.txt": "hunter2", "events.jsonl": "{}\n", "left/a.c": "x", "left/.env": "S=1"}


def names(repository: Repository) -> set[str]:
    return {os.fsdecode(thing.name) for thing in repository.files}


def run_at(folder: str, **files: str) -> dict[str, str]:
    """Files of one run kept in a folder."""
    return {f"{folder}/{RUN}/{name}": text for name, text in {**KEPT, "run.toml": "", **files}.items()}


@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize("above", ["", "tools/", "a/runs/b/"])
def test_in_git(repository: MakeRepository, above: str, tracked: bool) -> None:
    inside = {**run_at(f"{above}runs"), f"{above}runs/asks/20261130/answers.md": "x", f"{above}runs/index.jsonl": "{}"}
    seen = {"a.c": "x", f"{above}b.c": "x"}
    folder = repository({**seen, **inside} if tracked else seen)
    write(folder, inside)
    found = look(folder)
    assert names(found) == set(seen)
    assert list(found.withheld) == [(f"{above}runs/", "runs of Assay")]
    assert not any(b"runs" in thing.name.split(b"/")[above.count("/") :] for thing in found.things)


@pytest.mark.parametrize("above", ["", "x/y/", "project/"])
def test_in_a_plain_folder(tmp_path: Path, above: str) -> None:
    write(tmp_path, {"a.c": "x", f"{above}b.c": "x", **run_at(f"{above}runs"), "runs.py": "x"})
    if above == "project/":
        git(tmp_path / above, "init", "-q")
    found = look(tmp_path)
    assert names(found) == {"a.c", f"{above}b.c", "runs.py"}
    assert list(found.withheld) == [(f"{above}runs/", "runs of Assay")]


def test_runs_that_are_a_repository_of_their_own(repository: MakeRepository) -> None:
    folder = repository({"a.c": "x"})
    write(folder, run_at("runs"))
    git(folder / "runs", "init", "-q")
    found = look(folder)
    assert (names(found), list(found.withheld)) == ({"a.c"}, [("runs/", "runs of Assay")])


def test_a_folder_of_runs_is_known_by_its_index(repository: MakeRepository) -> None:
    folder = repository({"a.c": "x", f"runs/{RUN}/events.jsonl": "x", "runs/index.jsonl": "{}"})
    assert names(look(folder)) == {"a.c"}


def test_no_pattern_shows_them_again(repository: MakeRepository) -> None:
    folder = repository({"a.c": "x", **run_at("runs")})
    assert names(look(folder, exclude=["!*", "!runs/"])) == {"a.c"}


@pytest.mark.parametrize("in_git", [True, False])
def test_what_is_only_called_so_is_shown(tmp_path: Path, repository: MakeRepository, in_git: bool) -> None:
    files = {
        "runs/index.jsonl": "{}",
        "runs/exp-1/run.toml": "x",
        "src/runs/20261130T143935Z-a-b-xyz1/run.toml": "x",
        "lib/runs/20261130T143935Z-a-b-beef/log": "x",
        f"old/runs/{RUN}": "a file",
        f"other/{RUN}/run.toml": "x",
        "runs.d/a": "x",
    }
    folder = repository(files) if in_git else tmp_path / "plain"
    write(folder, files)
    found = look(folder)
    assert names(found) == set(files)
    assert not found.withheld


def test_a_link_is_not_followed_to_tell(repository: MakeRepository, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", run_at("runs"))
    folder = repository({"runs/index.jsonl": "{}"})
    (folder / "runs" / RUN).symlink_to(tmp_path / "elsewhere/runs" / RUN)
    (folder / "sub").mkdir()
    (folder / "sub/runs").symlink_to(tmp_path / "elsewhere/runs")
    found = look(folder)
    assert names(found) == {"runs/index.jsonl", f"runs/{RUN}", "sub/runs"}
    assert not found.withheld


def test_every_run_is_called_so(tmp_path: Path) -> None:
    from assay.run.record import RunDir

    for task in ("count-lines", "ü", "a b/c", "x" * 99, "1.2_3"):
        made = RunDir.create(tmp_path / "runs", RunRecord("", task=task, agent="claude-2"))
        assert RUN_ID.fullmatch(made.record.id), made.record.id
        made.release()


def test_the_dry_run_of_an_ask_says_so(project: MakeProject, repository: MakeRepository) -> None:
    """Asked from a project with runs of its own, about a repository with others."""
    here = project()
    keep(here.root)
    folder = repository({"a.c": "x"})
    kept = keep(folder, 2, {"transcript.txt": "hunter2"}).record.id
    ask = ("ask", "--repo", str(folder), "--agent", "claude", "--rehearse", "", "--dry-run")
    told = here.run(*ask).assert_code(0)
    assert "runs/ (runs of Assay)" in told.out
    assert kept not in told.out
    facts = here.run(*ask, "--json").assert_code(0).json()
    assert facts["files"] == ["a.c"]
    assert facts["withheld"] == [{"name": "runs/", "why": "runs of Assay"}]
