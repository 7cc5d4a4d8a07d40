"""What a run cost by the list prices of its agent's entry, where the CLI does not say."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from assay.model.outcome import Tokens
from assay.model.registry import Agent, load_registry
from assay.run.prices import cost
from tests.conftest import MakeProject
from tests.project import REPOSITORY

PRICES = """
[agents.codex.models."gpt-5.5"]
usd_per_mtok = { input = 1.0, cached = 0.1, output = 10.0 }

[agents.codex.models."gpt-6-sol"]
usd_per_mtok = { input = 0.0, output = 0.0 }
"""


@pytest.fixture
def entry(tmp_path: Path) -> Agent:
    (tmp_path / "agents.toml").write_text(PRICES)
    return load_registry(tmp_path).agents["codex"]


@pytest.mark.parametrize(
    ("model", "tokens", "usd"),
    [
        ("gpt-5.5", Tokens(100, 1000, 0, 20), 0.0004),
        ("gpt-5.5", Tokens(100, 0, None, 20, 15), 0.0003),
        ("gpt-5.5", Tokens(3, 0, None, 0), 3e-6),
        ("gpt-5.5", Tokens(100, 0, 5, 20), None),
        ("gpt-5.5", Tokens(100, 0, 0, None), None),
        ("gpt-5.5", Tokens(None, 0, 0, 20), None),
        ("gpt-5.5", Tokens(), None),
        ("gpt-6-sol", Tokens(100, 0, 0, 20), 0.0),
        ("gpt-6-astra", Tokens(100, 0, 0, 20), None),
        ("unheard-of", Tokens(100, 0, 0, 20), None),
    ],
)
def test_every_kind_that_was_used_needs_a_price(entry: Agent, model: str, tokens: Tokens, usd: float | None) -> None:
    """Exactly what a person would reckon, without the rest of a binary fraction."""
    assert cost(entry, model, tokens) == usd


@pytest.mark.docker
@pytest.mark.cli
@pytest.mark.timeout(400)
def test_a_run_says_where_its_cost_came_from(project: MakeProject) -> None:
    """The table of docs/agents.md holds for a whole run; without it the cost is unknown."""
    text = (REPOSITORY / "docs" / "agents.md").read_text()
    (table,) = (block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "usd_per_mtok" in block)
    script = '[[turn]]\ntext = "Hello."\nusage = { input = 1000, cached = 2000, output = 300 }\n'
    here = project({"script.toml": script, "tasks/hi/prompt.md": "Say hello."})
    command = ("run", "tasks/hi", "--agent", "codex", "--rehearse", "script.toml", "-q")
    here.run(*command, timeout=300).assert_code(0)
    here.write({"agents.toml": table})
    here.run(*command, timeout=100).assert_code(0)
    free, priced = (tomllib.loads((run / "run.toml").read_text()) for run in here.runs)
    assert "cost_usd" not in free
    assert "cost_source" not in free
    assert (priced["cost_usd"], priced["cost_source"]) == (0.0045, "price-table")
    here.run("show", "last").assert_code(0).assert_says("by list price")
