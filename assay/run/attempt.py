"""What the steps of one run share."""

from __future__ import annotations

import queue
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.model.outcome import RUNG_PASSED, Ending
from assay.model.record import RunRecord
from assay.run.collect import Tree
from assay.run.job import Job, Stop, Watch
from assay.run.launch import Start
from assay.run.log import Log
from assay.run.record import RunDir
from assay.run.redact import Redactor
from assay.sandbox.credentials import Held
from assay.sandbox.engine import Engine

if TYPE_CHECKING:
    from assay.run.account import Sole


@dataclass(slots=True)
class Attempt:
    """One run under way.

    Attributes:
        signals: What the run's threads tell the one that waits: ("exit", code), ("cut", (ending, reason)),
            ("broken", error).
        removals: Removals that go on in the background.
        before: What the task's own image holds in the working directory.
        cut: Why the harness ended the agent, if it did.
        sole: The user's credential file, while it is this run's alone.
        waiting: The agent's container, if the disk had no room for what it holds: it stays for `assay recover`.
        ungraded: Why its files cannot be graded here and now, if they cannot.
        taken_over: An assay that was killed began it: what that one may have sent its agent is not known.
        handed: What the agent gets where its credential stays outside; None if it gets the credential.
    """

    job: Job
    engine: Engine
    watch: Watch
    stop: Stop
    dir: RunDir
    log: Log
    redactor: Redactor
    labels: dict[str, str]
    signals: queue.SimpleQueue[tuple[str, Any]] = field(default_factory=queue.SimpleQueue)
    removals: list[Future[None]] = field(default_factory=list)
    before: Tree = field(default_factory=dict)
    start: Start | None = None
    cut: tuple[Ending, str] | None = None
    sole: Sole | None = None
    taken_over: bool = False
    handed: Held | None = None
    ungraded: str = ""
    waiting: str = ""

    @property
    def record(self) -> RunRecord:
        """The record of this run."""
        return self.dir.record

    def name(self, role: str) -> str:
        """Name of one of this run's containers."""
        return f"assay-{self.record.id}-{role}"

    def not_begun(self) -> None:
        """The agent did nothing in this run: what a resume needs is what it needed before."""
        record, earlier = self.record, self.job.earlier
        record.resumable = self.job.choice.entry is not None and record.reason != RUNG_PASSED
        record.session = earlier.record.session if earlier is not None else None
        record.snapshot = earlier.record.snapshot if earlier is not None else None

    def cut_short(self, ending: Ending, reason: str) -> None:
        """End the agent from any thread; the first reason counts."""
        self.signals.put(("cut", (ending, reason)))

    def say(self, text: str) -> None:
        """Tell whoever looks on, and the log."""
        self.log.info("said", text=text)
        self.watch.said(self.record, text)
