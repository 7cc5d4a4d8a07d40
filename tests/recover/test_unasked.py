"""An agent that somebody ends who is not assay: a crash with its signal, never an interruption."""

from __future__ import annotations

import docker
import pytest

from tests.project import Project
from tests.recover.conftest import MakeDrip
from tests.recover.drip import RUN, assert_nothing_left, eventually, on_engine, record, steps_of

pytestmark = pytest.mark.docker


def send(here: Project, signal: str) -> None:
    """Send a signal to the agent, past assay."""
    api = docker.APIClient(version="auto", timeout=60)
    (agent,) = on_engine(here, role="agent")
    api.kill(agent["Id"], signal)
    api.close()


def begun(here: Project) -> None:
    eventually(lambda: here.runs and (here.runs[0] / "events.jsonl").exists() and len(steps_of(here.runs[0])) > 1)


@pytest.mark.timeout(90)
@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_ended_by_another(drip: MakeDrip, signal: str) -> None:
    here = drip("steps=300\ndelay=0.1\n")
    running = here.start(*RUN)
    begun(here)
    send(here, signal)
    running.finish().assert_code(3).assert_says("crashed", f"SIG{signal}, which assay did not send", "assay resume")
    known = record(here.runs[0])
    assert (known["ending"], known["resumable"], "snapshot" in known) == ("crashed", True, True)
    assert_nothing_left(here)


@pytest.mark.timeout(90)
def test_told_to_stop_by_an_assay_that_was_killed_then(drip: MakeDrip) -> None:
    """Whoever takes it over cannot know better."""
    here = drip("steps=300\ndelay=0.1\n")
    running = here.start(*RUN)
    begun(here)
    running.process.kill()
    running.process.wait(10)
    send(here, "TERM")
    eventually(lambda: [c for c in on_engine(here, role="agent") if c["State"] == "exited"])
    here.run("recover", "-q").assert_code(4).assert_says("interrupted")
    assert record(here.runs[0])["resumable"]
    assert_nothing_left(here)
