"""One run as it was asked for: validated, its images built, nothing started yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from assay.model.events import Event
from assay.model.project import Settings
from assay.model.record import RunRecord
from assay.model.registry import Choice
from assay.model.task import Task
from assay.sandbox.credentials import Held
from assay.sandbox.proxy import Proxy

if TYPE_CHECKING:
    from assay.rehearsal.script import Script
    from assay.run.ask import Ask


@dataclass(frozen=True, slots=True)
class Images:
    """Ids of the images a run needs.

    Attributes:
        task: The environment.
        agent: The environment with the CLI laid over it; the same as `task` for a built-in agent.
        checker: Where the checker runs.
        support: Our own, with python3: the stand-in's and the environment of plain tasks.
        fence: The sidecar's.
        volumes: Paths of the task's image that no snapshot keeps.
        own: The task brought its image: it may hold files in the working directory, variables and volumes.
        env: Variables of the image that must not reach the agent, for `Spec.env`.
    """

    task: str
    agent: str
    checker: str
    support: str
    fence: str = ""
    volumes: tuple[str, ...] = ()
    own: bool = False
    env: Mapping[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Earlier:
    """The run that a resumed one goes on with.

    Attributes:
        path: Its run directory.
        message: What the user adds, "" for nothing.
        turn: Where a rehearsal's script goes on.
    """

    path: Path
    record: RunRecord
    message: str = ""
    turn: int = 0

    @property
    def kept(self) -> bool:
        """Whether there is a session to go on with; else the agent begins anew."""
        return bool(self.record.snapshot and self.record.session)

    def prompt(self, task: str) -> str:
        """What the agent is told: every CLI wants some words to go on; one that begins anew needs the task."""
        if self.kept:
            return self.message or "Continue the task."
        return f"{task.rstrip()}\n\n{self.message}\n" if self.message else task


@dataclass(frozen=True, slots=True)
class Job:
    """What `lifecycle.perform` carries out.

    Attributes:
        script_text: The script as it was written.
        earlier: The run to go on with.
        ask: What makes it a question about a repository; None for a task.
        command: What the built-in agent `script` runs with `sh -c`.
        script: The rehearsal's; None for a real run.
        fence_mode: `closed`, `open`, `sni` or `inject`.
        proxy: What a real run goes out through; None to reach its hosts directly.
        ca: A CA bundle that the agent is to trust beside its own (a corporate proxy's).
    """

    task: Task
    choice: Choice
    settings: Settings
    images: Images
    runs: Path
    project: Path
    held: Held = field(default_factory=Held)
    script: Script | None = None
    script_text: bytes | None = None
    command: str | None = None
    earlier: Earlier | None = None
    stage: str | None = None
    rung: int | None = None
    attempt: int = 1
    fence_mode: str = "closed"
    fence_backend: str = "auto"
    ca: bytes | None = None
    proxy: Proxy | None = None
    ask: Ask | None = None

    @property
    def folder(self) -> str:
        """What is the agent's own and is collected: its working directory, or an ask's scratch directory."""
        return self.task.settings.workdir if self.ask is None else self.ask.scratch

    @property
    def prompt(self) -> str:
        """What the agent is told."""
        return self.task.prompt if self.earlier is None else self.earlier.prompt(self.task.prompt)


class Watch(Protocol):
    """Whoever looks on. Called from the run's threads; must not raise and must not block for long."""

    def began(self, record: RunRecord) -> None:
        """The run has a directory."""
        ...

    def event(self, record: RunRecord, event: Event) -> None:
        """The agent said or did something."""
        ...

    def said(self, record: RunRecord, text: str) -> None:
        """The harness has something to say about this run."""
        ...

    def ended(self, record: RunRecord) -> None:
        """The run is committed, or given up."""
        ...


class Stop:
    """Asks runs to stop: once gently, then at once.

    Thread-safe and callable from a signal handler. `reason` is the first one given.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self.hard = False
        self._lock = threading.RLock()
        self._calls: list[Callable[[], None]] = []

    def ask(self, reason: str, *, hard: bool = False) -> None:
        """Stop what runs; `hard` gives up snapshots and grading as well."""
        with self._lock:
            self.reason = self.reason or reason
            self.hard = self.hard or hard
            calls = list(self._calls)
        for call in calls:
            call()

    def on_ask(self, call: Callable[[], None]) -> None:
        """Have a function called at each `ask`, and at once if there was one already."""
        with self._lock:
            self._calls.append(call)
            asked = self.reason is not None
        if asked:
            call()

    def forget(self, call: Callable[[], None]) -> None:
        """Undo `on_ask`."""
        with self._lock:
            self._calls = [known for known in self._calls if known is not call]
