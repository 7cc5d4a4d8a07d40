"""Real CLIs that are ended by their own model, and one that is not because its tool takes long."""

from __future__ import annotations

import pytest

from tests.project import Project
from tests.recover.drip import assert_nothing_left, record

pytestmark = [pytest.mark.docker, pytest.mark.cli]

OWN_END = """
[[turn]]
text = "I end what I run in."
shell = "kill -TERM $PPID; sleep 1; pkill -TERM codex; pkill -TERM grok; sleep 20"
usage = { input = 101, output = 11 }

[[turn]]
text = "Done."
"""


@pytest.mark.timeout(150)
@pytest.mark.parametrize("agent", ["claude", "codex", "grok"])
def test_a_model_that_ends_its_own_cli(hello: Project, agent: str) -> None:
    hello.write({"own.toml": OWN_END})
    outcome = hello.run("run", "tasks/hello", "--agent", agent, "--rehearse", "own.toml", "-q", timeout=120)
    assert outcome.code == 3, outcome
    known = record(hello.runs[0])
    assert known["ending"] == "crashed", known
    assert "SIGTERM" in known["reason"], known
    assert_nothing_left(hello)


LONG = """
[[turn]]
text = "I take my time."
shell = "sleep 45; printf 'Hello, world!\\\\n' > hello.txt"

[[turn]]
text = "Done."
"""


@pytest.mark.timeout(150)
def test_a_long_command_is_no_stall(hello: Project) -> None:
    """Claude Code says every 30 s that its tool still runs, and only a CLI that says nothing has stalled."""
    hello.write({"long.toml": LONG, "assay.toml": '[defaults]\nstall = "40s"\n'})
    outcome = hello.run("run", "tasks/hello", "--agent", "claude", "--rehearse", "long.toml", "-q", timeout=140)
    outcome.assert_code(0).assert_says("pass")
    assert record(hello.runs[0])["times"]["seconds"] > 45
