"""An agent on a known stream is an entry and nothing else: the walk of docs/agents.md, taken."""

from __future__ import annotations

import re
import textwrap
import tomllib
from pathlib import Path

import pytest

from assay.model.registry import load_registry
from tests.conftest import MakeProject
from tests.project import REPOSITORY

TEXT = (REPOSITORY / "docs" / "agents.md").read_text(encoding="utf-8")
BLOCKS = [textwrap.dedent(block) for block in re.findall(r"^ *```toml\n(.*?)^ *```", TEXT, re.MULTILINE | re.DOTALL)]
ENTRY = next(block for block in BLOCKS if "[agents.mycodex]" in block)

LIMIT = """
[[turn]]
text = "I begin."
shell = "pwd"

[[turn]]
limit = { resets_in = "1s" }

[[turn]]
text = "After all."
"""


def test_every_snippet_of_the_walk_is_an_agents_toml(tmp_path: Path) -> None:
    for block in BLOCKS:
        (tmp_path / "agents.toml").write_text(block)
        assert set(tomllib.loads(block)["agents"]) <= set(load_registry(tmp_path).agents)


@pytest.mark.docker
@pytest.mark.cli
@pytest.mark.timeout(600)
def test_the_walk(project: MakeProject) -> None:
    here = project({"agents.toml": ENTRY, "tasks/hi/prompt.md": "Do what the script says."})
    here.run("build", "mycodex", timeout=500).assert_code(0).assert_says("mycodex 0.171.0")
    outcome = here.run("rehearse", "mycodex", "--record", timeout=200).assert_code(0)
    outcome.assert_says("✓ as the script expects", "wrote recordings/codex/rehearsal-mycodex.jsonl")
    command = ("run", "tasks/hi", "--agent", "mycodex", "--effort", "high", "--rehearse")
    outcome = here.run(*command, timeout=200).assert_code(0).assert_says("Done: `rehearsal.txt` holds one line.")
    assert "does not list the model" not in outcome.err + outcome.out
    here.write({"limit.toml": LIMIT})
    here.run(*command, "limit.toml", timeout=200).assert_code(4)
    here.run("resume", "last", "--force", timeout=200).assert_code(0).assert_says("After all.")
