"""Finish the runs that a killed harness left: take up what still runs, keep and grade what has ended, and clear up.

A run is left over when its record is not committed and nobody holds its lock. What is done depends on what is there:

    agent's container runs     follow it to its end, no event lost or doubled
    it has ended               keep, grade, commit
    it never started           commit; a resume starts it as if nothing had been
    it is gone                 commit what is on disk; a resume goes on from a snapshot, else begins anew
    files are kept already     grade them, commit
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from assay.model.errors import AssayError, ConfigError, CredentialMissing, NotKept, UsageError
from assay.model.outcome import Ending, Verdict
from assay.model.project import Project
from assay.model.record import RunRecord, State
from assay.model.task import Task, TaskSettings, load_task
from assay.run import account, agent, ask, collect, launch, lifecycle, place, prepare, snapshot
from assay.run.agent import Over
from assay.run.attempt import Attempt
from assay.run.find import clear_unborn, run_names
from assay.run.follow import EVENTS, STDERR
from assay.run.job import Earlier, Images, Job, Stop, Watch
from assay.run.record import LOCK, RunDir, cut_torn, now, read_record, resumed_by
from assay.run.resume import next_turn
from assay.run.salvage import nothing_lost, salvaged, stated
from assay.sandbox.engine import Engine

NOT_STARTED = 97
"""Exit code of the launcher that never got its credentials."""

KILLED = "assay was killed"

LOOK_SECONDS = 1.0
"""For how long a lock that somebody holds may be that of one who only looks."""


def left_over(runs: Path) -> list[str]:
    """Ids of runs that no living process owns and nobody has committed, oldest first."""
    clear_unborn(runs)
    found = []
    for name in run_names(runs):
        if (runs / name / LOCK).exists():
            with contextlib.suppress(ConfigError, OSError):
                run = RunDir.take(runs / name)
                if run is not None:
                    found.append(name)
                    run.release()
    return found


def recover(
    project: Project, name: str, engine: Engine, watch: Watch, stop: Stop, pool: ThreadPoolExecutor
) -> RunRecord | None:
    """Bring one left-over run to its end; None if another process has taken it up meanwhile.

    Raises:
        UsageError: It runs on another engine, or its agent is not in the registry any more; nothing was touched.
        CredentialMissing: The agent had a credential that must be known to be kept out of what is kept.
        Unmeasured: The engine or the disk failed again.
    """
    run = _taken(project.runs / name)
    if run is None:
        record = read_record(project.runs / name)
        return record if record.state is State.COMMITTED else None
    containers = engine.containers({"assay.run": name})
    _check_engine(run, engine)
    roles = {c["Labels"].get("assay.role", ""): c for c in containers}
    try:
        task, ungraded = _task(run, engine, roles)
        job = _job(project, run.record, task, engine, secrets="agent" in roles)
        run.adopt()
    except OSError as error:
        run.release()
        raise NotKept(nothing_lost(run.path.parent, error)) from error
    except BaseException:
        run.release()
        raise
    attempt = lifecycle.attempt_at(job, engine, watch, stop, run)
    attempt.taken_over, attempt.ungraded = True, ungraded
    attempt.log.info("taken over", state=str(run.record.state), containers=sorted(roles))
    watch.began(run.record)
    if ungraded:
        attempt.say(f"followed to its end and kept, but not graded: {ungraded}")
    with lifecycle.committed(attempt), _cleared(attempt), _around(attempt, containers):
        _go_on(attempt, roles, pool)
    return run.record


def _taken(path: Path) -> RunDir | None:
    """Take a run over. Whoever only looks what is left over holds each lock for a moment, which is waited for."""
    until = time.monotonic() + LOOK_SECONDS
    while (run := RunDir.take(path)) is None and (path / LOCK).exists() and time.monotonic() < until:
        time.sleep(0.02)
    return run


def _check_engine(run: RunDir, engine: Engine) -> None:
    """Another engine knows nothing of this run: its agent may well still be at work where it was started."""
    if run.record.engine not in (None, engine.identity()):
        run.release()
        msg = f"it runs on another Docker Engine ({run.record.engine}); is DOCKER_HOST set as it was then?"
        raise UsageError(msg)


@contextlib.contextmanager
def _cleared(attempt: Attempt) -> Iterator[None]:
    """Whatever happens, no container of this run is left, but one whose files still find no room."""
    try:
        yield
    finally:
        for container in attempt.engine.containers({"assay.run": attempt.record.id}):
            if container["Id"] != attempt.waiting:
                attempt.engine.remove(container["Id"])


@contextlib.contextmanager
def _around(attempt: Attempt, containers: list[dict[str, Any]]) -> Iterator[None]:
    """The fence and the stand-in that still stand: watched over while the agent runs, and asked what they saw."""
    around = place.found(attempt, containers)
    around.watch_over(attempt)
    try:
        yield
    finally:
        around.finish(attempt)


def _go_on(attempt: Attempt, containers: dict[str, dict[str, Any]], pool: ThreadPoolExecutor) -> None:
    record, found = attempt.record, containers.get("agent")
    if checker := containers.get("checker"):
        attempt.engine.remove(checker["Id"])
    attempt.before = agent.before(attempt)
    if record.state is State.COLLECTED:
        lifecycle.judge(attempt, _kept(attempt), lifecycle.prepare_grading(attempt, pool))
    elif found is None:
        _write_off(attempt)
    elif record.times.started is None or found["State"] == "created":
        _never_began(attempt)
    else:
        _take_up(attempt, str(found["Id"]), pool)


def _take_up(attempt: Attempt, container: str, pool: ThreadPoolExecutor) -> None:
    """The agent's container is there, running or ended."""
    record = attempt.record
    attempt.start = launch.plan(attempt.job, ca_pem=None, offline=record.fence != "open")
    with account.alone(attempt), salvaged(attempt, container):
        if record.state is State.RUNNING:
            began = time.monotonic() - (now() - (record.times.started or now())).total_seconds()
            # What was said of an end by a harness that could not bring it about is not true any more.
            record.ending, record.reason = None, None
            agent.see_through(attempt, container, began, _over(attempt, container))
            if record.exit_code == NOT_STARTED:
                _never_began(attempt)
                return
            attempt.dir.save(State.STOPPED)
        collect.clear(attempt.dir.path)
        record.verdict, record.verdict_reason = None, None
        left, grading = lifecycle.keep(attempt, container, pool)
    lifecycle.judge(attempt, left, grading)


def _over(attempt: Attempt, container: str) -> Over | None:
    """How the agent ended, if it has; its time is its own, not that of the harness that was away."""
    state, started = attempt.engine.inspect(container)["State"], attempt.record.times.started
    if state["Running"] or started is None:
        return None
    ended = datetime.fromisoformat(str(state["FinishedAt"]))
    return Over(int(state["ExitCode"]), round(max(0.0, (ended - started).total_seconds()), 3), ended)


def _never_began(attempt: Attempt) -> None:
    record = attempt.record
    record.ending, record.reason = Ending.INTERRUPTED, f"{KILLED} before the agent was started"
    record.error_kind, record.exit_code = None, None
    attempt.not_begun()
    _claim(attempt)


def _claim(attempt: Attempt) -> None:
    """A harness killed between making this run and claiming the earlier one for it: claimed now, unless too late."""
    earlier, record = attempt.job.earlier, attempt.record
    if earlier is None:
        return
    try:
        RunDir(earlier.path, earlier.record).claim_resume(record.id)
    except UsageError:
        record.resumable, record.session, record.snapshot = False, None, None
        record.reason = f"{record.reason}; {earlier.record.id} was resumed by {resumed_by(earlier.path)} instead"


def _write_off(attempt: Attempt) -> None:
    """The agent's container is gone, or was never made: say what is on disk."""
    record = attempt.record
    if record.times.started is None:
        _never_began(attempt)
        return
    for name in (EVENTS, STDERR):
        cut_torn(attempt.dir.path / name)
    facts = stated(attempt)
    if record.ending is not None and record.ending.graded:
        record.verdict, record.verdict_reason = Verdict.CHECKER_ERROR, f"not graded: {KILLED}, the files are gone"
        record.resumable = False
        return
    record.ending = record.ending or Ending.CRASHED
    record.reason = record.reason or f"{KILLED}, and the agent's container is gone"
    record.tokens, record.cost_usd = record.tokens or facts.tokens, record.cost_usd or facts.cost_usd
    attempt.not_begun()
    # Taken by a harness that could not write its id down any more.
    if (kept := attempt.engine.image(snapshot.tag(record.id))) is not None:
        record.session, record.snapshot = facts.session or record.session, str(kept["Id"])


def _kept(attempt: Attempt) -> collect.Left:
    """The files that were kept before the harness died."""
    record = attempt.record
    return collect.Left(complete=record.left == "complete", reason=record.left_reason or "")


def _task(run: RunDir, engine: Engine, containers: dict[str, dict[str, Any]]) -> tuple[Task, str]:
    """The run's task, and why it cannot be graded if that is not there any more.

    An agent is not left at work unwatched because a folder was moved away: its container knows where it works.
    """
    record = run.record
    if record.repository is not None:
        return ask.as_it_was(run.path, record)[0], ""
    path = Path(record.task_path)
    try:
        return load_task(path), ""
    except AssayError as error:
        why = f"{error}; `assay grade RUN --task FOLDER` does it"
    known: dict[str, Any] = engine.inspect(str(containers["agent"]["Id"]))["Config"] if "agent" in containers else {}
    settings = TaskSettings(
        workdir=known.get("WorkingDir") or TaskSettings().workdir,
        user="root" if str(known.get("User", "")).startswith("0:") else "agent",
    )
    prompt = (run.path / "prompt.md").read_text("utf-8", "surrogateescape")
    return Task(path, prompt, settings, solution=path / "solution"), why


def _job(project: Project, record: RunRecord, task: Task, engine: Engine, *, secrets: bool) -> Job:
    """The job as it was, for what is left to do of it.

    Args:
        project: Settings, registry.
        record: Of the run.
        task: Its task.
        engine: Where its images are.
        secrets: Whether its credential must be known.
    """
    run = project.runs / record.id
    about = ask.kept(run) if record.repository is not None else None
    choice = project.registry.validate_choice(record.agent, record.model, record.effort)
    rehearse = str(run / "rehearsal.toml") if record.rehearsal else None
    command = "" if choice.agent == "script" else None
    try:
        job = prepare.check(project, task, choice, rehearse=rehearse, command=command, lasting=False)
    except CredentialMissing:
        if secrets:
            raise
        job = prepare.check(project, task, choice, signed=False)
    task_image = record.task_image or ""
    there = engine.image(task_image)
    images = Images(
        task=task_image,
        agent=record.image or "",
        checker=record.checker_image or task_image,
        support=task_image,
        volumes=tuple(sorted(((there or {}).get("Config") or {}).get("Volumes") or {})),
        own=task.dockerfile is not None or task.settings.image is not None,
    )
    limit = record.times.limit_seconds or job.settings.timeout
    settings = replace(job.settings, timeout=limit, internet=record.fence == "open")
    fence = record.fence or job.fence_mode
    return replace(
        job,
        images=images,
        settings=settings,
        runs=run.parent,
        fence_mode=fence,
        earlier=_earlier(run.parent, record),
        ask=about,
    )


def _earlier(runs: Path, record: RunRecord) -> Earlier | None:
    """The run that this one went on with; None if there was none or it is gone."""
    if record.resumed_from is None:
        return None
    path = runs / record.resumed_from
    try:
        known = read_record(path)
        return Earlier(path, known, turn=next_turn(path, known))
    except ConfigError:
        return None
