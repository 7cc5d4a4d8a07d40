"""The disk is full, runs/ is read-only, the engine is gone, an image is deleted: in the middle of a run."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from assay.sandbox import archive
from assay.sandbox.archive import Put
from assay.sandbox.engine import Engine
from assay.sandbox.images import ensure_environment
from assay.sandbox.spec import Spec
from tests.conftest import MakeProject
from tests.project import Project
from tests.recover.conftest import MakeDrip
from tests.recover.drip import RUN, assert_each_once, assert_nothing_left, eventually, on_engine, record, steps_of

pytestmark = pytest.mark.docker

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")

SETTINGS = "steps=40\ndelay=0.1\n"


class Severed:
    """A way to the engine that can be cut: a socket that passes everything on to the engine's own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._pairs: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect("/var/run/docker.sock")
                self._pairs += [ours, engine]
                threading.Thread(target=self._pass, args=(ours, engine), daemon=True).start()

    @staticmethod
    def _pass(ours: socket.socket, engine: socket.socket) -> None:
        other = {ours: engine, engine: ours}
        with contextlib.suppress(OSError, ValueError), selectors.DefaultSelector() as ready:
            for one in other:
                ready.register(one, selectors.EVENT_READ, one)
            while True:
                for key, _ in ready.select():
                    source: socket.socket = key.data
                    if data := source.recv(1 << 16):
                        other[source].sendall(data)
                    else:
                        ready.unregister(source)
                        other[source].shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """From now on nothing answers there."""
        self.path.unlink(missing_ok=True)
        self._listener.close()
        for one in self._pairs:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def severed(tmp_path: Path) -> Iterator[Severed]:
    way = Severed(tmp_path / "engine.sock")
    yield way
    way.cut()


def begun(here: Project, steps: int = 2) -> None:
    eventually(lambda: here.runs and len(steps_of(here.runs[-1])) >= steps)


@pytest.mark.timeout(150)
def test_the_engine_is_gone(drip: MakeDrip, severed: Severed) -> None:
    """The run ends unmeasured with the reason; once the engine answers again, its agent's work is taken up."""
    here = drip(SETTINGS)
    running = here.start(*RUN, env={"DOCKER_HOST": f"unix://{severed.path}"})
    begun(here)
    severed.cut()
    running.finish().assert_code(3).assert_says("Engine")
    known = record(here.runs[0])
    assert (known["ending"], known["state"]) == ("crashed", "running")
    assert "Engine" in known["reason"]
    assert_each_once(here.runs[0])
    here.run("ls").assert_says("assay recover")
    here.run("recover", env={"DOCKER_HOST": f"unix://{severed.path}"}).assert_refused("no Docker Engine answers")

    here.run("recover", "-q").assert_code(0).assert_says("pass")
    assert steps_of(here.runs[0]) == list(range(1, 41))
    assert_nothing_left(here)


@as_root
@pytest.mark.timeout(150)
def test_the_disk_is_full(drip: MakeDrip) -> None:
    """There is room left for the last record; the agent's work is in a snapshot, and is gone on with later."""
    here = drip("steps=40\ndelay=0.1\n")
    runs = here.root / "runs"
    runs.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", runs], check=True)
    try:
        running = here.start(*RUN)
        begun(here)
        with contextlib.suppress(OSError), (runs / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        running.finish().assert_code(3).assert_says("No space left")
        known = record(here.runs[0])
        assert (known["state"], known["ending"], known["resumable"]) == ("committed", "crashed", True)
        assert "No space left" in known["reason"]
        assert_each_once(here.runs[0])
        assert_nothing_left(here)
        here.run("ls").assert_code(0).assert_says("crashed, resumable")

        (runs / "filler").unlink()
        here.run("resume", "last", "-q").assert_code(0).assert_says("pass")
        assert steps_of(here.runs[1])[0] > 2
        assert steps_of(here.runs[1])[-1] == 40
    finally:
        subprocess.run(["umount", "-l", runs], check=True)
    assert_nothing_left(here)


@as_root
@pytest.mark.timeout(150)
def test_runs_become_read_only(drip: MakeDrip) -> None:
    here = drip("steps=10\ndelay=0.1\n")
    runs = here.root / "runs"
    running = here.start(*RUN)
    begun(here)
    subprocess.run(["mount", "--bind", runs, runs], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", runs], check=True)
        running.finish().assert_code(3).assert_says("Read-only file system")
        assert record(here.runs[0])["state"] == "running"
        assert [c["State"] for c in on_engine(here)] == ["exited"], "its work waits in the agent's container"
        here.run("ls").assert_code(0).assert_says("left behind")
        here.run(*RUN).assert_refused("cannot be written", "Read-only file system")
    finally:
        subprocess.run(["umount", "-l", runs], check=True)
    here.run("recover", "-q").assert_code(0).assert_says("pass")
    assert steps_of(here.runs[0]) == list(range(1, 11))
    assert_nothing_left(here)


SCRIPTED = {
    "tasks/t/prompt.md": "Fill it.",
    "tasks/t/checker/check.sh": '#!/bin/sh\n[ "$(wc -c < big)" = 5000000 ] || exit 1\n',
}
FILL = ("run", "tasks/t", "--agent", "script", "-q", "--command")


@contextlib.contextmanager
def small_disk(runs: Path, size: str) -> Iterator[None]:
    """A file system of that size for the runs."""
    runs.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", runs], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", runs], check=True)


@as_root
@pytest.mark.timeout(150)
def test_no_room_for_what_was_left(project: MakeProject) -> None:
    """The container waits, and says how much room it needs; recover keeps and grades it once there is that room."""
    here = project(SCRIPTED)
    runs = here.root / "runs"
    with small_disk(runs, "3m"):
        done = here.run(*FILL, "head -c 5000000 /dev/urandom > big").assert_code(3)
        done.assert_says("No space left", "bytes are missing", "run assay recover")
        known = record(here.runs[0])
        assert (known["state"], known["ending"], "verdict" in known) == ("stopped", "finished", False)
        assert [c["State"] for c in on_engine(here)] == ["exited"], "the agent's container and no other waits"
        assert not (here.runs[0] / "left.tar.zst").exists(), "what there is no room for takes none up"
        (missing,) = map(int, re.findall(r"up to (\d+) bytes", known["verdict_reason"]))
        assert 2 * 5_000_000 - (3 << 20) <= missing <= 2 * 5_000_000
        here.run("ls").assert_code(0).assert_says("left behind (assay recover)")
        here.run("clean").assert_code(0)

        again = here.run("recover", "-q").assert_code(3).assert_says("No space left", "run assay recover")
        assert "killed" not in again.out
        assert len(on_engine(here)) == 1

        room = (3 << 20) + missing
        subprocess.run(["mount", "-o", f"remount,size={room}", runs], check=True)
        here.run("recover", "-q").assert_code(0).assert_says("pass")
        assert (here.runs[0] / "left" / "big").stat().st_size == 5_000_000
        assert record(here.runs[0])["state"] == "committed"
    assert_nothing_left(here)


CHATTY = {
    "tasks/t/prompt.md": "Fill it.",
    "tasks/t/checker/check.sh": "#!/bin/sh\nhead -c 6000000 /dev/zero | tr '\\\\0' x\ntest -e small || exit 1\n",
}


@as_root
@pytest.mark.timeout(150)
def test_no_room_for_what_the_checker_says(project: MakeProject) -> None:
    """Neither a pass nor a fail: it says that the disk is full, and `assay grade` grades once there is room."""
    here = project(CHATTY)
    runs = here.root / "runs"
    with small_disk(runs, "3m"):
        done = here.run(*FILL, "echo x > small").assert_code(3)
        known = record(here.runs[0])
        again = f"the disk is full: make room and run assay grade {here.runs[0].name}"
        done.assert_says("checker-error", again)
        assert (known["state"], known["ending"], known["verdict"]) == ("committed", "finished", "checker-error")
        assert again in known["verdict_reason"]
        assert (here.runs[0] / "left" / "small").read_text() == "x\n"

        here.run("grade", "last").assert_code(3).assert_says(f"assay: {here.runs[0].name}: not graded, {again}")
        here.run("show", "last").assert_code(0).assert_says("checker-error")
        subprocess.run(["mount", "-o", "remount,size=20m", runs], check=True)
        here.run("grade", "last").assert_code(0).assert_says("pass")
    assert_nothing_left(here)


@pytest.mark.parametrize(("code", "verdict"), [(1, "fail"), (2, "checker-error")])
def test_a_checker_that_meets_a_full_disk_says_so(project: MakeProject, code: int, verdict: str) -> None:
    """The verdict is the checker's own word; that it may not be about the files is said beside it."""
    check = f"#!/bin/sh\ncat /etc/passwd >/dev/full\nexit {code}\n"
    here = project({"tasks/t/prompt.md": "x", "tasks/t/checker/check.sh": check})
    done = here.run("run", "tasks/t", "--agent", "nop", "-q")
    done.assert_says(verdict, f"its output speaks of a full disk: make room and run assay grade {here.runs[0].name}")
    assert record(here.runs[0])["verdict"] == verdict


@as_root
@pytest.mark.timeout(150)
def test_no_room_for_what_an_unfinished_agent_left(drip: MakeDrip) -> None:
    """Of an agent that was stopped, too, what it left waits; once that is kept, the run can be resumed."""
    here = drip("steps=400\ndelay=0.1\n")
    with small_disk(here.root / "runs", "2m"):
        here.write({"tasks/drip/files/big": os.urandom(3_000_000)})
        running = here.start(*RUN)
        begun(here)
        running.signal()
        running.finish().assert_says("No space left", "run assay recover")
        known = record(here.runs[0])
        assert (known["state"], known["ending"]) == ("stopped", "interrupted")
        subprocess.run(["mount", "-o", "remount,size=64m", here.root / "runs"], check=True)
        here.run("recover", "-q").assert_code(4).assert_says("interrupted")
        known = record(here.runs[0])
        assert (known["state"], known["resumable"], "snapshot" in known) == ("committed", True, True)
    assert_nothing_left(here)


@pytest.mark.timeout(100)
def test_a_stream_that_is_given_up_holds_nothing() -> None:
    """The engine locks a container while it is read from; whoever stops reading lets go of it."""
    engine = Engine.connect()
    image = ensure_environment(engine)
    container = engine.create(Spec(image, ["sleep", "600"], "", {}))
    try:
        engine.put(container, archive.pack([Put("/big", os.urandom(32 << 20), 0o644)]))
        engine.start(container)
        stream = engine.get(container, "/big")[1]
        with stream:
            next(stream)
        began = time.monotonic()
        engine.signal(container, "KILL")
        engine.wait(container, 30)
        # Else its lock is held for as long as the stream is, and the signal fails after two minutes.
        assert time.monotonic() - began < 60
    finally:
        engine.remove(container)


@pytest.mark.timeout(150)
def test_an_image_is_deleted_and_others_go_on(drip: MakeDrip) -> None:
    other = {"tasks/other/prompt.md": f"Say what you do.\n{SETTINGS}", "tasks/other/checker/check.sh": "exit 0\n"}
    own = "FROM debian:bookworm-slim\nRUN echo own >/own\n"
    here = drip("steps=20\ndelay=0.1\n", **{"tasks/drip/checker/Dockerfile": own}, **other)
    running = here.start("run", "tasks/drip", "tasks/other", "--agent", "drip", "-q")
    eventually(lambda: len(here.runs) == 2 and all(len(steps_of(run)) > 1 for run in here.runs), 90)
    run, beside = sorted(here.runs, key=lambda run: record(run)["task"])
    api = docker.APIClient(version="auto", timeout=60)
    api.remove_image(record(run)["checker_image"], force=True)
    api.close()
    running.finish().assert_code(3)
    known = record(run)
    assert (known["ending"], known["verdict"], known["left"]) == ("finished", "checker-error", "complete")
    assert "No such image" in known["verdict_reason"]
    assert record(beside)["verdict"] == "pass"
    assert not on_engine(here)
    here.run("grade", run.name, timeout=100).assert_code(0).assert_says("pass")
