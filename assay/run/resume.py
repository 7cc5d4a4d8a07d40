"""From a run that was cut short to the job that goes on with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from assay.model.errors import AssayError, UsageError
from assay.model.outcome import Ending
from assay.model.project import Project
from assay.model.record import RunRecord, State
from assay.model.task import load_task
from assay.run import prepare
from assay.run.job import Earlier, Job
from assay.run.record import read_record, resumed_by

MESSAGE = "Continue the task."
"""What an agent is told that goes on where it stopped; every CLI wants some prompt."""

LEAST_SECONDS = 1.0


def chain(runs: Path, record: RunRecord) -> list[RunRecord]:
    """A run and those it was resumed from, oldest first; one that is gone ends the chain."""
    found = [record]
    while found[0].resumed_from is not None:
        try:
            found.insert(0, read_record(runs / found[0].resumed_from))
        except AssayError:
            break
    return found


def check(
    project: Project,
    run: Path,
    *,
    message: str | None = None,
    force: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Job:
    """The job that resumes a run, without its images; everything that can be refused without an engine.

    Raises:
        UsageError: The run cannot be resumed; says why.
        CredentialMissing: Its agent has none now.
    """
    record = read_record(run)
    _refuse(run, record, force=force)
    task = load_task(Path(record.task_path))
    if task.digest != record.task_digest:
        msg = f"{record.id}: the task {task.path} has changed since: its verdict would be of another task; run it anew"
        raise UsageError(msg)
    choice = project.registry.validate_choice(record.agent, record.model, record.effort)
    script = run / "rehearsal.toml"
    rehearse = str(script) if record.rehearsal else None
    job = prepare.check(project, task, choice, rehearse=rehearse, environ=environ)
    spent = sum(r.times.seconds or 0.0 for r in chain(run.parent, record))
    left = max(LEAST_SECONDS, (record.times.limit_seconds or job.settings.timeout) - (record.times.seconds or 0.0))
    return replace(
        job,
        settings=replace(job.settings, timeout=left, internet=record.fence == "open"),
        runs=run.parent,
        stage=record.stage,
        rung=record.rung,
        attempt=record.attempt,
        fence_mode=record.fence or job.fence_mode,
        earlier=Earlier(run, record, message or MESSAGE, _turn(run), spent),
    )


def _refuse(run: Path, record: RunRecord, *, force: bool) -> None:
    why = None
    if record.state is not State.COMMITTED:
        why = "it is still running, or was left by a killed assay; `assay recover` finishes it"
    elif (by := resumed_by(run)) is not None:
        why = f"it was resumed already, by {by}; resume that one"
    elif record.ending is Ending.TIMEOUT:
        why = "it reached its time limit, which is a result; run the task anew with a longer --timeout"
    elif not record.resumable:
        why = f"it ended as {record.ending}{f' ({record.reason})' if record.reason else ''}, which is a result"
    elif record.reset_at is not None and record.reset_at > datetime.now(UTC) and not force:
        at = record.reset_at.astimezone().strftime("%H:%M")
        why = f"its session limit lifts at {at}; --force tries before"
    if why is not None:
        msg = f"{record.id} cannot be resumed: {why}"
        raise UsageError(msg)


def _turn(run: Path) -> int:
    """Where a rehearsal's script goes on."""
    try:
        return int(json.loads((run / "rehearsal.json").read_bytes())["next_turn"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
