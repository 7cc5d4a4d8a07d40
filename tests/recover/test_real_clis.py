"""Real CLIs in rehearsal: a session limit, a resume, and every token of both accounted for."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.project import Project
from tests.recover.drip import assert_nothing_left, record

pytestmark = [pytest.mark.docker, pytest.mark.cli]

AGENTS = ("claude", "codex", "grok")

LIMITED = """
[[turn]]
text = "I look around."
shell = "pwd && ls -a"
usage = { input = 101, cached = 53, output = 11 }

[[turn]]
text = "I write half of it."
shell = "printf 'Hello, ' > hello.txt"
usage = { input = 203, output = 23 }

[[turn]]
limit = { resets_in = "2h" }

[[turn]]
text = "I write the rest."
shell = "printf 'world!\\\\n' >> hello.txt && cat hello.txt"
expect = "Hello, world!"
usage = { input = 307, output = 37 }

[[turn]]
text = "Done."
usage = { input = 409, cached = 71, output = 43 }
"""

FIRST = {"input": 101 + 203, "cached": 53, "output": 11 + 23}
SECOND = {"input": 307 + 409, "cached": 71, "output": 37 + 43}

SLOW = """
[[turn]]
text = "I write it."
shell = "printf 'Hello, world!\\\\n' > hello.txt"
usage = { input = 101, cached = 53, output = 11 }

[[turn]]
text = "I take my time."
shell = "sleep 100"
usage = { input = 203, output = 23 }

[[turn]]
text = "After the interrupt."
shell = "cat hello.txt"
expect = "Hello, world!"
usage = { input = 307, output = 37 }

[[turn]]
text = "All done."
usage = { input = 409, cached = 71, output = 43 }
"""


def tokens(of: dict[str, Any]) -> dict[str, int]:
    """What a record or a sum of them says: in, from the cache, out."""
    return {kind: of["tokens"][kind] for kind in ("input", "cached", "output")}


def spent(run: Path) -> dict[str, int]:
    return tokens(record(run))


def served(run: Path) -> set[int]:
    """The turns that the stand-in answered in a run."""
    asked: list[dict[str, Any]] = json.loads((run / "rehearsal.json").read_bytes())["requests"]
    return {request["turn"] for request in asked if request.get("turn") is not None}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("agent", [*AGENTS, "gemini"])
def test_session_limit_and_on(hello: Project, agent: str) -> None:
    hello.write({"limited.toml": LIMITED})
    outcome = hello.run("run", "tasks/hello", "--agent", agent, "--rehearse", "limited.toml", "-q", timeout=150)
    outcome.assert_code(4).assert_says("session-limit", "assay resume")
    first = record(hello.runs[0])
    assert (first["ending"], first["resumable"]) == ("session-limit", True)
    assert "verdict" not in first
    assert ("reset_at" in first) == (agent in ("claude", "codex")), "the others do not say when"
    assert served(hello.runs[0]) == {0, 1, 2}
    assert spent(hello.runs[0]) == FIRST
    hello.run("ls").assert_says("session-limit, resumable")

    on = hello.run("resume", "last", "--force", timeout=100).assert_code(0)
    on.assert_says("I write the rest.", "pass", "in all")
    second = record(hello.runs[1])
    assert (second["ending"], second["verdict"], second["resumed_from"]) == ("finished", "pass", first["id"])
    assert second["session"] == first["session"]
    assert (second["cli_version"], second["model"], second["fence"]) == (first["cli_version"], first["model"], "closed")
    assert served(hello.runs[1]) == {3, 4}
    assert spent(hello.runs[1]) == SECOND
    assert json.loads((hello.runs[1] / "rehearsal.json").read_bytes())["problems"] == []

    total = hello.run("show", "last", "--json").json()["total"]
    assert tokens(total) == {kind: FIRST[kind] + SECOND[kind] for kind in FIRST}
    costs = [record(run)["cost_usd"] for run in hello.runs if "cost_usd" in record(run)]
    assert total["cost_usd"] == (pytest.approx(sum(costs)) if costs else None)
    assert total["cost_unknown"] == 2 - len(costs)
    hello.run("ls", "--snapshots").assert_says("no snapshot")
    assert_nothing_left(hello)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("agent", AGENTS)
def test_killed_recovered_interrupted_resumed(hello: Project, agent: str) -> None:
    """assay is killed in the middle of a tool call, taken over, stopped by Ctrl-C; the agent then goes on."""
    hello.write({"slow.toml": SLOW})
    running = hello.start("run", "tasks/hello", "--agent", agent, "--rehearse", "slow.toml")
    running.wait_for("sleep 100", 100)
    running.process.kill()
    again = hello.start("recover")
    again.wait_for("sleep 100")
    again.signal(signal.SIGINT)
    again.finish().assert_code(130)
    first = record(hello.runs[0])
    assert (first["state"], first["ending"], first["resumable"]) == ("committed", "interrupted", True)
    assert spent(hello.runs[0]) == FIRST
    assert_nothing_left(hello)

    on = hello.run("resume", "last", timeout=100).assert_code(0)
    on.assert_says("After the interrupt.", "All done.", "pass")
    second = record(hello.runs[1])
    assert second["session"] == first["session"]
    assert spent(hello.runs[1]) == SECOND
    assert json.loads((hello.runs[1] / "rehearsal.json").read_bytes())["problems"] == []
    assert_nothing_left(hello)
