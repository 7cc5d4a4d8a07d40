"""The real CLIs, each through a whole run: launch line, fence, credentials, stand-in over TLS, decoder, record.

What answers at the vendor's address is a script; everything else is as in a run that costs money. A run of a CLI is
dear, so several tests look at the same one.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from assay.rehearsal.script import canonical
from tests.agents.clis import CLIS, LONG, TASK, main, record, rehearse, requests, tokens
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


# -- one that only says hello


Said = Callable[..., Path]

EFFORTS = {
    "codex": [("gpt-6.2-sol", "xhigh", "xhigh"), ("gpt-5.5", "medium", "medium")],
    "gemini": [("gemini-2.5-flash", "low", "512 thinking tokens"), ("gemini-2.5-pro", "high", "24576 thinking tokens")],
    "grok": [("grok-4.6", "low", "low"), ("grok-4.5", "medium", "medium")],
    "opencode": [("gpt-5.5", "xhigh", "xhigh")],
}


@pytest.fixture(scope="module")
def said(shared_project: MakeProject) -> Said:
    """The run of a CLI with one of its models, at the effort above: made by the first test that looks at it."""
    here = shared_project(TASK)

    @functools.cache
    def made(agent: str, model: str, *more: str) -> Path:
        effort = next(effort for known, effort, _ in EFFORTS[agent] if known == model)
        return rehearse(here, agent, "--model", model, "--effort", effort, *more)[0]

    return made


@pytest.mark.parametrize("agent", CLIS)
def test_the_prompt_arrives_as_it_is(said: Said, agent: str) -> None:
    run = said(agent, EFFORTS[agent][0][0])
    words = json.dumps(main(run)[0]["last"], ensure_ascii=False)
    assert "-- /do what the script says\\nwith two lines: ünïcödé" in words


@pytest.mark.parametrize("agent", CLIS)
def test_model_and_effort_reach_the_vendor(said: Said, agent: str) -> None:
    for model, _, sent in EFFORTS[agent]:
        run = said(agent, model)
        assert {(request["model"], request["effort"]) for request in main(run)} == {(model, sent)}


WEB = [
    # Where the model programs its tools, they are text in the description of one; the older model has plain ones.
    ("codex", "gpt-6.2-sol", {"web__run"}),
    ("codex", "gpt-5.5", {"web_search"}),
    ("gemini", "gemini-2.5-flash", {"google_web_search", "web_fetch"}),
    ("grok", "grok-4.6", {"web_search", "x_search"}),
    ("opencode", "gpt-5.5", {"webfetch"}),
]

UNCOUNTED = {"grok": {"spawn_subagent"}, "opencode": {"task"}}
"""Sub-agents whose tokens the CLI tells nowhere: never on offer."""


@pytest.mark.parametrize(("agent", "model", "web"), WEB)
def test_web_tools_are_offered_with_internet_and_not_without(said: Said, agent: str, model: str, web: set[str]) -> None:
    """The second half is only worth something with the first."""
    opened, closed = main(said(agent, model, "--internet")), main(said(agent, model))
    assert web <= set(opened[0]["tools"]) | ({"x_search"} if agent == "grok" else set())
    assert closed
    assert not any(web & set(request["tools"]) for request in closed)
    for request in closed + opened:
        assert not UNCOUNTED.get(agent, set()) & set(request["tools"])
    assert all("web" not in tool for request in closed for tool in request["tools"])


def test_codex_goes_over_to_http_at_once_when_the_websocket_is_refused(said: Said) -> None:
    run = said("codex", "gpt-6.2-sol")
    assert [(r["label"], r["status"]) for r in requests(run)] == [("websocket", 426), ("", 200)]
    assert "Reconnecting" not in (run / "events.jsonl").read_text()


def test_grok_asks_for_a_title_beside_the_script_and_for_no_summary(said: Said) -> None:
    run = said("grok", "grok-4.6")
    sides = [request["label"] for request in requests(run) if request["kind"] == "side"]
    assert sorted(sides) == ["api-key", "models", "session title", "unknown"]
    assert tokens(run) == {"input": 100, "cached": 0, "output": 20}


# -- each on its own


def test_codex_keeps_its_key_from_the_commands_that_it_runs(project: MakeProject) -> None:
    """Grok does not: there the model's commands see the key, as agents.toml says."""
    names = '[[turn]]\nshell = "env | cut -d= -f1 | sort"\nexpect = "CODEX_CI"\n\n[[turn]]\ntext = "Done."\n'
    run, _ = rehearse(project(TASK), "codex", script=names)
    assert "CODEX_API_KEY" not in (run / "events.jsonl").read_text()


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
