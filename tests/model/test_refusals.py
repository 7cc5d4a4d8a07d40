"""What is wrong is told in one line, exit 2, before anything starts: no container, no run directory."""

from __future__ import annotations

import pytest

from tests.conftest import MakeProject

FILES = {
    "assay.toml": '[stage.climb]\nstop_on_pass = true\nrungs = [{ agent = "nop" }]\n',
    "tasks/foo/prompt.md": "Do it.",
    "tasks/foo/checker/check.sh": "#!/bin/sh\nexit 1\n",
    "tasks/bare/prompt.md": "Do it.",
    "tasks/empty/notes.md": "",
    "tasks/slash/prompt.md": "/cost",
    "tasks/typo/prompt.md": "Do it.",
    "tasks/typo/task.toml": "timout = 5",
    "tasks/broken/prompt.md": "Do it.",
    "tasks/broken/task.toml": "timeout =",
}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["tasks/foo", "--agent", "claude", "--effort", "hihg"], ["unknown effort 'hihg'", "did you mean 'high'?"]),
        (["tasks/foo", "--agent", "clade"], ["unknown agent 'clade'", "did you mean 'claude'?"]),
        (["tasks/foo", "--agent", "nop", "--effort", "high"], ["nop has no effort"]),
        (["tasks/foo", "--stage", "clim"], ["unknown stage 'clim'", "did you mean 'climb'?"]),
        (["tasks/foo", "--agent", "nop", "--timeout", "5x"], ["--timeout", "'5x' is not a duration"]),
        (["tasks/fo", "--agent", "nop"], ["tasks/fo: no such task (did you mean 'foo'?)"]),
        (["tasks/foo/prompt.md", "--agent", "nop"], ["tasks/foo/prompt.md: a task is a folder"]),
        (["tasks/empty", "--agent", "nop"], ["tasks/empty", "no prompt.md"]),
        (["tasks/slash", "--agent", "nop"], ["tasks/slash/prompt.md", "exactly a slash command"]),
        (["tasks/typo", "--agent", "nop"], ["tasks/typo/task.toml: timout", "did you mean 'timeout'?"]),
        (["tasks/broken", "--agent", "nop"], ["tasks/broken/task.toml: line 1", "not valid TOML"]),
        (["tasks/bare", "--stage", "climb"], ["checker"]),
    ],
)
def test_refused_in_one_line(project: MakeProject, argv: list[str], words: list[str]) -> None:
    here = project(FILES)
    here.run("run", *argv).assert_refused(*words)
    assert here.runs == []


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("assay.toml", "[stage.s\n", ["assay.toml: line 1", "not valid TOML"]),
        ("assay.toml", '[stage.s]\nrungs = [{ agent = "claude", modle = "x" }]', ["rungs[0].modle", "'model'?"]),
        ("agents.toml", "[agents.claude]\nefort = 1", ["agents.toml: agents.claude.efort", "'efforts'?"]),
    ],
)
def test_a_wrong_file_refuses_every_run(project: MakeProject, name: str, text: str, words: list[str]) -> None:
    here = project({**FILES, name: text})
    here.run("run", "tasks/foo", "--agent", "nop").assert_refused(*words)
    assert here.runs == []


def test_an_engine_that_does_not_answer(project: MakeProject) -> None:
    here = project(FILES)
    nowhere = {"DOCKER_HOST": f"unix://{here.root}/none.sock"}
    here.run("run", "tasks/foo", "--agent", "nop", env=nowhere).assert_refused("no Docker Engine answers", "start it")
    assert here.runs == []


def test_neither_stage_nor_agent(project: MakeProject) -> None:
    here = project(FILES)
    done = here.run("run", "tasks/foo").assert_code(2)
    done.assert_says("climb", "claude", "oracle")
    assert here.runs == []
