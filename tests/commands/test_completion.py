"""What a shell is offered."""

from __future__ import annotations

import pytest

from tests.commands.kept import keep
from tests.conftest import MakeProject
from tests.project import Project


def offered(here: Project, *words: str) -> list[str]:
    """What is offered for the last word, as click's bash completion asks for it."""
    env = {"_ASSAY_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    lines = here.run(env=env).assert_code(0).out.splitlines()
    return [line.partition(",")[2] for line in lines if line]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["assay", "repor"], ["report"]),
        (["assay", "run", "tasks/"], ["tasks/deep/", "tasks/foo"]),
        (["assay", "run", "tasks/f"], ["tasks/foo"]),
        (["assay", "run", "tasks/foo", "--stage", "pr"], ["prune"]),
        (["assay", "run", "tasks/foo", "--agent", "or"], ["oracle"]),
        (["assay", "run", "tasks/foo", "--agent", "mi"], ["mine"]),
        (["assay", "run", "tasks/foo", "--agent", "claude", "--effort", "hi"], ["high"]),
        (["assay", "run", "tasks/foo", "--agent", "claude", "--model", "claude-h"], ["claude-haiku-5-5"]),
        (["assay", "ls", "--ending", "st"], ["stalled"]),
        (["assay", "show", "l"], ["last"]),
    ],
)
def test_names_are_offered(project: MakeProject, words: list[str], wanted: list[str]) -> None:
    here = project({"tasks/foo/prompt.md": "Do.", "tasks/deep/one/prompt.md": "Do."})
    here.write({"assay.toml": "[stage.prune]\nrungs = [{ agent = 'nop' }]", "agents.toml": "[agents.mine]\n"})
    assert offered(here, *words) == wanted


def test_runs_are_offered_newest_first(project: MakeProject) -> None:
    here = project()
    ids = [keep(here.root, number).record.id for number in range(3)]
    assert offered(here, "assay", "show", "2026") == ids[::-1]


def test_a_broken_file_offers_nothing_and_fails_nowhere(project: MakeProject) -> None:
    here = project({"assay.toml": "[stage\n", "agents.toml": "agents = 3\n"})
    assert offered(here, "assay", "run", "x", "--stage", "p") == []
    assert "claude" in offered(here, "assay", "run", "x", "--agent", "cl")
