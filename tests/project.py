"""A project in a temporary folder, driven through the real `assay` command.

    def test_hello(project):
        here = project({"tasks/foo/prompt.md": "Say hello.", "tasks/foo/checker/check.sh": "exit 0"})
        here.run("run", "tasks/foo", "--agent", "nop").assert_code(0)

Text that begins with `#!` is written executable, and so is check.sh. The environment is clean: a HOME of its own, no
colour, no credential, nothing of Assay's own variables.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

REPOSITORY = Path(__file__).resolve().parent.parent
SAMPLES = REPOSITORY / "tasks"
COMMAND = Path(sys.executable).with_name("assay")
KEPT = ("PATH", "TMPDIR", "DOCKER_HOST", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "DOCKER_CONTEXT")
NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "PIP_CERT")


@dataclass(frozen=True)
class Outcome:
    """How a command ended: exit code and both outputs, with the assertions that tests make again and again."""

    argv: list[str]
    code: int
    out: str
    err: str
    seconds: float

    def __str__(self) -> str:
        command = " ".join(self.argv)
        return f"$ assay {command}\nexit {self.code} after {self.seconds:.1f} s\n-- out\n{self.out}\n-- err\n{self.err}"

    def assert_code(self, code: int) -> Outcome:
        """The exit code is this one, and no bug escaped."""
        assert self.code == code, f"expected exit {code}\n{self}"
        assert "Traceback (most recent call last)" not in self.err, str(self)
        return self

    def assert_refused(self, *words: str) -> Outcome:
        """Exit 2, nothing on standard output, one line on standard error that holds these words.

        A note on runs that were left behind may come before it.
        """
        self.assert_code(2)
        lines = [line for line in self.err.splitlines() if line.strip() and not line.startswith("note: ")]
        assert len(lines) == 1, f"expected one line of error\n{self}"
        assert not self.out.strip(), f"expected no output\n{self}"
        for word in words:
            assert word in lines[0], f"expected {word!r}\n{self}"
        return self

    def assert_says(self, *words: str) -> Outcome:
        """Each of these is somewhere in the two outputs."""
        for word in words:
            assert word in self.out + self.err, f"expected {word!r}\n{self}"
        return self

    def json(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)

    def json_lines(self) -> list[Any]:
        """Standard output as one JSON document a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Running:
    """A command that was started and not yet waited for; both outputs are read as they come."""

    def __init__(self, argv: list[str], cwd: Path, env: Mapping[str, str], stdin: str | None) -> None:
        self.argv, self._begin = argv, time.monotonic()
        self._got = {"out": bytearray(), "err": bytearray()}
        self._change = threading.Condition()
        self.process = subprocess.Popen(
            [str(COMMAND), *argv],
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        pipes = {"out": self.process.stdout, "err": self.process.stderr}
        self._readers = [threading.Thread(target=self._read, args=pair, daemon=True) for pair in pipes.items()]
        for reader in self._readers:
            reader.start()
        if stdin is not None and self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self.process.stdin as pipe:
                pipe.write(stdin.encode())

    def _read(self, name: str, pipe: IO[bytes]) -> None:
        with pipe:
            while part := os.read(pipe.fileno(), 1 << 16):
                with self._change:
                    self._got[name] += part
                    self._change.notify_all()
        with self._change:
            self._change.notify_all()

    def text(self, name: str) -> str:
        """What came so far on `out` or `err`."""
        with self._change:
            return self._got[name].decode("utf-8", "replace")

    def wait_for(self, words: str, timeout: float = 30) -> None:
        """Block until these words were written to either output; fails if the command ends or time is over first."""
        wanted = words.encode()
        with self._change:
            arrived = self._change.wait_for(
                lambda: (
                    any(wanted in got for got in self._got.values()) or not any(r.is_alive() for r in self._readers)
                ),
                timeout,
            )
            found = any(wanted in got for got in self._got.values())
        assert arrived, f"{words!r} did not come within {timeout} s\n{self.text('out')}\n{self.text('err')}"
        assert found, f"ended without {words!r}\n{self.text('out')}\n{self.text('err')}"

    def signal(self, number: int = signal.SIGINT) -> None:
        """Send a signal to the command itself."""
        self.process.send_signal(number)

    def finish(self, timeout: float = 60) -> Outcome:
        """Wait for the end; a command that does not end is killed with all it started, and the test fails."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            msg = f"assay {' '.join(self.argv)} did not end within {timeout} s\n{self.text('out')}\n{self.text('err')}"
            raise AssertionError(msg) from None
        for reader in self._readers:
            reader.join(5)
        return Outcome(self.argv, code, self.text("out"), self.text("err"), time.monotonic() - self._begin)

    def kill(self) -> None:
        """End it at once, and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)


@dataclass
class Project:
    """A project's folder and the environment that its commands see."""

    root: Path
    env: dict[str, str]
    started: list[Running] = field(default_factory=list)

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Write files below the project's folder."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            path.write_bytes(data)
            if data.startswith(b"#!") or path.name == "check.sh":
                path.chmod(0o755)

    def sample(self, *names: str) -> None:
        """Copy sample tasks of the repository into the project's tasks/."""
        for name in names:
            shutil.copytree(SAMPLES / name, self.root / "tasks" / name, symlinks=True)

    def start(self, *argv: str, env: Mapping[str, str] | None = None, stdin: str | None = None) -> Running:
        """Start a command and return at once."""
        running = Running(list(argv), self.root, {**self.env, **(env or {})}, stdin)
        self.started.append(running)
        return running

    def run(
        self, *argv: str, timeout: float = 60, env: Mapping[str, str] | None = None, stdin: str | None = None
    ) -> Outcome:
        """Run a command to its end."""
        return self.start(*argv, env=env, stdin=stdin).finish(timeout)

    @property
    def runs(self) -> list[Path]:
        """Run directories, oldest first."""
        folder = self.root / "runs"
        # A name with a dot in front is a trial whether the folder can be written.
        return sorted(p for p in folder.glob("[!.]*") if p.is_dir())

    def close(self) -> None:
        """End whatever still runs."""
        for running in self.started:
            if running.process.poll() is None:
                running.kill()


def clean_environment(home: Path) -> dict[str, str]:
    """What a command under test sees of the environment: how to reach the engine and the network, no secret."""
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env |= {n: os.environ[n] for name in NETWORK for n in (name, name.lower()) if n in os.environ}
    return {**env, "HOME": str(home), "NO_COLOR": "1", "LANG": "C.UTF-8", "TERM": "dumb", "COLUMNS": "120"}


def leftovers(roots: Mapping[Path, str]) -> dict[str, str]:
    """Containers that a test's project left behind, id to the test's name; they are removed."""
    import docker

    with contextlib.closing(docker.APIClient(version="auto", timeout=60)) as api:
        found = {}
        for container in api.containers(all=True, filters={"label": "assay"}):
            project = Path(container["Labels"].get("assay.project", "/"))
            owner = next((test for root, test in roots.items() if project.is_relative_to(root)), None)
            if owner is not None:
                found[f"{container['Names'][0]} ({container['State']})"] = owner
                api.remove_container(container["Id"], force=True, v=True)
        return found


def forget_snapshots(project: Project) -> None:
    """Remove the images that a project's unfinished runs were kept in; the engine is asked only if there may be any."""
    records = [file.read_bytes() for file in project.root.rglob("runs/*/run.toml")]
    if records and all(b'\nstate = "committed"' in record and b"\nsnapshot = " not in record for record in records):
        return
    import docker

    with contextlib.closing(docker.APIClient(version="auto", timeout=60)) as api:
        for image in api.images(filters={"label": ["assay.snapshot", f"assay.project={project.root}"]}):
            api.remove_image(image["Id"], force=True)
