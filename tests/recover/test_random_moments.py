"""Real CLIs that are cut short at random moments: by Ctrl-C, and by a harness that is killed with -9."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest

from tests.project import Project
from tests.recover.drip import assert_nothing_left, eventually, record

pytestmark = [pytest.mark.docker, pytest.mark.cli]

STEPS = "".join(
    f"""
[[turn]]
text = "Step {n}."
shell = "echo {n} >> steps.txt; sleep 0.7"
usage = {{ input = 100, output = 10 }}
"""
    for n in range(5)
)
BUSY = f"""{STEPS}
[[turn]]
text = "I write it."
shell = "printf 'Hello, world!\\\\n' > hello.txt"
usage = {{ input = 100, output = 10 }}

[[turn]]
text = "Done."
usage = {{ input = 100, output = 10 }}
"""

FIRST, LAST = 0.1, 2.0
"""Seconds after the first step in which they are cut short: in a call, before one, after one."""

THIRDS = {"claude": (0, 2), "codex": (1, 0), "grok": (2, 1)}
"""In which third of that time each is hit by Ctrl-C and by the kill, so that the whole of it is hit by both."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("agent", THIRDS)
def test_cut_short_at_random_moments(hello: Project, agent: str) -> None:
    """Whatever they were at, each comes to a verdict and none is left over."""
    hello.write({"busy.toml": BUSY})
    dice, third = random.Random(f"20261130 {agent}"), (LAST - FIRST) / 3
    blows = zip(THIRDS[agent], (signal.SIGINT, signal.SIGKILL), strict=True)
    moments = sorted((FIRST + third * (part + dice.random()), number) for part, number in blows)
    two = [
        hello.start("run", "tasks/hello", "--agent", agent, "--rehearse", "busy.toml", "-q", "--again") for _ in moments
    ]
    eventually(lambda: sum(b"Step 0" in events(run) for run in unfinished(hello)) == 2, 100)
    begun = time.monotonic()
    for running, (moment, number) in zip(two, moments, strict=True):
        time.sleep(max(0, begun + moment - time.monotonic()))
        running.signal(number)
    for running in two:
        running.process.wait(60)
    hello.run("recover", "-q", timeout=120)
    assert_nothing_left(hello)
    first = hello.runs
    assert len(first) == 2
    for run in first:
        known = record(run)
        assert known["state"] == "committed"
        assert known["ending"]
        for line in events(run).splitlines():
            json.loads(line)
        if known["resumable"]:
            hello.run("resume", known["id"], "-q", timeout=100).assert_code(0).assert_says("pass")
    assert sum(record(run)["resumable"] for run in first) >= 1, "none was cut short"
    for run in hello.runs:
        known = record(run)
        assert known.get("verdict") == "pass" or (run / "resumed-by").exists(), known
    assert_nothing_left(hello)


def events(run: Path) -> bytes:
    path = run / "events.jsonl"
    return path.read_bytes() if path.exists() else b""


def unfinished(project: Project) -> list[Path]:
    born = [run for run in project.runs if (run / "run.toml").exists()]
    return [run for run in born if record(run)["state"] != "committed"]
