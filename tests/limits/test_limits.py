"""CPUs, memory, processes and disk of agent and checker: held, and told truly."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator

import pytest

from assay.model.outcome import Ending, Verdict
from assay.model.record import RunRecord
from assay.run.limits import SHORTEST_SECONDS, DiskWatch
from assay.run.record import read_record
from assay.sandbox.engine import Engine
from assay.sandbox.spec import Spec
from tests.conftest import MakeProject

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]

HOG = 'python3 -c "x = []\nwhile True: x.append(bytearray(1 << 20))"'
BOMB = "bomb() { bomb | bomb & }; bomb; sleep 1; cat /proc/sys/kernel/pid_max >/dev/null; echo alive"
FILL = "for n in $(seq 100); do dd if=/dev/zero of=f$n bs=1M count=8 2>/dev/null; sleep 0.1; done; echo full; sleep 60"

INIT = '{"type":"system","subtype":"init","session_id":"%s","model":"one","tools":["Bash"]}'
SCRIPT = base64.b64encode(f"#!/bin/sh\nprintf '{INIT}\\n' \"$1\"\nexec {HOG}\n".encode()).decode()
SAYS = '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"ready"}],"usage":{}}}'
WHEN_TOLD = base64.b64encode(
    f"#!/bin/sh\ntrap 'told=1' USR1\nprintf '{INIT}\\n{SAYS}\\n' \"$1\"\n"
    f'while [ -z "$told" ]; do sleep 0.1; done\nexec {HOG}\n'.encode()
).decode()
HUNGRY = f"""
[agents.hungry]
title = "Hungry"
version = "1"
decoder = "claude"
hosts = []
default_model = "one"
[agents.hungry.install]
run = ['mkdir -p "$OUT/bin"', 'echo {SCRIPT} | base64 -d > "$OUT/bin/hungry"', 'chmod 755 "$OUT/bin/hungry"']
check = ["echo", "1"]
shows = "{{version}}"
[agents.hungry.launch]
run = ["hungry", "{{session}}"]
session = "given"
[agents.hungry.models]
one = {{}}
[[agents.hungry.credentials]]
env = "HUNGRY_KEY"
"""


def run(
    project: MakeProject, command: str, settings: str = "", checker: str = "exit 0", code: int | None = None
) -> tuple[RunRecord, str]:
    here = project(
        {"tasks/t/prompt.md": "-", "tasks/t/checker/check.sh": f"#!/bin/sh\n{checker}\n", "tasks/t/task.toml": settings}
    )
    out = here.run("run", "tasks/t", "--agent", "script", "--command", command, timeout=200)
    assert "Traceback" not in out.err, str(out)
    if code is not None:
        out.assert_code(code)
    (path,) = here.runs
    transcript = (path / "transcript.txt").read_text() if (path / "transcript.txt").exists() else ""
    return read_record(path), out.out + out.err + transcript


def test_cpus_memory_and_processes_reach_the_kernel(project: MakeProject) -> None:
    look = """
    cd /sys/fs/cgroup
    cat cpu/cpu.cfs_quota_us memory/memory.limit_in_bytes memory/memory.memsw.limit_in_bytes pids/pids.max ||
        cat cpu.max memory.max memory.swap.max pids.max
    """
    record, said = run(project, look, 'cpus = 0.5\nmemory = "256MiB"\npids = 77\n', code=0)
    assert record.verdict is Verdict.PASS
    for number in ("50000", str(256 << 20), "77"):
        assert number in said


def test_the_checkers_own_limits(project: MakeProject) -> None:
    checker = """
    f=/sys/fs/cgroup
    pids=$(cat $f/pids/pids.max 2>/dev/null || cat $f/pids.max)
    memory=$(cat $f/memory/memory.limit_in_bytes 2>/dev/null || cat $f/memory.max)
    [ "$pids $memory" = "55 201326592" ] || { echo "$pids $memory"; exit 1; }
    """
    own = '[checker]\npids = 55\nmemory = "192MiB"\n'
    record, said = run(project, "true", f"pids = 99\n{own}", checker, code=0)
    assert record.verdict is Verdict.PASS, said


@pytest.mark.parametrize(("settings", "where"), [("cpus = 4096", "cpus"), ("[checker]\ncpus = 4096", "checker.cpus")])
def test_more_processors_than_there_are_is_refused_before_anything_starts(
    project: MakeProject, settings: str, where: str
) -> None:
    here = project({"tasks/t/prompt.md": "-", "tasks/t/task.toml": settings})
    here.run("run", "tasks/t", "--agent", "nop").assert_refused(f"{where} = 4096", "the engine has")
    assert not here.runs


def test_a_fork_bomb_ends_with_its_run(project: MakeProject) -> None:
    began = time.monotonic()
    record, _ = run(project, BOMB, 'pids = 64\ntimeout = "5s"\n')
    assert record.ending in (Ending.TIMEOUT, Ending.FINISHED, Ending.GAVE_UP)
    assert record.verdict is Verdict.PASS
    assert time.monotonic() - began < 60


def test_memory_that_runs_out_is_the_reason_of_a_crash(project: MakeProject) -> None:
    record, _ = run(project, f"exec {HOG}", 'memory = "64MiB"\n')
    assert record.ending is Ending.CRASHED
    assert record.reason == "out of memory (64MiB allowed)"


def test_memory_that_runs_out_is_no_interruption(project: MakeProject) -> None:
    """Though a stream that breaks off by a signal looks like one."""
    here = project({"tasks/t/prompt.md": "-", "tasks/t/task.toml": 'memory = "64MiB"\n', "agents.toml": HUNGRY})
    here.run("run", "tasks/t", "--agent", "hungry", env={"HUNGRY_KEY": "-"}, timeout=200).assert_code(3)
    (path,) = here.runs
    record = read_record(path)
    assert (record.ending, record.reason) == (Ending.CRASHED, "out of memory (64MiB allowed)")
    assert record.exit_code == 128 + 9


def test_memory_that_ran_out_while_nobody_looked_on(project: MakeProject, engine: Engine) -> None:
    when_told = HUNGRY.replace(SCRIPT, WHEN_TOLD)
    here = project({"tasks/t/prompt.md": "-", "tasks/t/task.toml": 'memory = "64MiB"\n', "agents.toml": when_told})
    running = here.start("run", "tasks/t", "--agent", "hungry", env={"HUNGRY_KEY": "-"})
    running.wait_for("ready", 200)
    running.kill()
    (path,) = here.runs
    (agent,) = engine.containers({"assay.run": path.name, "assay.role": "agent"})
    engine.signal(agent["Id"], "USR1")
    engine.wait(agent["Id"], 60)
    here.run("recover", "-q", env={"HUNGRY_KEY": "-"}).assert_code(3).assert_says("crashed", "out of memory")
    record = read_record(path)
    assert (record.ending, record.reason) == (Ending.CRASHED, "out of memory (64MiB allowed)")


def test_a_killed_child_alone_is_a_note(project: MakeProject) -> None:
    record, said = run(project, f"{HOG}; echo went on", 'memory = "64MiB"\n', code=0)
    assert (record.ending, record.verdict) == (Ending.FINISHED, Verdict.PASS)
    assert "went on" in said
    assert "a process of the agent was killed: out of memory (64MiB allowed)" in said


def test_a_checker_without_memory_is_no_fail(project: MakeProject) -> None:
    record, _ = run(project, "true", '[checker]\nmemory = "64MiB"\n', f"exec {HOG}", code=3)
    assert (record.ending, record.verdict) == (Ending.FINISHED, Verdict.CHECKER_ERROR)
    assert "out of memory (64MiB allowed)" in (record.verdict_reason or "")


def test_a_full_disk_is_a_result(project: MakeProject) -> None:
    record, said = run(project, FILL, 'disk = "40MiB"\ntimeout = "60s"\n')
    assert record.ending is Ending.GAVE_UP
    assert (record.reason or "").startswith("disk limit: ")
    assert (record.reason or "").endswith("written, 40MiB allowed")
    assert "full" not in said
    # More was left than may be kept: never passed.
    assert record.verdict is Verdict.CHECKER_ERROR
    assert record.left == "truncated"


def test_what_is_written_outside_of_the_working_directory_counts_too(project: MakeProject) -> None:
    record, _ = run(project, f"cd /tmp; {FILL}", 'disk = "40MiB"\ntimeout = "60s"\n', code=0)
    assert record.ending is Ending.GAVE_UP
    assert "disk limit" in (record.reason or "")
    # The working directory itself is whole.
    assert (record.left, record.verdict) == ("complete", Verdict.PASS)


def test_a_checker_that_fills_the_disk_is_no_fail(project: MakeProject) -> None:
    record, _ = run(project, "true", 'disk = "20MiB"\n', f"cd /tmp; {FILL}; exit 1", code=3)
    assert record.verdict is Verdict.CHECKER_ERROR
    assert "disk limit: " in (record.verdict_reason or "")


@pytest.fixture
def filled(engine: Engine) -> Iterator[str]:
    """A running container with 5,000 files."""
    files = "cd /tmp; seq 5000 | xargs touch; echo done; sleep 600"
    image = "debian:bookworm-slim"
    container = engine.create(
        Spec(image, ["sh", "-c", files], f"assay-test-{time.time_ns()}", {"assay.test": "limits"})
    )
    try:
        engine.start(container)
        for _, data in engine.log(container, follow=True):
            if b"done" in data:
                break
        yield container
    finally:
        engine.remove(container)


@pytest.fixture
def engine() -> Engine:
    return Engine.connect()


def test_measuring_costs_little(engine: Engine, filled: str) -> None:
    """One look at 5,000 files must leave room for the pause that keeps it below a hundredth of a CPU."""
    began = time.monotonic()
    assert engine.size(filled) == 0
    assert time.monotonic() - began < 1
    before = time.process_time()
    watch = DiskWatch(engine, filled, 1 << 30, lambda _: None)
    watch.start()
    time.sleep(3 * SHORTEST_SECONDS)
    watch.stop()
    watch.join(5)
    assert not watch.is_alive()
    assert time.process_time() - before < 0.06 * SHORTEST_SECONDS


def test_it_ends_with_its_container(engine: Engine, filled: str) -> None:
    told = threading.Event()
    watch = DiskWatch(engine, filled, 0, lambda _: told.set())
    engine.remove(filled)
    watch.start()
    watch.join(30)
    assert not watch.is_alive()
    assert not told.is_set()


def test_an_engine_without_quotas_is_measured_instead(engine: Engine) -> None:
    """Asked for a quota it cannot keep, the engine refuses the container; it is made all the same."""
    spec = Spec(
        "debian:bookworm-slim", ["true"], f"assay-test-{time.time_ns()}", {"assay.test": "limits"}, storage=1 << 30
    )
    container = engine.create(spec)
    try:
        given = engine.inspect(container)["HostConfig"].get("StorageOpt")
        assert given in (None, {"size": str(1 << 30)})
        assert engine._quotas is bool(given)
    finally:
        engine.remove(container)
