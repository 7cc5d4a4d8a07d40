"""The disk is full, runs/ is read-only, the engine is gone, an image is deleted: in the middle of a run."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

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
        assert_nothing_left(here)
        here.run("ls").assert_code(0).assert_says("left behind")
        here.run(*RUN).assert_refused("cannot be written", "Read-only file system")
    finally:
        subprocess.run(["umount", "-l", runs], check=True)
    # What could not be written down is found by its name: the snapshot that was taken all the same.
    here.run("recover", "-q").assert_says("crashed")
    assert record(here.runs[0])["resumable"]
    here.run("resume", "last", "-q").assert_code(0).assert_says("pass")
    assert_nothing_left(here)


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
