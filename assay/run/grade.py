"""The hidden checker: run in a second container that sees the files left and its own, nothing else.

No network, no process, layer or credential of the agent. Exit 0 is a pass, 1 a fail, anything else a checker-error,
which is never a fail. The checker's folder has a name that nobody could guess, and is root's.
"""

from __future__ import annotations

import contextlib
import posixpath
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from assay.model.outcome import Verdict
from assay.run import limits
from assay.run.job import Stop
from assay.run.judge import Graded, Kind, judge
from assay.run.leftovers import graded_stream
from assay.run.redact import Redactor
from assay.run.search_paths import PLAIN_PATH, without
from assay.sandbox import archive
from assay.sandbox.archive import Put, TarReader
from assay.sandbox.engine import Engine
from assay.sandbox.spec import NotThere, Spec

LONGEST_OUTPUT = 8 << 20
"""Bytes of checker output that are kept; a note says what was cut."""

UNLIMITED = 1 << 60

SHORTEST_FRAME = 64

RESULTS = {b"score": "score", b"mark/report": "report", b"mark/report.begun": "report.begun"}
"""Files that a checker, or what runs it, leaves for us; what runs it has a folder that no variable names for long."""

CAPS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")


@dataclass(frozen=True, slots=True)
class Checker:
    """A hidden checker, ready to run.

    Attributes:
        folder: On the host; its files and modes are put in place as they are.
        image: Id of the image it runs in.
        workdir: Where the left files are laid.
        replaces: The image holds files of its own in the working directory, which must not come back.
        seconds: Its clock.
        disk: The most that was left, and that it may write itself, in bytes.
        env: What the task sets for agent and checker.
        own_env: What it sets for the checker alone.
    """

    folder: Path
    kind: Kind
    image: str
    workdir: str
    seconds: float = 600
    replaces: bool = False
    cpus: float | None = None
    memory: int | None = None
    pids: int | None = None
    disk: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    own_env: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Grading:
    """One checker container, from its creation to its result."""

    engine: Engine
    checker: Checker
    name: str
    labels: Mapping[str, str]
    secret: str = field(default_factory=lambda: secrets.token_hex(8))
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    container: str = ""

    @property
    def _place(self) -> str:
        return f"/checker-{self.secret}"

    @property
    def _out(self) -> str:
        return f"/checker-{self.secret}-out"

    @property
    def _room(self) -> int:
        """What may be written: the left files as they were laid in place, once or twice, and as much again."""
        return (self.checker.disk or UNLIMITED) * (3 if self.checker.replaces else 2)

    def create(self) -> None:
        """Make the container and put the checker in it: all that does not need the left files."""
        checker = self.checker
        spec = Spec(
            image=checker.image,
            argv=self._argv(),
            name=self.name,
            labels=self.labels,
            workdir="/",
            env={
                **self._around(),
                "ASSAY_CHECKER": self._place,
                "ASSAY_SCORE": f"{self._out}/score",
                "ASSAY_REPORT": f"{self._out}/{self.mark}/report",
                "ASSAY_WORKDIR": checker.workdir,
                # A home and a place for scratch files that hold nothing of the agent's, wherever it worked.
                "HOME": f"{self._place}-home",
                "TMPDIR": f"{self._place}-home",
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONNOUSERSITE": "1",
            },
            caps=CAPS,
            cpus=checker.cpus,
            memory=checker.memory,
            pids=checker.pids,
            storage=self._room if checker.disk else None,
        )
        self.container = self.engine.create(spec)
        self.engine.put(self.container, self._files())

    def run(self, left: Path, stop: Stop | None = None) -> Graded:
        """Lay the left files of a run directory in place, run the checker, and say what it found.

        Args:
            left: The run directory.
            stop: A hard stop ends the checker early.

        Raises:
            EngineError: The engine failed; nothing is known of the files.
        """
        where = f"{self._place}-left" if self.checker.replaces else posixpath.dirname(self.checker.workdir.rstrip("/"))
        self.engine.put(self.container, graded_stream(left, self.checker.workdir), where or "/")
        began = time.monotonic()
        self.engine.start(self.container)

        def asked() -> None:
            if stop is not None and stop.hard:
                self.engine.signal(self.container, "KILL")

        if stop is not None:
            stop.on_ask(asked)
        full: list[str] = []

        def overflow(reason: str) -> None:
            full.append(reason)
            self.engine.signal(self.container, "KILL")

        with limits.on_disk(self.engine, self.container, self._room, overflow):
            code = self.engine.wait(self.container, self.checker.seconds)
        if stop is not None:
            stop.forget(asked)
            if stop.hard:
                return Graded(Verdict.CHECKER_ERROR, f"not graded: {stop.reason}")
        if code is None:
            self.engine.signal(self.container, "KILL")
            self.engine.wait(self.container)
        seconds = round(time.monotonic() - began, 3)
        if full:
            return Graded(Verdict.CHECKER_ERROR, full[0], seconds=seconds)
        graded = judge(self.checker.kind, code, self._results(), seconds, self.checker.seconds)
        if graded.verdict is Verdict.CHECKER_ERROR:
            memory = limits.memory_ran_out(self.engine, self.container, self.checker.memory)
            graded = replace(graded, reason=f"{graded.reason}: {memory}" if memory else graded.reason)
        return graded

    def output(self, redactor: Redactor) -> bytes:
        """What the checker printed, both streams in order, cut at `LONGEST_OUTPUT`."""
        parts, size = [], 0
        for _, data in self.engine.log(self.container, follow=False):
            # A frame costs time whatever its length: short lines count for more than their bytes.
            size += max(len(data), SHORTEST_FRAME)
            if size > LONGEST_OUTPUT:
                parts.append(b"\n[the checker printed more than is kept]\n")
                break
            parts.append(data)
        return redactor.clean(b"".join(parts))

    def remove(self) -> None:
        """Remove the container."""
        if self.container:
            self.engine.remove(self.container)

    def _around(self) -> dict[str, str | None]:
        """The image's environment and the task's, so that nothing in it leads to the left files; those run as root."""
        checker = self.checker
        found = self.engine.image(checker.image) or {}
        image = dict(line.split("=", 1) for line in (found.get("Config") or {}).get("Env") or [] if "=" in line)
        around = {**image, **checker.env}
        plain = {**around, **checker.own_env}.get("PATH") or PLAIN_PATH
        return {**checker.env, **without(around, checker.workdir), **checker.own_env, "ASSAY_PLAIN_PATH": plain}

    # -- inside -----------------------------------------------------------------------------------------------------

    def _argv(self) -> list[str]:
        place, tools = self._place, f"{self._place}-tools"
        command = {
            Kind.SHELL: [f"{place}/check.sh"],
            Kind.PYTHON: ["python3", f"{tools}/python/run_check.py", f"{place}/check.py"],
            Kind.PYTEST: [
                "pytest",
                f"--rootdir={place}",
                f"--confcutdir={place}",
                "-c",
                f"{tools}/pytest.ini",
                "-p",
                "assay_report",
                "-p",
                "no:cacheprovider",
                "--color=no",
                place,
            ],
        }[self.checker.kind]
        script = 'cd "$ASSAY_WORKDIR" && exec "$@"'
        if self.checker.kind is Kind.SHELL:
            # An editor, an archive or another system may have lost the run bit, which says nothing about the files.
            script = f'chmod u+x "$1" && {script}'
        ours = f'PATH="{tools}/bin:$PATH" PYTHONPATH="{tools}/python${{PYTHONPATH:+:$PYTHONPATH}}"'
        script = f"{ours} && export PATH PYTHONPATH && {script}"
        if self.checker.replaces:
            # The image's own files would stand in for those that the agent deleted.
            top = posixpath.basename(self.checker.workdir.rstrip("/"))
            lay = f'mkdir -p "$ASSAY_WORKDIR" && cp -a "{place}-left/{top}/." "$ASSAY_WORKDIR/"'
            script = f'rm -rf "$ASSAY_WORKDIR" 2>/dev/null; {{ {lay}; }} || exit 71; {script}'
        return ["/bin/sh", "-c", script, "sh", *command]

    def _files(self) -> bytes:
        place = self._place.lstrip("/")
        workdir = self.checker.workdir.strip("/")
        parents = [workdir[:i] for i, c in enumerate(workdir) if c == "/"]
        tools = resources.files("assay.run") / "checker_files"
        things = [
            # An agent may have left no working directory at all; the checker has one all the same.
            *(Put(folder) for folder in (*parents, workdir) if not self.checker.replaces),
            Put(f"{place}-out", mode=0o700),
            Put(f"{place}-left", mode=0o700),
            Put(f"{place}-left/{posixpath.basename(workdir)}"),
            Put(f"{place}-out/{self.mark}", mode=0o700),
            Put(f"{place}-home", mode=0o700),
            Put(f"{place}-tools", mode=0o700),
            Put(f"{place}-tools/bin", mode=0o700),
            Put(f"{place}-tools/bin/as-agent", (tools / "as-agent").read_bytes(), 0o700),
            Put(f"{place}-tools/pytest.ini", b"[pytest]\n", 0o600),
            Put(f"{place}-tools/python", mode=0o700),
            *(
                Put(f"{place}-tools/python/{name}", (tools / name).read_bytes(), 0o600)
                for name in ("assay_report.py", "run_check.py", "sitecustomize.py")
            ),
        ]
        tree = archive.pack_tree(self.checker.folder, place, 0, skip=("Dockerfile", "__pycache__"))
        # Last, over the folder's own mode: code that does not run as root cannot look in.
        closed = archive.pack([Put(place, mode=0o700)])
        return b"".join([*archive.members(things), *tree, closed])

    def _results(self) -> dict[str, bytes]:
        """The small files that the checker, and what runs it, wrote for us; nothing else is read from its container."""
        found: dict[str, bytes] = {}
        with contextlib.suppress(NotThere):
            _, stream = self.engine.get(self.container, self._out)
            with stream:
                reader = TarReader(stream)
                for member in reader:
                    name = RESULTS.get(member.name.partition(b"/")[2].replace(self.mark.encode(), b"mark"))
                    if name is not None and member.type == archive.REGULAR and member.size < 1 << 20:
                        found[name] = b"".join(reader.content())
        return found
