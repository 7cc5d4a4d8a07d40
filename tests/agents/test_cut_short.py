"""The real CLIs where a run does not come to its end: stopped in a tool call, killed, refused by the vendor."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.model.registry import load_registry
from tests.agents.clis import CLIS, LONG, TASK, main, record, rehearse, tokens
from tests.conftest import MakeProject
from tests.project import Outcome, Project

pytestmark = [pytest.mark.docker, pytest.mark.cli, pytest.mark.timeout(600)]

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


@pytest.mark.parametrize("agent", ["gemini", "opencode"])
def test_an_interrupt_in_a_tool_call_and_the_way_on(project: MakeProject, agent: str) -> None:
    """What a stopped run has spent is known all the same, and its session goes on; the others: tests/recover."""
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
    run, _ = rehearse(project(TASK), "claude", script=KILLED, code=3)
    assert (record(run)["exit_code"], record(run)["ending"]) == (137, "crashed")
    assert "general-purpose: ← looked" in (run / "transcript.txt").read_text()
    assert tokens(run) == {"input": 6100, "cached": 0, "output": 2010}


REFUSED = '[[turn]]\nstatus = 401\nerror = "not this key"\ntimes = 99\n'


def refused(here: Project, agent: str, *more: str) -> tuple[Path, Outcome]:
    """A run whose credential the vendor refuses: what is told of it."""
    run, outcome = rehearse(here, agent, *more, script=REFUSED, code=4)
    known = record(run)
    rehearsal = load_registry().agents[agent].rehearsal
    assert rehearsal is not None
    assert (known["ending"], known["error_kind"]) == ("api-error", "auth")
    assert f"the credential was {', '.join(rehearsal.env)}" in known["reason"]
    assert known["times"]["seconds"] < 90, "a wrong key is not tried for minutes"
    return run, outcome


@pytest.mark.parametrize("agent", ["claude", *CLIS[:-1]])
def test_a_wrong_key_is_an_api_error(project: MakeProject, agent: str) -> None:
    refused(project(TASK), agent)


def test_a_wrong_key_with_a_model_that_no_list_knows_which_is_tried_and_marked(project: MakeProject) -> None:
    run, outcome = refused(project(TASK), "opencode", "--model", "gpt-99")
    assert outcome.err.count("gpt-99") == 1
    assert record(run)["unlisted"] is True
    assert main(run)[0]["model"] == "gpt-99"
