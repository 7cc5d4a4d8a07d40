"""Earlier runs that count when the same command goes on with an unfinished stage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from assay.model.record import State
from assay.run.job import Job

Run = Mapping[str, Any]

IDENTITY = ("stage", "task_digest", "image", "agent", "model", "effort", "fence", "rehearsal")


class Earlier:
    """Committed runs of one stage.

    Args:
        runs: Every kept run as plain data, oldest first.
        stage: Whose runs count; None for none.
    """

    def __init__(self, runs: Iterable[Run] = (), stage: str | None = None) -> None:
        self._by_task: dict[str, list[Run]] = defaultdict(list)
        for run in runs if stage is not None else ():
            if run.get("stage") == stage and run.get("state") == State.COMMITTED:
                self._by_task[run.get("task_digest", "")].append(run)

    def runs(self, job: Job) -> dict[int, Run]:
        """Runs of the very same thing, by attempt; the latest of each."""
        wanted = identity_of(job)
        return {run.get("attempt", 1): run for run in self._by_task.get(job.task.digest, ()) if identity(run) == wanted}


def identity(run: Run) -> tuple[object, ...]:
    """What makes a kept run the same as another."""
    return tuple(run.get(key) for key in IDENTITY)


def identity_of(job: Job) -> tuple[object, ...]:
    """What a run of this job will be."""
    values = {
        "stage": job.stage,
        "task_digest": job.task.digest,
        "image": job.images.agent,
        "agent": job.choice.agent,
        "model": job.choice.model,
        "effort": job.choice.effort,
        "fence": job.fence_mode,
        "rehearsal": job.script is not None,
    }
    return tuple(values[key] for key in IDENTITY)
