"""Real CLIs in rehearsal: a session limit, a resume, and every token of both accounted for."""

from __future__ import annotations

import json
import random
import signal
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.project import Project
from tests.recover.drip import assert_nothing_left, eventually, forget_snapshots, record

pytestmark = [pytest.mark.docker, pytest.mark.cli]

AGENTS = ("claude", "codex", "grok")

LIMITED = """
[[turn]]
text = "I look around."
shell = "pwd && ls -a"
usage = { input = 101, output = 11 }

[[turn]]
text = "I write half of it."
shell = "printf 'Hello, ' > hello.txt"
usage = { input = 203, output = 23 }

[[turn]]
limit = { resets_in = "1s" }

[[turn]]
text = "I write the rest."
shell = "printf 'world!\\\\n' >> hello.txt && cat hello.txt"
expect = "Hello, world!"
usage = { input = 307, output = 37 }

[[turn]]
text = "Done."
usage = { input = 409, output = 43 }
"""

FIRST, SECOND = (101 + 203, 11 + 23), (307 + 409, 37 + 43)

SLOW = """
[[turn]]
text = "I write it."
shell = "printf 'Hello, world!\\\\n' > hello.txt"
usage = { input = 101, output = 11 }

[[turn]]
text = "I take my time."
shell = "sleep 100"
usage = { input = 203, output = 23 }

[[turn]]
text = "Done."
usage = { input = 409, output = 43 }
"""

OWN_END = """
[[turn]]
text = "I end what I run in."
shell = "kill -TERM $PPID; sleep 1; pkill -TERM codex; pkill -TERM grok; sleep 20"
usage = { input = 101, output = 11 }

[[turn]]
text = "Done."
"""


@pytest.fixture
def hello(project: Callable[..., Project]) -> Iterator[Project]:
    here = project({"limited.toml": LIMITED, "slow.toml": SLOW}, "hello")
    yield here
    forget_snapshots(here)


def spent(run: Path) -> tuple[int, int]:
    """What a run's record says: everything in, everything out."""
    tokens: dict[str, int] = record(run)["tokens"]
    return sum(tokens.get(kind, 0) for kind in ("input", "cached", "cache_write")), tokens["output"]


def served(run: Path) -> set[int]:
    """The turns that the stand-in answered in a run."""
    asked: list[dict[str, Any]] = json.loads((run / "rehearsal.json").read_bytes())["requests"]
    return {request["turn"] for request in asked if request.get("turn") is not None}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("agent", AGENTS)
def test_session_limit_and_on(hello: Project, agent: str) -> None:
    outcome = hello.run("run", "tasks/hello", "--agent", agent, "--rehearse", "limited.toml", "-q", timeout=150)
    outcome.assert_code(4).assert_says("session-limit", "assay resume")
    first = record(hello.runs[0])
    assert (first["ending"], first["resumable"]) == ("session-limit", True)
    assert "verdict" not in first
    assert served(hello.runs[0]) == {0, 1, 2}
    assert spent(hello.runs[0]) == FIRST
    hello.run("ls").assert_says("session-limit, resumable")

    hello.run("resume", "last", "--force", "-q", timeout=100).assert_code(0).assert_says("pass", "in all")
    second = record(hello.runs[1])
    assert (second["ending"], second["verdict"], second["resumed_from"]) == ("finished", "pass", first["id"])
    assert second["session"] == first["session"]
    assert (second["cli_version"], second["model"], second["fence"]) == (first["cli_version"], first["model"], "closed")
    assert served(hello.runs[1]) == {3, 4}
    assert spent(hello.runs[1]) == SECOND
    assert json.loads((hello.runs[1] / "rehearsal.json").read_bytes())["problems"] == []

    total = hello.run("show", "last", "--json").json()["total"]
    into = sum(total["tokens"][kind] or 0 for kind in ("input", "cached", "cache_write"))
    assert (into, total["tokens"]["output"]) == (FIRST[0] + SECOND[0], FIRST[1] + SECOND[1])
    costs = [record(run)["cost_usd"] for run in hello.runs if "cost_usd" in record(run)]
    assert total["cost_usd"] == (pytest.approx(sum(costs)) if costs else None)
    assert total["cost_unknown"] == 2 - len(costs)
    hello.run("ls", "--snapshots").assert_says("no snapshot")
    assert_nothing_left(hello)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("agent", AGENTS)
def test_killed_recovered_interrupted_resumed(hello: Project, agent: str) -> None:
    """assay is killed in the middle of a tool call, taken over, stopped by Ctrl-C; the agent then goes on."""
    running = hello.start("run", "tasks/hello", "--agent", agent, "--rehearse", "slow.toml", "-q")
    eventually(lambda: hello.runs and b"sleep 100" in events(hello.runs[0]), 100)
    running.process.kill()
    again = hello.start("recover")
    again.wait_for("sleep 100")
    again.signal(signal.SIGINT)
    again.finish().assert_code(130)
    first = record(hello.runs[0])
    assert (first["state"], first["ending"], first["resumable"]) == ("committed", "interrupted", True)
    assert spent(hello.runs[0]) == (101 + 203, 11 + 23)
    assert_nothing_left(hello)

    hello.run("resume", "last", "-q", timeout=100).assert_code(0).assert_says("pass")
    second = record(hello.runs[1])
    assert second["session"] == first["session"]
    assert spent(hello.runs[1]) == (409, 43)
    assert_nothing_left(hello)


@pytest.mark.timeout(150)
@pytest.mark.parametrize("agent", AGENTS)
def test_a_model_that_ends_its_own_cli(hello: Project, agent: str) -> None:
    hello.write({"own.toml": OWN_END})
    outcome = hello.run("run", "tasks/hello", "--agent", agent, "--rehearse", "own.toml", "-q", timeout=120)
    assert outcome.code == 3, outcome
    known = record(hello.runs[0])
    assert known["ending"] == "crashed", known
    assert "SIGTERM" in known["reason"], known
    assert_nothing_left(hello)


BUSY = (
    "".join(
        f"""
[[turn]]
text = "Step {n}."
shell = "echo {n} >> steps.txt; sleep 0.7"
usage = {{ input = 100, output = 10 }}
"""
        for n in range(5)
    )
    + """
[[turn]]
text = "I write it."
shell = "printf 'Hello, world!\\n' > hello.txt"
usage = { input = 100, output = 10 }

[[turn]]
text = "Done."
usage = { input = 100, output = 10 }
"""
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("agent", AGENTS)
def test_cut_short_at_random_moments(hello: Project, agent: str) -> None:
    """Two by Ctrl-C and two by kill -9; whatever they were at, each comes to a verdict and none is left over."""
    hello.write({"busy.toml": BUSY})
    dice = random.Random(f"20261130 {agent}")
    for number in (signal.SIGINT, signal.SIGKILL):
        two = [
            hello.start("run", "tasks/hello", "--agent", agent, "--rehearse", "busy.toml", "-q", "--again")
            for _ in range(2)
        ]
        eventually(lambda: sum(b"Step 0" in events(run) for run in unfinished(hello)) == 2, 100)
        for running in two:
            time.sleep(dice.uniform(0.1, 2))
            running.signal(number)
        for running in two:
            running.process.wait(60)
    hello.run("recover", "-q", timeout=120)
    assert_nothing_left(hello)
    first = hello.runs
    assert len(first) == 4
    for run in first:
        known = record(run)
        assert known["state"] == "committed"
        assert known["ending"]
        for line in events(run).splitlines():
            json.loads(line)
        if known["resumable"]:
            hello.run("resume", known["id"], "-q", timeout=100).assert_code(0).assert_says("pass")
    assert sum(record(run)["resumable"] for run in first) >= 2, "hardly any was cut short"
    for run in hello.runs:
        known = record(run)
        assert known.get("verdict") == "pass" or (run / "resumed-by").exists(), known
    assert_nothing_left(hello)


def unfinished(project: Project) -> list[Path]:
    born = [run for run in project.runs if (run / "run.toml").exists()]
    return [run for run in born if record(run)["state"] != "committed"]


@pytest.mark.timeout(150)
def test_a_long_command_is_no_stall(hello: Project) -> None:
    """Claude Code says every 30 s that its tool still runs, and only a CLI that says nothing has stalled."""
    long = SLOW.replace("sleep 100", "sleep 50")
    hello.write({"long.toml": long, "assay.toml": '[defaults]\nstall = "40s"\n'})
    outcome = hello.run("run", "tasks/hello", "--agent", "claude", "--rehearse", "long.toml", "-q", timeout=140)
    outcome.assert_code(0).assert_says("pass")
    assert record(hello.runs[0])["times"]["seconds"] > 50


def events(run: Path) -> bytes:
    path = run / "events.jsonl"
    return path.read_bytes() if path.exists() else b""


@pytest.mark.timeout(150)
@pytest.mark.parametrize("agent", AGENTS)
def test_a_refused_credential_is_named(hello: Project, agent: str) -> None:
    hello.write({"refused.toml": '[[turn]]\nstatus = 401\nerror = "invalid key"\ntimes = 99\n'})
    outcome = hello.run("run", "tasks/hello", "--agent", agent, "--rehearse", "refused.toml", "-q", timeout=120)
    outcome.assert_code(4)
    known = record(hello.runs[0])
    names = tomllib.loads((Path(__file__).parents[2] / "agents.toml").read_text())["agents"][agent]["rehearsal"]["env"]
    assert (known["ending"], known["error_kind"]) == ("api-error", "auth")
    assert f"the credential was {', '.join(names)}" in known["reason"]
    assert known["times"]["seconds"] < 90, "a wrong key is not tried for minutes"
