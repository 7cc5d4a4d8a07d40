"""What docs/rehearsal.md says of scripts: every block is one, every key is there, and they are played."""

from __future__ import annotations

import re

import pytest

from assay.model.table import Table
from assay.rehearsal.script import Call, ErrorWords, Limit, Script, Turn, Usage, parse
from tests.conftest import MakeProject
from tests.project import REPOSITORY, Project

PAGE = (REPOSITORY / "docs/rehearsal.md").read_text("utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SCRIPT, FAILURES, SUBAGENTS = BLOCKS


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_is_a_script(block: str) -> None:
    assert parse(block.encode(), "docs/rehearsal.md").turn


@pytest.mark.parametrize("table", [Script, Turn, Call, Usage, Limit, ErrorWords])
def test_every_key_is_on_the_page(table: type[Table]) -> None:
    for key in table.model_fields:
        assert re.search(rf"(^|[{{ \[.]){key}( =|\]\])", "".join(BLOCKS), re.MULTILINE), key


@pytest.fixture
def here(project: MakeProject) -> Project:
    files = {"script.toml": SCRIPT, "agents.toml": "", "tasks/t/prompt.md": "Write hello.txt."}
    return project({**files, "tasks/t/rehearsal/claude-opus-5-5.toml": SUBAGENTS})


@pytest.mark.docker
@pytest.mark.cli
@pytest.mark.timeout(300)
def test_the_first_one_is_played_and_gone_on_with(here: Project) -> None:
    run = here.run("run", "tasks/t", "--agent", "claude", "--rehearse", "script.toml", timeout=200)
    run.assert_code(4).assert_says("I look, and write the first half.", "session-limit")
    resumed = here.run("resume", "last", "--force", timeout=200).assert_code(0)
    resumed.assert_says("The limit is over, so I write the rest.", "Hello, world!")
    assert "rehearsal:" not in resumed.out
    assert (here.runs[-1] / "left/hello.txt").read_text() == "Hello, world!\n"


@pytest.mark.docker
@pytest.mark.cli
@pytest.mark.timeout(300)
def test_a_model_has_a_script_of_its_own(here: Project) -> None:
    command = ("run", "tasks/t", "--agent", "claude", "--model", "claude-opus-5-5", "--rehearse")
    played = here.run(*command, timeout=200).assert_code(0).assert_says("Nothing there.", "Done.")
    assert "rehearsal:" not in played.out
