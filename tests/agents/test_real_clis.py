"""The real CLIs, each through a whole run: launch line, fence, credentials, stand-in over TLS, decoder, record.

What answers at the vendor's address is a script; everything else is as in a run that costs money.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeProject
from tests.project import Project

pytestmark = [pytest.mark.docker, pytest.mark.cli, pytest.mark.timeout(600)]

CLIS = ["codex", "gemini", "grok", "opencode"]
TASK = {"tasks/hi/prompt.md": "-- /do what the script says\nwith two lines: ünïcödé\n"}
"""A prompt that begins like a flag, and goes on like a command."""

LONG = 400
"""Seconds; a CLI's image may have to be built first."""

HALVES = """
[[turn]]
text = "First half."
shell = "echo one > one.txt; cat one.txt"
expect = "one"
usage = { input = 100, cached = 50, output = 10 }

[[turn]]
limit = { resets_in = "2h" }

[[turn]]
text = "Second half."
shell = "cat one.txt"
expect = "one"
usage = { input = 7, cached = 3, output = 5 }

[[turn]]
text = "All done."
usage = { input = 1, cached = 2, output = 3 }
"""

CUT_SHORT = """
[[turn]]
text = "This will take long."
shell = "echo begun > begun.txt; echo begun; sleep 300"
usage = { input = 100, cached = 50, output = 10 }

[[turn]]
text = "After the interrupt."
shell = "cat begun.txt"
expect = "begun"
usage = { input = 7, cached = 3, output = 5 }

[[turn]]
text = "All done."
usage = { input = 1, cached = 2, output = 3 }
"""

HELLO = '[[turn]]\ntext = "Hello."\n'


def record(run: Path) -> dict[str, Any]:
    return tomllib.loads((run / "run.toml").read_text(encoding="utf-8"))


def requests(run: Path) -> list[dict[str, Any]]:
    return list(json.loads((run / "rehearsal.json").read_bytes())["requests"])


def main(run: Path) -> list[dict[str, Any]]:
    return [request for request in requests(run) if request["kind"] == "main"]


def tokens(run: Path) -> dict[str, int]:
    return {kind: n for kind, n in record(run)["tokens"].items() if kind in ("input", "cached", "output")}


def rehearsed(here: Project, agent: str, *more: str, script: str = HELLO, code: int = 0) -> Path:
    here.write({"script.toml": script})
    here.run("run", "tasks/hi", "--agent", agent, "--rehearse", "script.toml", *more, timeout=LONG).assert_code(code)
    return here.runs[-1]


@pytest.mark.parametrize("agent", CLIS)
def test_the_canonical_script(project: MakeProject, agent: str) -> None:
    """Talk, several calls, a failing one, awkward output, a file, an end; and no web tool was on offer."""
    here = project(TASK)
    here.run("rehearse", agent, timeout=LONG).assert_code(0).assert_says("✓ as the script expects", "6 tool calls")
    (run,) = here.runs
    assert record(run)["ending"] == "finished"
    assert tokens(run) == {"input": 1700, "cached": 6650, "output": 235}
    assert (run / "left" / "rehearsal.txt").read_text() == "rehearsed\n"
    assert "日本語" in (run / "transcript.txt").read_text()
    assert json.loads((run / "fence.json").read_bytes())["packets_refused"] == 0


@pytest.mark.parametrize("agent", CLIS)
def test_the_prompt_arrives_as_it_is(project: MakeProject, agent: str) -> None:
    run = rehearsed(project(TASK), agent)
    said = json.dumps(main(run)[0]["last"], ensure_ascii=False)
    assert "-- /do what the script says\\nwith two lines: ünïcödé" in said


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
def test_web_tools_are_offered_with_internet_and_not_without(
    project: MakeProject, agent: str, model: str, web: set[str]
) -> None:
    """The second half is only worth something with the first."""
    here = project(TASK)
    closed = rehearsed(here, agent, "--model", model)
    opened = rehearsed(here, agent, "--model", model, "--internet")
    assert web <= set(main(opened)[0]["tools"]) | ({"x_search"} if agent == "grok" else set())
    assert main(closed)
    assert not any(web & set(request["tools"]) for request in main(closed))
    for request in main(closed) + main(opened):
        assert not UNCOUNTED.get(agent, set()) & set(request["tools"])
    assert all("web" not in tool for request in main(closed) for tool in request["tools"])


EFFORTS = {
    "codex": [("gpt-6.2-sol", "xhigh", "xhigh"), ("gpt-5.5", "medium", "medium")],
    "gemini": [("gemini-2.5-flash", "low", "512 thinking tokens"), ("gemini-2.5-pro", "high", "24576 thinking tokens")],
    "grok": [("grok-4.6", "low", "low"), ("grok-4.5", "medium", "medium")],
    "opencode": [("gpt-5.5", "xhigh", "xhigh")],
}


@pytest.mark.parametrize("agent", CLIS)
def test_model_and_effort_reach_the_vendor(project: MakeProject, agent: str) -> None:
    here = project(TASK)
    for model, effort, sent in EFFORTS[agent]:
        run = rehearsed(here, agent, "--model", model, "--effort", effort)
        assert {(request["model"], request["effort"]) for request in main(run)} == {(model, sent)}


@pytest.mark.parametrize("agent", ["codex", "gemini", "grok"])
def test_a_session_limit_and_the_way_on(project: MakeProject, agent: str) -> None:
    here = project(TASK)
    run = rehearsed(here, agent, script=HALVES, code=4)
    assert record(run)["ending"] == "session-limit"
    assert ("reset_at" in record(run)) == (agent == "codex")
    assert tokens(run) == {"input": 100, "cached": 50, "output": 10}
    here.run("resume", "last", "--force", timeout=LONG).assert_code(0).assert_says("All done.")
    again = here.runs[-1]
    assert record(again)["session"] == record(run)["session"]
    assert tokens(again) == {"input": 8, "cached": 5, "output": 8}


@pytest.mark.parametrize("agent", ["claude", *CLIS])
def test_an_interrupt_in_a_tool_call_and_the_way_on(project: MakeProject, agent: str) -> None:
    """What a killed run has spent is known all the same, and its session goes on where it was."""
    here = project({**TASK, "script.toml": CUT_SHORT})
    running = here.start("run", "tasks/hi", "--agent", agent, "--rehearse", "script.toml")
    # opencode tells a call only once it is over: the request for it is all there is to see.
    running.wait_for("This will take long.", LONG)
    if agent != "opencode":
        running.wait_for("sleep 300", 30)
    running.signal()
    running.finish(120).assert_code(130)
    (run,) = here.runs
    assert record(run)["ending"] == "interrupted"
    if agent == "opencode":
        # A step tells its tokens at its end, which it has not reached.
        assert "tokens" not in record(run)
    else:
        assert tokens(run) == {"input": 100, "cached": 50, "output": 10}
    here.run("resume", "last", timeout=LONG).assert_code(0).assert_says("After the interrupt.", "All done.")
    again = here.runs[-1]
    assert tokens(again) == {"input": 8, "cached": 5, "output": 8}
    assert record(again)["session"] == record(run)["session"]


KILLED = """
[[turn]]
text = "I ask a sub-agent."
tool = "Agent"
input = { description = "look", prompt = "look around", subagent_type = "general-purpose" }
usage = { input = 100, cached = 0, output = 10 }

[[turn]]
subagent = true
text = "I look around."
shell = "echo looked"
usage = { input = 2000, cached = 0, output = 700 }

[[turn]]
subagent = true
text = "Nothing there."
usage = { input = 3000, cached = 0, output = 800 }

[[turn]]
text = "I run out of memory."
# What it has not written down yet is nowhere; then nothing is known of the run.
shell = "until grep -q 'of memory' ~/.claude/projects/*/*.jsonl; do sleep 0.1; done; kill -9 $(pgrep -xo claude)"
usage = { input = 1000, cached = 0, output = 500 }
"""


def test_claude_that_is_killed_has_spent_what_its_sub_agents_have_spent_too(project: MakeProject) -> None:
    """SIGKILL, as when memory runs out, leaves neither a result nor a sum in the session file."""
    run = rehearsed(project(TASK), "claude", script=KILLED, code=3)
    assert (record(run)["exit_code"], record(run)["ending"]) == (137, "crashed")
    assert "general-purpose: ← looked" in (run / "transcript.txt").read_text()
    assert tokens(run) == {"input": 6100, "cached": 0, "output": 2010}


REFUSED = '[[turn]]\nstatus = 401\nerror = "not this key"\ntimes = 50\n'


@pytest.mark.parametrize("agent", CLIS)
def test_a_wrong_key_is_an_api_error(project: MakeProject, agent: str) -> None:
    run = rehearsed(project(TASK), agent, script=REFUSED, code=4)
    assert (record(run)["ending"], record(run)["error_kind"]) == ("api-error", "auth")


def test_codex_goes_over_to_http_at_once_when_the_websocket_is_refused(project: MakeProject) -> None:
    run = rehearsed(project(TASK), "codex")
    assert [(r["label"], r["status"]) for r in requests(run)] == [("websocket", 426), ("", 200)]
    assert "Reconnecting" not in (run / "events.jsonl").read_text()


def test_codex_keeps_its_key_from_the_commands_that_it_runs(project: MakeProject) -> None:
    """Grok does not: there the model's commands see the key, as agents.toml says."""
    names = '[[turn]]\nshell = "env | cut -d= -f1 | sort"\nexpect = "CODEX_CI"\n\n[[turn]]\ntext = "Done."\n'
    run = rehearsed(project(TASK), "codex", script=names)
    assert "CODEX_API_KEY" not in (run / "events.jsonl").read_text()


def test_grok_asks_for_a_title_beside_the_script_and_for_no_summary(project: MakeProject) -> None:
    run = rehearsed(project(TASK), "grok")
    sides = [request["label"] for request in requests(run) if request["kind"] == "side"]
    assert sorted(sides) == ["api-key", "models", "session title", "unknown"]
    assert tokens(run) == {"input": 100, "cached": 0, "output": 20}


def test_a_model_that_no_list_knows_is_tried_and_marked(project: MakeProject) -> None:
    here = project({**TASK, "script.toml": HELLO})
    command = ("run", "tasks/hi", "--agent", "opencode", "--model", "gpt-99", "--rehearse", "script.toml")
    outcome = here.run(*command, timeout=LONG).assert_code(0)
    assert outcome.err.count("gpt-99") == 1
    (run,) = here.runs
    assert record(run)["unlisted"] is True
    assert main(run)[0]["model"] == "gpt-99"


def test_agents_side_by_side_read_well_in_one_terminal(project: MakeProject) -> None:
    here = project(TASK)
    agents = ["claude", *CLIS]
    outcome = here.run("rehearse", *agents, "--jobs", "5", timeout=LONG).assert_code(0)
    assert outcome.out.count("✓ as the script expects") == 5
    for agent in agents:
        shown = [line for line in outcome.out.splitlines() if f" {agent}" in line.partition("│")[0]]
        assert any("I will look around" in line for line in shown), outcome.out


def test_another_version_is_compared_field_by_field(project: MakeProject) -> None:
    """Of Grok there is one other version, which writes the same; what it would have broken is a diff."""
    here = project(TASK)
    outcome = here.run("rehearse", "grok", "--version", "1.0.5", timeout=LONG)
    assert outcome.code in (0, 1), outcome
    assert "grok 1.0.5   ✓ as the script expects" in outcome.out
    said = outcome.out.partition("expects")[2]
    assert ("writes what grok 1.0.41 writes" in said) == (outcome.code == 0)
    assert ("+++ grok 1.0.5: " in said) == (outcome.code == 1)


def test_a_recording_is_kept_as_golden_files(project: MakeProject) -> None:
    here = project(TASK)
    here.run("rehearse", "codex", "--record", "-q", timeout=LONG).assert_code(0).assert_says("wrote recordings/codex")
    folder = here.root / "recordings" / "codex"
    stream = (folder / "rehearsal.jsonl").read_bytes()
    assert stream == (here.runs[-1] / "events.jsonl").read_bytes()
    rendered = here.run("render", "--decoder", "codex", str(folder / "rehearsal.jsonl")).assert_code(0)
    assert rendered.out == (folder / "rehearsal.txt").read_text()


def test_an_agent_that_cannot_be_had_is_told_and_holds_nobody_up(project: MakeProject) -> None:
    outcome = project(TASK).run("rehearse", "agy", timeout=LONG).assert_code(3)
    assert "agy 1.2.17  - not installable here" in outcome.out
