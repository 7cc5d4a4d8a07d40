"""The real CLIs, each through a whole run: launch line, fence, credentials, stand-in over TLS, decoder, record.

What answers at the vendor's address is a script that says hello; everything else is as in a run that costs money. A run
of a CLI is dear, so several tests look at the same one.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agents.clis import CLIS, TASK, main, rehearse, requests, tokens
from tests.conftest import MakeProject

pytestmark = [pytest.mark.docker, pytest.mark.cli, pytest.mark.timeout(600)]

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


def test_codex_keeps_its_key_from_the_commands_that_it_runs(project: MakeProject) -> None:
    """Grok does not: there the model's commands see the key, as agents.toml says."""
    names = '[[turn]]\nshell = "env | cut -d= -f1 | sort"\nexpect = "CODEX_CI"\n\n[[turn]]\ntext = "Done."\n'
    run, _ = rehearse(project(TASK), "codex", script=names)
    assert "CODEX_API_KEY" not in (run / "events.jsonl").read_text()
