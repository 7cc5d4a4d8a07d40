"""`assay rehearse`: the canonical script on every real CLI, what is told and kept of it, and other versions.

They play side by side, once; the tests look at what is left of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from assay.rehearsal.script import canonical
from tests.agents.clis import CLIS, LONG, TASK, main, record, tokens
from tests.conftest import MakeProject
from tests.project import Outcome, Project

pytestmark = [pytest.mark.docker, pytest.mark.cli, pytest.mark.timeout(600)]

ALL = ["claude", *CLIS]


@dataclass(frozen=True)
class Rehearsal:
    """`assay rehearse` of every CLI: what it said, and what it kept."""

    here: Project
    outcome: Outcome

    def run(self, agent: str) -> Path:
        (found,) = (run for run in self.here.runs if record(run)["agent"] == agent)
        return found


@pytest.fixture(scope="module")
def rehearsal(shared_project: MakeProject) -> Rehearsal:
    """The canonical script on all of them, side by side, their streams recorded."""
    here = shared_project(TASK)
    return Rehearsal(here, here.run("rehearse", *ALL, "--jobs", "5", "--record", timeout=LONG).assert_code(0))


@pytest.mark.parametrize("agent", ALL)
def test_the_canonical_script(rehearsal: Rehearsal, agent: str) -> None:
    """Talk, several calls, a failing one, awkward output, a file, an end; and no web tool was on offer."""
    (line,) = (line for line in rehearsal.outcome.out.splitlines() if line.startswith(f"{agent} ") and "│" not in line)
    assert "✓ as the script expects · 6 tool calls · no web tools" in line
    run = rehearsal.run(agent)
    assert record(run)["ending"] == "finished"
    assert tokens(run) == {"input": 1700, "cached": 6650, "output": 235}
    assert (run / "left" / "rehearsal.txt").read_text() == "rehearsed\n"
    assert "日本語" in (run / "transcript.txt").read_text()
    assert json.loads((run / "fence.json").read_bytes())["packets_refused"] == 0


def test_side_by_side_they_read_well_in_one_terminal(rehearsal: Rehearsal) -> None:
    out = rehearsal.outcome.out
    assert out.count("✓ as the script expects") == 5
    for agent in ALL:
        shown = [line for line in out.splitlines() if f" {agent}" in line.partition("│")[0]]
        assert any("I will look around" in line for line in shown), out


def test_a_recording_is_kept_as_golden_files(rehearsal: Rehearsal) -> None:
    here = rehearsal.here
    for agent in ALL:
        rehearsal.outcome.assert_says(f"wrote recordings/{agent}")
        folder = here.root / "recordings" / agent
        stream = (folder / "rehearsal.jsonl").read_bytes()
        assert stream == (rehearsal.run(agent) / "events.jsonl").read_bytes()
    rendered = here.run("render", "--decoder", "codex", "recordings/codex/rehearsal.jsonl").assert_code(0)
    assert rendered.out == (here.root / "recordings/codex/rehearsal.txt").read_text()


def test_claude_tells_of_the_canonical_script_what_there_is_to_tell(rehearsal: Rehearsal) -> None:
    run = rehearsal.run("claude")
    lines = [json.loads(line) for line in (run / "events.jsonl").read_bytes().splitlines()]
    result = next(line for line in reversed(lines) if line["type"] == "result")
    assert (result["is_error"], result["terminal_reason"]) == (False, "completed")
    assert result["result"] == canonical().turn[-1].text
    (usage,) = result["modelUsage"].values()
    assert (usage["inputTokens"], usage["cacheReadInputTokens"], usage["outputTokens"]) == (1700, 6650, 235)
    blocks = [block for line in lines if line["type"] == "user" for block in line["message"]["content"]]
    results = [block for block in blocks if block["type"] == "tool_result"]
    assert [bool(block.get("is_error")) for block in results].count(True) == 1
    assert json.loads((run / "rehearsal.json").read_bytes())["problems"] == []
    assert [request["turn"] for request in main(run)] == [0, 1, 2, 3, 4, 5]
    assert {request["model"] for request in main(run)} == {record(run)["model"]}
    assert not {"WebSearch", "WebFetch"} & {tool for request in main(run) for tool in request["tools"]}


def test_another_version_is_compared_field_by_field(project: MakeProject) -> None:
    """Of Grok there is one other version, which writes the same; what it would have broken is a diff."""
    here = project(TASK)
    outcome = here.run("rehearse", "grok", "--version", "1.0.5", timeout=LONG)
    assert outcome.code in (0, 1), outcome
    assert "grok 1.0.5   ✓ as the script expects" in outcome.out
    said = outcome.out.partition("expects")[2]
    assert ("writes what grok 1.0.41 writes" in said) == (outcome.code == 0)
    assert ("+++ grok 1.0.5: " in said) == (outcome.code == 1)


def test_an_agent_that_cannot_be_had_is_told_and_holds_nobody_up(project: MakeProject) -> None:
    outcome = project(TASK).run("rehearse", "agy", timeout=LONG).assert_code(3)
    assert "agy 1.2.17  - not installable here" in outcome.out
