"""Earlier runs that count when the same command goes on with an unfinished stage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from assay.model.record import State
from assay.run.job import Job

Run = Mapping[str, Any]

IDENTITY = ("stage", "task_digest", "image", "agent", "model", "effort", "fence", "rehearsal")
"""The image stands for the CLI's version too: it is named by all that it is built from."""


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
        """Runs of the very same thing, by attempt; the latest of each.

        A run that goes on with another takes its place; what the two cost is added up.
        """
        wanted = identity_of(job)
        found: dict[int, Run] = {}
        for run in self._by_task.get(job.task.digest, ()):
            if _identity(run) == wanted and _same_script(run, job):
                attempt = run.get("attempt", 1)
                before = found.get(attempt)
                if before is not None and before["id"] == run.get("resumed_from"):
                    run = {**run, "cost_usd": _sum(before.get("cost_usd"), run.get("cost_usd"))}
                found[attempt] = run
        return found


def _identity(run: Run) -> tuple[object, ...]:
    return tuple(run.get(key) for key in IDENTITY)


def identity_of(job: Job) -> tuple[object, ...]:
    """What makes a run of this job the same as another."""
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


def _same_script(run: Run, job: Job) -> bool:
    """A rehearsal whose script was changed since is another one."""
    if job.script_text is None:
        return True
    try:
        kept = (job.runs / str(run["id"]) / "rehearsal.toml").read_bytes()
    except OSError:
        return False
    return kept == job.script_text


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b
