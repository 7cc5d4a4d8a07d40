"""Where runs are carried out, behind three verbs: submit, events, stop.

`LocalExecutor` carries them out in this process, each in a thread of its own. Another form (a queue, another host)
needs these verbs and nothing else.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from assay.model.events import Event
from assay.model.project import Project
from assay.model.record import RunRecord
from assay.run.job import Job, Stop
from assay.sandbox.engine import Engine
from assay.stage.plan import Slot, Step


@dataclass(frozen=True, slots=True)
class Prepare:
    """Get a rung ready: build the images of its job where they are missing."""

    step: Step
    job: Job


@dataclass(frozen=True, slots=True)
class Start:
    """Carry out one run."""

    slot: Slot
    job: Job


@dataclass(frozen=True, slots=True)
class Ready:
    """A rung can start; the job knows its images."""

    step: Step
    job: Job


@dataclass(frozen=True, slots=True)
class Unready:
    """A rung cannot start."""

    step: Step
    error: BaseException


@dataclass(frozen=True, slots=True)
class Told:
    """Something about a rung that is being made ready."""

    step: Step
    text: str


@dataclass(frozen=True, slots=True)
class Began:
    """A run has a directory."""

    slot: Slot
    record: RunRecord


@dataclass(frozen=True, slots=True)
class Acted:
    """The agent said or did something."""

    slot: Slot
    record: RunRecord
    event: Event


@dataclass(frozen=True, slots=True)
class Said:
    """The harness said something about a run."""

    slot: Slot
    record: RunRecord
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A run is over. With an error it could not be measured; the record is then None if it never had one."""

    slot: Slot
    record: RunRecord | None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """Everything was asked to stop."""

    reason: str
    hard: bool


BUILDS = 2
"""Rungs that are made ready at once."""

Work = Prepare | Start
Happening = Ready | Unready | Told | Began | Acted | Said | Ended | Asked


class Executor(Protocol):
    """Carries out work that the planner decided on."""

    def submit(self, work: Work) -> None:
        """Take work; it begins as soon as there is room."""
        ...

    def events(self) -> Iterator[Happening]:
        """What happens, as it happens; one reader. Each `Prepare` ends in Ready or Unready, each `Start` in Ended."""
        ...

    def stop(self, slot: Slot | None, reason: str, *, hard: bool = False) -> None:
        """Stop one run, or all and all to come; callable from a signal handler."""
        ...


class LocalExecutor:
    """Threads of this process.

    Args:
        engine: Where containers run.
        project: Whose runs these are.
        jobs: Runs at once.
    """

    def __init__(self, engine: Engine, project: Project, jobs: int) -> None:
        self._engine, self._project = engine, project
        self._happened: queue.SimpleQueue[Happening] = queue.SimpleQueue()
        self._runs = ThreadPoolExecutor(jobs, "run")
        self._builds = threading.Semaphore(BUILDS)
        self._background = ThreadPoolExecutor(2 * jobs + 2, "background")
        self._stops: dict[Slot, Stop] = {}
        self._all = Stop()
        self._lock = threading.RLock()

    def submit(self, work: Work) -> None:
        """Take work; it begins as soon as there is room."""
        if isinstance(work, Prepare):
            # Not waited for at the end: the engine gives up a build whose client has gone.
            threading.Thread(target=self._prepare, args=(work,), name="build", daemon=True).start()
            return
        with self._lock:
            stop = self._stops[work.slot] = Stop()
            if self._all.reason is not None:
                stop.ask(self._all.reason, hard=self._all.hard)
        self._runs.submit(self._perform, work, stop)

    def events(self) -> Iterator[Happening]:
        """What happens, as it happens."""
        while True:
            yield self._happened.get()

    def stop(self, slot: Slot | None, reason: str, *, hard: bool = False) -> None:
        """Stop one run, or all and all to come."""
        if slot is None:
            # First of all, so that nothing new is started in the place of a run that ends.
            self._happened.put(Asked(reason, hard))
        with self._lock:
            if slot is None:
                self._all.ask(reason, hard=hard)
            stops = [stop for known, stop in self._stops.items() if slot in (None, known)]
        for stop in stops:
            stop.ask(reason, hard=hard)

    def close(self) -> None:
        """Wait for what still runs and give the threads back."""
        for pool in (self._runs, self._background):
            pool.shutdown()

    def _prepare(self, work: Prepare) -> None:
        def say(text: str) -> None:
            self._happened.put(Told(work.step, text))

        # Whatever it is, an event says so: a thread that died in silence would be waited for without end.
        try:
            from assay.run import prepare

            with self._builds:
                ready = Ready(work.step, prepare.build(self._engine, self._project, work.job, say))
        except BaseException as error:  # noqa: BLE001
            self._happened.put(Unready(work.step, error))
        else:
            self._happened.put(ready)

    def _perform(self, work: Start, stop: Stop) -> None:
        watch = _Watch(work.slot, self._happened)
        try:
            from assay.run import lifecycle

            ended = Ended(work.slot, lifecycle.perform(work.job, self._engine, watch, stop, self._background))
        except BaseException as error:  # noqa: BLE001 - as above
            ended = Ended(work.slot, watch.record, error)
        with self._lock:
            self._stops.pop(work.slot, None)
        self._happened.put(ended)


class _Watch:
    """Turns what a run tells into events."""

    def __init__(self, slot: Slot, happened: queue.SimpleQueue[Happening]) -> None:
        self._slot, self._happened = slot, happened
        self.record: RunRecord | None = None

    def began(self, record: RunRecord) -> None:
        self.record = record
        self._happened.put(Began(self._slot, record))

    def event(self, record: RunRecord, event: Event) -> None:
        self._happened.put(Acted(self._slot, record, event))

    def said(self, record: RunRecord, text: str) -> None:
        self._happened.put(Said(self._slot, record, text))

    def ended(self, record: RunRecord) -> None:
        """Told by `Ended`, once the run's thread is done with it."""
