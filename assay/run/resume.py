"""From a run that was cut short to the job that goes on with it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from assay.model.errors import ConfigError, UsageError
from assay.model.outcome import RUNG_PASSED, Ending
from assay.model.project import Project
from assay.model.record import RunRecord, State
from assay.model.task import SLASH_COMMAND, Task, load_task
from assay.model.units import show_moment
from assay.run import ask, inject, prepare
from assay.run.job import Earlier, Job
from assay.run.owner import alive
from assay.run.record import read_record, resumed_by

LEAST_SECONDS = 1.0


def check(
    project: Project,
    run: Path,
    *,
    message: str | None = None,
    force: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Job:
    """The job that resumes a run, without its images; everything that can be refused without an engine.

    Args:
        project: Settings, registry, where runs are kept.
        run: The run directory.
        message: What the user adds.
        force: Try before the vendor's reset time.
        environ: Instead of the process's own environment.

    Raises:
        UsageError: The run cannot be resumed; says why.
        CredentialMissing: Its agent has none now.
    """
    record = read_record(run)
    refuse(run, record, force=force)
    task: Task
    about = None
    if record.repository is not None:
        task, about = ask.as_it_is(project, run, record)
    else:
        task = load_task(Path(record.task_path))
    if about is None and task.digest != record.task_digest:
        msg = f"{record.id}: the task {task.path} has changed since: its verdict would be of another task; run it anew"
        raise UsageError(msg)
    choice = project.registry.validate_choice(record.agent, record.model, record.effort)
    prepare.refuse_other_version(record, choice)
    script = run / "rehearsal.toml"
    job = prepare.check(project, task, choice, rehearse=str(script) if record.rehearsal else None, environ=environ)
    job = inject.checked(replace(job, fence_mode=record.fence or job.fence_mode))
    left = max(LEAST_SECONDS, (record.times.limit_seconds or job.settings.timeout) - (record.times.seconds or 0.0))
    return replace(
        job,
        settings=replace(job.settings, timeout=left, internet=record.fence == "open"),
        runs=run.parent,
        stage=record.stage,
        rung=record.rung,
        attempt=record.attempt,
        earlier=Earlier(run, record, _message(message), next_turn(run, record)),
        ask=about,
    )


def _message(given: str | None) -> str:
    words = (given or "").strip()
    if given is not None and not words:
        msg = "--prompt is empty; leave it out to go on without a word"
        raise UsageError(msg)
    if SLASH_COMMAND.fullmatch(words):
        msg = f"--prompt: {words!r} is exactly a slash command: a CLI would run it itself and ask no model"
        raise UsageError(msg)
    return words


def refuse(run: Path, record: RunRecord, *, force: bool = False) -> None:
    """Say why a run cannot be resumed, if it cannot.

    Raises:
        UsageError: It still runs, is a result, was resumed already, or waits for its session limit.
    """
    if (why := _reason(run, record, force=force)) is not None:
        msg = f"{record.id} cannot be resumed: {why}"
        raise UsageError(msg)


def _reason(run: Path, record: RunRecord, *, force: bool) -> str | None:
    said = f"{record.ending}{f' ({record.reason})' if record.reason else ''}"
    if record.state is not State.COMMITTED:
        if record.owner and alive(record.owner) is False:
            return "the assay that ran it was killed; `assay recover` finishes it"
        return f"it is still running (state {record.state})"
    if (by := resumed_by(run)) is not None:
        return f"it was resumed already, by {by}; resume that one"
    if record.ending is Ending.TIMEOUT:
        return "it reached its time limit, which is a result; run the task anew with a longer --timeout"
    if record.ending is not None and record.ending.graded:
        return f"it ended as {said}, which is a result"
    if record.reason == RUNG_PASSED:
        return "it was stopped because another run of its rung had passed"
    if not record.resumable:
        return f"it ended as {said}, and there is no session to go on with; run the task anew"
    if record.reset_at is not None and record.reset_at > datetime.now(UTC) and not force:
        return f"its session limit lifts at {show_moment(record.reset_at)}; --force tries before"
    return None


def begins(run: Path, record: RunRecord) -> str | None:
    """What to know of where a resumed run begins, if it is not where its agent stopped; else None.

    Args:
        run: The run that is to be gone on with.
        record: Its record.
    """
    if record.times.started is None:
        return None
    if not (record.snapshot and record.session):
        return f"no snapshot was kept of {record.id}: the agent begins anew, for what is left of the time limit"
    with contextlib.suppress(ConfigError):
        if record.resumed_from and read_record(run.parent / record.resumed_from).snapshot == record.snapshot:
            return f"no snapshot was kept of {record.id}: the agent goes on from where that run began"
    return None


def next_turn(run: Path, record: RunRecord) -> int:
    """Where a rehearsal's script goes on: after what the kept session holds, else at its beginning.

    Args:
        run: The run that is gone on with.
        record: Its record.
    """
    if not (record.snapshot and record.session):
        return 0
    try:
        return int(json.loads((run / "rehearsal.json").read_bytes())["next_turn"])
    except (OSError, ValueError, KeyError, TypeError):
        # Its agent was never started: it stands where the run before it did.
        before = run.parent / (record.resumed_from or "-")
        try:
            return next_turn(before, read_record(before))
        except ConfigError:
            return 0
