"""Ctrl-C and its kin: what runs is kept and goes on later; nothing is left on the engine."""

from __future__ import annotations

import contextlib
import os
import pty
import random
import signal
import subprocess
import time

import pytest

from tests.project import COMMAND, Project
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


def begun(here: Project, steps: int) -> None:
    """Block until the last run of a project has said so many steps."""
    eventually(lambda: here.runs and len(steps_of(here.runs[-1])) >= steps)


def assert_kept(here: Project) -> None:
    """The one run of a project was interrupted and can be gone on with from where it stopped."""
    known = record(here.runs[0])
    assert (known["state"], known["ending"], known["resumable"]) == ("committed", "interrupted", True)
    assert "snapshot" in known
    assert_nothing_left(here)


def share() -> float:
    """How many times longer things take on a machine that has other things to do; 1 on an idle one."""
    return max(1.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))


@pytest.mark.timeout(90)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_goes_on_where_it_stopped(drip: MakeDrip, number: signal.Signals) -> None:
    here = drip("steps=12\ndelay=0.1\n")
    running = here.start(*RUN)
    begun(here, 3)
    running.signal(number)
    running.finish().assert_code(130).assert_says("assay resume")
    first = record(here.runs[0])
    assert (first["ending"], first["resumable"], first["state"]) == ("interrupted", True, "committed")
    assert_nothing_left(here)
    here.run("ls", "--snapshots").assert_code(0).assert_says(first["id"], "kB", "resumable")

    here.run("resume", "last", "-q").assert_code(0).assert_says("pass", "2 runs")
    second = record(here.runs[1])
    assert second["verdict"] == "pass"
    assert second["resumed_from"] == first["id"]
    assert second["session"] == first["session"]
    assert second["times"]["limit_seconds"] == pytest.approx(1800 - first["times"]["seconds"], abs=0.01)
    assert [*steps_of(here.runs[0]), *steps_of(here.runs[1])] == list(range(1, 13))
    assert_nothing_left(here)
    here.run("ls", "--snapshots").assert_code(0).assert_says("no snapshot")


@pytest.mark.timeout(60)
def test_nohup_is_heeded(drip: MakeDrip) -> None:
    here = drip("steps=10\ndelay=0.1\n")
    running = subprocess.Popen(["nohup", COMMAND, *RUN], cwd=here.root, env=here.env, stdout=subprocess.DEVNULL)
    begun(here, 2)
    running.send_signal(signal.SIGHUP)
    assert running.wait(50) == 0
    assert record(here.runs[0])["verdict"] == "pass"


@pytest.mark.timeout(240)
def test_interrupted_at_random_moments(drip: MakeDrip) -> None:
    here = drip("steps=8\ndelay=0.06\n")
    whole = here.run(*RUN).assert_code(0).seconds
    dice = random.Random(20261130)
    for _ in range(2):
        # Five at once take longer than one alone, the more so on a busy machine.
        five = [(here.start(*RUN), dice.uniform(0.2, 1.8) * whole) for _ in range(5)]
        began = time.monotonic()
        for running, moment in sorted(five, key=lambda pair: pair[1]):
            time.sleep(max(0.0, began + moment - time.monotonic()))
            with contextlib.suppress(ProcessLookupError):
                running.signal(signal.SIGINT)
        for running, _ in five:
            # Ended by it when Python itself was about to begin or to end: 130 in a shell, like the other.
            assert running.finish().code in (0, 130, -signal.SIGINT), running.finish()
    # And one that has certainly begun, however slow the machine is.
    before = set(here.runs)
    running = here.start(*RUN)
    eventually(lambda: any(steps_of(run) for run in set(here.runs) - before))
    running.signal(signal.SIGINT)
    running.finish().assert_code(130)
    assert_nothing_left(here)
    here.run("recover").assert_code(0).assert_says("nothing to recover")
    resumed = []
    for run in here.runs:
        known = record(run)
        assert known["state"] == "committed"
        assert known["ending"] in ("finished", "interrupted"), known
        assert_each_once(run)
        if known["resumable"]:
            resumed.append(here.start("resume", str(run), "-q"))
    assert resumed
    for running in resumed:
        running.finish().assert_code(0).assert_says("pass")
    assert_nothing_left(here)


@pytest.mark.timeout(60)
def test_a_second_one_gives_the_snapshot_up_and_still_clears_up(drip: MakeDrip) -> None:
    here = drip("steps=500\ndelay=0.1\ndeaf=1\n")
    running = here.start(*RUN)
    begun(here, 2)
    running.signal(signal.SIGINT)
    running.wait_for("Ctrl-C")
    running.signal(signal.SIGINT)
    began = time.monotonic()
    told = running.finish().assert_code(130)
    assert time.monotonic() - began < 3 * share()
    known = record(here.runs[0])
    assert (known["ending"], "snapshot" in known) == ("interrupted", False)
    assert_nothing_left(here)
    anew = "from the beginning (no snapshot)"
    told.assert_says("to go on: assay resume", f"# {anew}")
    here.run("ls").assert_says(f"interrupted, resumable {anew}")
    here.run("show", "last").assert_says(f"resumable {anew}")
    again = here.start("resume", "last", "-q")
    again.wait_for(f"no snapshot was kept of {known['id']}: the agent begins anew")
    eventually(lambda: steps_of(here.runs[-1])[:1] == [1] if len(here.runs) == 2 else False)
    again.signal(signal.SIGINT)
    again.finish().assert_code(130)


@pytest.mark.timeout(90)
def test_a_closed_terminal(drip: MakeDrip) -> None:
    here = drip("steps=100\ndelay=0.1\n")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", COMMAND, *RUN[:-1]],
        cwd=here.root,
        env=here.env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    while b"step 3" not in seen:
        seen += os.read(ours, 1 << 16)
    os.close(ours)
    process.wait(30)
    assert_kept(here)


@pytest.mark.timeout(90)
def test_a_closed_terminal_under_a_shell(drip: MakeDrip) -> None:
    """The kernel tells the job in the foreground, and so does the shell: two signals, one event."""
    here = drip("steps=100\ndelay=0.1\n")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(here.root)
        os.execvpe("bash", ["bash", "--norc", "-i"], {**here.env, "HISTFILE": ""})
    os.write(terminal, f"{COMMAND} {' '.join(RUN[:-1])}\n".encode())
    seen = b""
    while b"step 3" not in seen:
        seen += os.read(terminal, 1 << 16)
    os.close(terminal)
    os.waitpid(pid, 0)
    eventually(lambda: record(here.runs[0])["state"] == "committed")
    assert_kept(here)


@pytest.mark.timeout(90)
def test_under_timeout(drip: MakeDrip) -> None:
    """`timeout` sends its signal to the command and once more to the command's process group."""
    here = drip("steps=500\ndelay=0.1\n")
    limited = subprocess.Popen(
        ["timeout", "--preserve-status", "600", COMMAND, *RUN], cwd=here.root, env=here.env, stdout=subprocess.DEVNULL
    )
    begun(here, 3)
    # It passes on what it is sent in the same two ways as when its time is over.
    limited.send_signal(signal.SIGTERM)
    assert limited.wait(60) == 130
    assert record(here.runs[0])["reason"] == "stopped by SIGTERM"
    assert_kept(here)


@pytest.mark.timeout(120)
def test_gone_within_three_seconds_and_a_large_change_within_five_more(drip: MakeDrip) -> None:
    """An agent that is deaf to TERM is gone soon; 200 MB that it changed cost a few seconds on top."""
    here = drip("steps=900\ndelay=0.1\ndeaf=1\n")
    large = drip("steps=900\ndelay=0.1\ndeaf=1\nmb=200\n")
    took = {}
    for name, one in (("small", here), ("large", large)):
        running = one.start(*RUN)
        begun(one, 2)
        began = time.monotonic()
        running.signal(signal.SIGINT)
        eventually(lambda one=one: not on_engine(one, role="agent"), 30)  # type: ignore[misc]
        took[name] = time.monotonic() - began
        running.finish().assert_code(130)
        assert "snapshot" in record(one.runs[0])
    assert took["small"] <= 3 * share()
    assert took["large"] <= took["small"] + 5 * share()
    sizes = large.run("ls", "--snapshots", "--json").json()
    assert sizes[0]["size"] > 200e6


@pytest.mark.timeout(60)
def test_a_stall_is_no_timeout(drip: MakeDrip) -> None:
    """Silence has a clock of its own, shorter than the time limit, and is resumable; the time limit is a result."""
    here = drip("steps=3\ndelay=60\n", **{"assay.toml": '[defaults]\nstall = "2s"\ntimeout = "50s"\n'})
    here.run(*RUN).assert_code(4).assert_says("stalled", "no output for 2 s", "assay resume")
    known = record(here.runs[0])
    assert (known["ending"], known["resumable"]) == ("stalled", True)
    # As long as the CLI says something now and then, the clock of silence starts anew.
    busy = drip("steps=8\ndelay=0.7\n", **{"assay.toml": '[defaults]\nstall = "2s"\n'})
    busy.run(*RUN).assert_code(0).assert_says("finished")


@pytest.mark.timeout(60)
def test_a_time_limit_is_a_result(drip: MakeDrip) -> None:
    here = drip("steps=300\ndelay=0.1\n")
    here.run(*RUN, "--timeout", "2s").assert_code(1).assert_says("timeout", "fail")
    known = record(here.runs[0])
    assert (known["ending"], known["verdict"], known["resumable"]) == ("timeout", "fail", False)
    assert "snapshot" not in known
    here.run("resume", "last").assert_refused("time limit", "is a result", "--timeout")
