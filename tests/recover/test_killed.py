"""kill -9 of assay at any instant: `assay recover` finishes every run, `assay resume` goes on, nothing is left over."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import docker
import pytest

from assay.model.record import STATES, State
from tests.project import Project, Running
from tests.recover.conftest import MakeDrip
from tests.recover.drip import (
    RUN,
    assert_each_once,
    assert_nothing_left,
    eventually,
    on_engine,
    record,
    steps_of,
)

pytestmark = pytest.mark.docker

STEPS = 8
SETTINGS = f"steps={STEPS}\ndelay=0.06\n"


def kill(running: Running) -> None:
    running.process.kill()
    running.process.wait(10)


def assert_recovered(here: Project) -> None:
    """After `assay recover` every run has a committed ending and nothing is left; after `resume` there is a verdict."""
    here.run("recover", "-q", timeout=120)
    assert_nothing_left(here)
    for run in here.runs:
        known = record(run)
        assert known["state"] == "committed", run
        assert known["ending"], run
        assert_each_once(run)
    resumed = [here.start("resume", str(run), "-q") for run in here.runs if record(run)["resumable"]]
    for running in resumed:
        running.finish(100).assert_code(0)
    assert_nothing_left(here)
    for run in here.runs:
        known = record(run)
        assert known.get("verdict") == "pass" or (run / "resumed-by").exists(), (run, known)
        assert_each_once(run)


def has_come_to(run: Path, state: State) -> bool:
    return (run / "run.toml").exists() and STATES.index(record(run)["state"]) >= STATES.index(state)


@pytest.mark.timeout(150)
@pytest.mark.parametrize("state", STATES[:-1])
def test_at_every_state_of_the_record(drip: MakeDrip, state: State) -> None:
    here = drip(SETTINGS)
    running = here.start(*RUN)
    eventually(lambda: here.runs and has_come_to(here.runs[-1], state), 40, pause=0.001)
    kill(running)
    assert_recovered(here)


class Counted(threading.Thread):
    """Kills a command at the n-th thing that the engine does for its project."""

    def __init__(self, here: Project, running: Running, number: int) -> None:
        super().__init__(daemon=True)
        self._api = docker.APIClient(version="auto", timeout=60)
        self._events: Iterator[dict[str, Any]] = self._api.events(
            filters={"label": [f"assay.project={here.root}"]}, decode=True
        )
        self._running, self._number = running, number
        self.at = ""

    def run(self) -> None:
        for n, event in enumerate(self._events, 1):
            if n == self._number:
                kill(self._running)
                self.at = f"{event['Actor']['Attributes'].get('assay.role')} {event['Action']}"
                return

    def close(self) -> None:
        self._events.close()  # type: ignore[attr-defined]
        self.join(5)
        self._api.close()


@pytest.mark.timeout(240)
def test_at_what_the_engine_is_asked_for(drip: MakeDrip) -> None:
    """Killed at the very event, one run each: a fence made, an agent started, a checker made, a container removed."""
    here = drip(SETTINGS)
    here.run(*RUN).assert_code(0)
    places = []
    for number in range(1, 50, 3):
        counted = Counted(here, running := here.start(*RUN), number)
        counted.start()
        running.process.wait(40)
        counted.close()
        if not counted.at:
            break
        places.append(counted.at)
    assert {place.split()[0] for place in places} >= {"fence", "agent", "checker"}, places
    assert len(places) > 5, places
    assert_recovered(here)


def says_something_new(here: Project, before: set[Path]) -> bool:
    return any(steps_of(run) for run in set(here.runs) - before)


@pytest.mark.timeout(240)
def test_at_random_moments(drip: MakeDrip) -> None:
    here = drip(SETTINGS)
    here.run(*RUN).assert_code(0)
    dice = random.Random(20261130)
    five = [(here.start(*RUN), dice.uniform(0.4, 3.5)) for _ in range(5)]
    began = time.monotonic()
    for running, moment in sorted(five, key=lambda pair: pair[1]):
        time.sleep(max(0.0, began + moment - time.monotonic()))
        kill(running)
    for _ in range(5):
        before = set(here.runs)
        running = here.start(*RUN)
        eventually(partial(says_something_new, here, before))
        time.sleep(dice.uniform(0, 0.6))
        kill(running)
    known = [record(run) for run in here.runs if (run / "run.toml").exists()]
    cut = [one["id"] for one in known if one["times"].get("started") and one["state"] != "committed"]
    assert len(cut) >= 3, "most of them were killed before the agent began or after it was through"
    assert_recovered(here)


@pytest.mark.timeout(120)
def test_an_agent_that_still_runs_is_followed_to_its_end(drip: MakeDrip) -> None:
    here = drip("steps=40\ndelay=0.1\n")
    running = here.start(*RUN)
    eventually(lambda: here.runs and (here.runs[0] / "events.jsonl").exists() and len(steps_of(here.runs[0])) > 4)
    kill(running)
    for container in on_engine(here):
        assert container["Labels"].keys() >= {"assay.run", "assay.attempt", "assay.project", "assay.owner"}
    (agent,) = on_engine(here, role="agent")
    assert (agent["Labels"]["assay.run"], agent["Labels"]["assay.attempt"]) == (here.runs[0].name, "1")
    here.run("ls").assert_code(0).assert_says("left behind")
    here.run("resume", "last").assert_refused("assay recover", "killed")

    # Killed once more, in the middle of the recovery.
    again = here.start("recover")
    again.wait_for("step 15")
    kill(again)
    here.run("recover").assert_code(0).assert_says("pass")
    known = record(here.runs[0])
    assert (known["ending"], known["verdict"], known["state"]) == ("finished", "pass", "committed")
    assert steps_of(here.runs[0]) == list(range(1, 41))
    assert (here.runs[0] / "left" / "said.jsonl").read_bytes() == lines_of(here.runs[0])
    assert (here.runs[0] / "fence.json").exists()
    assert 4 < known["times"]["seconds"] < 15
    assert_nothing_left(here)
    here.run("recover").assert_code(0).assert_says("nothing to recover")


def lines_of(run: Path) -> bytes:
    """The numbered lines of a run's events, as they are."""
    return b"".join(line for line in (run / "events.jsonl").read_bytes().splitlines(True) if b'"n":' in line)


@pytest.mark.timeout(90)
def test_an_agent_that_ended_meanwhile_is_graded(drip: MakeDrip) -> None:
    here = drip("steps=6\ndelay=0.1\n")
    running = here.start(*RUN)
    eventually(lambda: here.runs and (here.runs[0] / "events.jsonl").exists() and len(steps_of(here.runs[0])) > 1)
    kill(running)
    eventually(lambda: [c for c in on_engine(here, role="agent") if c["State"] == "exited"])
    time.sleep(1.5)
    here.run("recover", "-q").assert_code(0).assert_says("pass")
    known = record(here.runs[0])
    assert steps_of(here.runs[0]) == list(range(1, 7))
    assert known["times"]["seconds"] < 2.5, "the time that nobody looked on is not the agent's"
    assert_nothing_left(here)


@pytest.mark.timeout(90)
def test_a_time_limit_holds_while_nobody_looks_on(drip: MakeDrip) -> None:
    here = drip("steps=25\ndelay=0.1\n")
    running = here.start(*RUN, "--timeout", "2s")
    eventually(lambda: here.runs and len(steps_of(here.runs[0])) > 1)
    kill(running)
    eventually(lambda: [c for c in on_engine(here, role="agent") if c["State"] == "exited"])
    here.run("recover", "-q").assert_code(0).assert_says("timeout", "nobody looked on", "pass")
    known = record(here.runs[0])
    assert (known["ending"], known["verdict"], known["resumable"]) == ("timeout", "pass", False)
    assert_nothing_left(here)


@pytest.mark.timeout(90)
def test_a_key_that_is_missing_is_named_and_nothing_is_lost(drip: MakeDrip) -> None:
    here = drip("steps=8\ndelay=0.1\n")
    running = here.start(*RUN)
    eventually(lambda: here.runs and len(steps_of(here.runs[0])) > 1)
    kill(running)
    key = here.env.pop("DRIP_KEY")
    here.run("recover", "-q").assert_code(2).assert_says("DRIP_KEY")
    here.env["DRIP_KEY"] = key
    here.run("recover", "-q").assert_code(0).assert_says("pass")
    assert_nothing_left(here)


@pytest.mark.timeout(90)
@pytest.mark.parametrize("ended", [False, True], ids=["at work", "ended"])
def test_a_task_that_was_moved_away_leaves_no_agent_unwatched(drip: MakeDrip, *, ended: bool) -> None:
    """It is followed to its end and kept; whoever says where the task is has it graded."""
    own = {
        "tasks/drip/task.toml": 'workdir = "/app/deep"\n',
        "tasks/drip/files/given.txt": "",
        "tasks/drip/checker/check.sh": "#!/bin/sh\n[ -e given.txt ] || exit 1\n",
    }
    here = drip("steps=30\ndelay=0.1\n", **own)
    running = here.start(*RUN)
    eventually(lambda: here.runs and len(steps_of(here.runs[0])) > 1)
    kill(running)
    (here.root / "tasks/drip").rename(here.root / "elsewhere")
    if ended:
        eventually(lambda: [c for c in on_engine(here, role="agent") if c["State"] == "exited"])
    here.run("recover", "-q").assert_code(3).assert_says("not graded", "no such task", "--task")
    known = record(here.runs[0])
    assert (known["state"], known["ending"], known["left"]) == ("committed", "finished", "complete")
    assert "verdict" not in known
    assert "changes" not in known
    assert steps_of(here.runs[0]) == list(range(1, 31))
    assert_nothing_left(here)
    here.run("show", "last").assert_says("not graded: ", "no such task")
    assert [entry.name for entry in (here.runs[0] / "left").iterdir()] == ["given.txt"]
    here.run("grade", "last", "--task", "elsewhere").assert_code(0).assert_says("pass")
    assert_nothing_left(here)


@pytest.mark.timeout(90)
def test_an_agent_whose_container_is_gone(drip: MakeDrip) -> None:
    here = drip("steps=200\ndelay=0.1\n")
    running = here.start(*RUN)
    eventually(lambda: here.runs and (here.runs[0] / "events.jsonl").exists() and len(steps_of(here.runs[0])) > 1)
    kill(running)
    with (here.runs[0] / "events.jsonl").open("ab") as file:
        file.write(b'{"type":"assistant","n":')
    api = docker.APIClient(version="auto", timeout=60)
    for container in on_engine(here):
        api.remove_container(container["Id"], force=True, v=True)
    api.close()
    here.run("recover", "-q").assert_code(3).assert_says("crashed", "is gone")
    assert_each_once(here.runs[0])
    assert record(here.runs[0])["state"] == "committed"


@pytest.mark.timeout(90)
def test_a_reboot_of_the_engines_host(drip: MakeDrip) -> None:
    """Everything is killed at once; the containers are still there when the engine is back."""
    here = drip("steps=300\ndelay=0.1\n")
    running = here.start(*RUN)
    eventually(lambda: here.runs and (here.runs[0] / "events.jsonl").exists() and len(steps_of(here.runs[0])) > 2)
    kill(running)
    api = docker.APIClient(version="auto", timeout=60)
    for container in on_engine(here):
        api.kill(container["Id"])
    api.close()
    here.run("recover", "-q").assert_code(4)
    first = record(here.runs[0])
    assert (first["state"], first["resumable"]) == ("committed", True)
    assert first["snapshot"]
    assert_each_once(here.runs[0])
    assert_nothing_left(here)
    again = here.start("resume", "last", "-q")
    eventually(lambda: len(here.runs) == 2 and len(steps_of(here.runs[1])) > 1)
    again.process.send_signal(signal.SIGINT)
    again.finish().assert_code(130)
    assert steps_of(here.runs[1])[0] == steps_of(here.runs[0])[-1] + 1


@pytest.mark.timeout(90)
def test_two_harnesses_never_own_one_run(drip: MakeDrip) -> None:
    here = drip("steps=15\ndelay=0.1\n")
    running = here.start(*RUN)
    eventually(lambda: here.runs and (here.runs[0] / "events.jsonl").exists() and len(steps_of(here.runs[0])) > 1)
    here.run("recover").assert_code(0).assert_says("nothing to recover")
    kill(running)
    all_at_once = [here.start("recover", "-q") for _ in range(3)]
    ended = [one.finish(60) for one in all_at_once]
    assert [outcome.code for outcome in ended] == [0, 0, 0]
    assert sum("pass" in outcome.out for outcome in ended) >= 1
    for outcome in ended:
        assert any(text in outcome.out for text in ("pass", "another assay has taken it up", "nothing to recover"))
    assert steps_of(here.runs[0]) == list(range(1, 16))
    assert_nothing_left(here)


def test_a_directory_whose_maker_died_is_no_run(drip: MakeDrip) -> None:
    here = drip()
    unborn = here.root / "runs" / "20260101T000000Z-drip-drip-0000"
    unborn.mkdir(parents=True)
    (unborn / ".lock").touch()
    (unborn / "prompt.md").touch()
    here.run("ls").assert_code(0).assert_says("no run")
    here.run("recover").assert_code(0).assert_says("nothing to recover")
    assert not unborn.exists()
