"""Finish the runs that a killed harness left: take up what still runs, keep and grade what has ended, and clear up.

A run is left over when its record is not committed and nobody holds its lock. What is done depends on what is there:

    agent's container runs     follow it to its end, no event lost or doubled
    it has ended               keep, grade, commit
    it never started, or gone  commit what is on disk; a resume begins anew
    files are kept already     grade them, commit
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from assay import decoders
from assay.model.errors import AssayError
from assay.model.events import Exit, Facts
from assay.model.outcome import Ending
from assay.model.project import Project
from assay.model.record import RunRecord, State
from assay.model.task import load_task
from assay.run import agent, collect, launch, lifecycle, prepare
from assay.run.attempt import Attempt
from assay.run.follow import EVENTS
from assay.run.job import Images, Job, Stop, Watch
from assay.run.record import RunDir, now, read_record, run_names
from assay.sandbox.engine import Engine

NOT_STARTED = 97
"""Exit code of the launcher that never got its credentials."""


def left_over(runs: Path) -> list[str]:
    """Ids of runs that no living process owns and nobody has committed. Cheap: only the lock files are looked at."""
    found = []
    for name in run_names(runs):
        if not (runs / name / ".lock").exists():
            continue
        with contextlib.suppress(AssayError, OSError):
            run = RunDir.open(runs / name)
            if run.record.state is not State.COMMITTED and run.own():
                found.append(name)
                run.release()
    return found


def recover(
    project: Project, name: str, engine: Engine, watch: Watch, stop: Stop, pool: ThreadPoolExecutor
) -> RunRecord:
    """Bring one left-over run to its end.

    Raises:
        UsageError: Another process owns it.
        CredentialMissing: The agent still runs with a credential that must be known to be kept out of what is kept.
        Unmeasured: The engine or the disk failed again.
    """
    run = RunDir.open(project.runs / name)
    if run.record.state is State.COMMITTED or not run.own():
        return read_record(project.runs / name)
    containers = {c["Labels"].get("assay.role", ""): c for c in engine.containers({"assay.run": name})}
    attempt = lifecycle.attempt_at(_job(project, run.record, engine), engine, watch, stop, run)
    attempt.log.info("taken over", state=str(run.record.state), containers=sorted(containers))
    watch.began(run.record)
    with lifecycle.committed(attempt), _cleared(attempt):
        _go_on(attempt, containers, pool)
    return run.record


@contextlib.contextmanager
def _cleared(attempt: Attempt) -> Iterator[None]:
    """Whatever happens, no container of this run is left."""
    try:
        yield
    finally:
        for container in attempt.engine.containers({"assay.run": attempt.record.id}):
            attempt.engine.remove(container["Id"])


def _go_on(attempt: Attempt, containers: dict[str, Any], pool: ThreadPoolExecutor) -> None:
    record, found = attempt.record, containers.get("agent")
    if checker := containers.get("checker"):
        attempt.engine.remove(checker["Id"])
    if record.state is State.COLLECTED:
        lifecycle.judge(attempt, _kept(attempt), lifecycle.prepare_grading(attempt, pool), _facts(attempt))
        return
    if found is None or found["State"] in ("created", "dead") or record.times.started is None:
        _write_off(attempt)
        return
    container = str(found["Id"])
    attempt.start = launch.plan(attempt.job, ca_pem=None, offline=record.fence != "open")
    began = time.monotonic() - (now() - _utc(record.times.started)).total_seconds()
    facts = agent.see_through(attempt, container, began)
    if record.exit_code == NOT_STARTED:
        record.reason, record.resumable, record.session = "assay was killed before the agent was started", True, None
    attempt.dir.save(max(State.STOPPED, record.state, key=list(State).index))
    _clear_kept(attempt)
    left, grading = lifecycle.keep(attempt, container, pool)
    lifecycle.judge(attempt, left, grading, facts)


def _write_off(attempt: Attempt) -> None:
    """There is nothing to take up: say what is on disk."""
    record, earlier = attempt.record, attempt.job.earlier
    facts = _facts(attempt)
    if record.ending is None:
        started = record.times.started is not None
        record.ending = Ending.CRASHED if started else Ending.INTERRUPTED
        record.reason = "assay was killed, " + (
            "and the agent's container is gone" if started else "before the agent was started"
        )
        record.tokens, record.cost_usd = facts.tokens, facts.cost_usd
    record.resumable = attempt.job.choice.entry is not None
    record.session, record.snapshot = None, None
    if earlier is not None and record.times.started is None:
        record.session, record.snapshot = earlier.record.session, earlier.record.snapshot


def _facts(attempt: Attempt) -> Facts:
    """What the kept stream states."""
    record = attempt.record
    path = attempt.dir.path / EVENTS
    decoder = decoders.get(record.decoder or "text")
    decoding = decoder.decode(path.read_bytes().splitlines() if path.exists() else [])
    try:
        while True:
            next(decoding)
    except StopIteration as end:
        facts: Facts = end.value
    return decoder.conclude(facts, Exit(record.exit_code, stopped=record.exit_code is None))


def _kept(attempt: Attempt) -> collect.Left:
    """The files that were kept before the harness died."""
    record = attempt.record
    return collect.Left(complete=record.left == "complete", reason=record.left_reason or "")


def _clear_kept(attempt: Attempt) -> None:
    """Remove a half-done collection: it is done again."""
    path = attempt.dir.path
    for name in (collect.TREE, "checker", "volumes"):
        shutil.rmtree(path / name, ignore_errors=True)
    for name in (collect.TAR, collect.LISTED):
        (path / name).unlink(missing_ok=True)


def _utc(at: datetime | None) -> datetime:
    return at if at is not None else now()


def _job(project: Project, record: RunRecord, engine: Engine) -> Job:
    """The job as it was, for what is left to do of it."""
    task = load_task(Path(record.task_path))
    choice = project.registry.validate_choice(record.agent, record.model, record.effort)
    run = project.runs / record.id
    rehearse = str(run / "rehearsal.toml") if record.rehearsal else None
    job = prepare.check(project, task, choice, rehearse=rehearse, command="" if choice.agent == "script" else None)
    task_image = record.task_image or ""
    there = engine.image(task_image)
    volumes = tuple(sorted(((there or {}).get("Config") or {}).get("Volumes") or {}))
    images = Images(
        task=task_image,
        agent=record.image or "",
        checker=record.checker_image or task_image,
        support=task_image,
        volumes=volumes,
        own=task.dockerfile is not None or task.settings.image is not None,
    )
    limit = record.times.limit_seconds or job.settings.timeout
    settings = replace(job.settings, timeout=limit, internet=record.fence == "open")
    return replace(job, images=images, settings=settings, runs=run.parent)
