"""The story of one run, from its directory to its commit. Read `perform`; the rest is its steps.

Every step has a clock, every container is removed whatever happens, and what is known is on disk before the next step
begins. Ending and verdict are decided apart: the ending by what the harness did and what the stream says, the verdict
by the checker alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from assay.model.errors import EngineError
from assay.model.outcome import Verdict
from assay.model.record import RunRecord, State
from assay.run import account, agent, collect, launch, place, prices, snapshot
from assay.run.attempt import Attempt
from assay.run.grade import Checker, Grading
from assay.run.job import Job, Stop, Watch
from assay.run.judge import Graded, Kind
from assay.run.log import Log
from assay.run.no_room import told
from assay.run.owner import me
from assay.run.record import RunDir, now
from assay.run.redact import Redactor
from assay.run.salvage import failed, salvaged
from assay.sandbox.engine import Engine


def perform(job: Job, engine: Engine, watch: Watch, stop: Stop, pool: ThreadPoolExecutor) -> RunRecord:
    """Carry out one run and commit it.

    Args:
        job: What is to run; with `job.earlier` it goes on with that run.
        engine: Where.
        watch: Whoever looks on.
        stop: Asks the run to stop.
        pool: For small work in the background; never the pool that calls this.

    Raises:
        UsageError: The earlier run was resumed already.
        Unmeasured: The engine or the disk failed; the record says what is known, containers are gone (but see
            `salvage.salvaged`).
    """
    attempt = _begin(job, engine, watch, stop)
    with committed(attempt):
        if not agent.called_off(attempt):
            with (
                account.alone(attempt),
                _surroundings(attempt, pool) as container,
                salvaged(attempt, container),
            ):
                agent.follow(attempt, container)
                attempt.dir.save(State.STOPPED)
                left, grading = keep(attempt, container, pool)
            judge(attempt, left, grading)
    return attempt.record


def keep(attempt: Attempt, container: str, pool: ThreadPoolExecutor) -> tuple[collect.Left, Future[Grading] | None]:
    """Take out of the stopped container what is kept; the checker's container is made meanwhile."""
    grading = prepare_grading(attempt, pool)
    try:
        account.settle(attempt, container)
        left = _collect(attempt, container)
        snapshot.keep(attempt, container)
        attempt.dir.save(State.COLLECTED)
    except BaseException:
        if grading is not None:
            attempt.removals.append(pool.submit(_called_off, grading))
        raise
    return left, grading


def _called_off(creating: Future[Grading]) -> None:
    creating.result().remove()


def judge(attempt: Attempt, left: collect.Left, grading: Future[Grading] | None) -> None:
    """Verdict and cost."""
    _grade(attempt, left, grading)
    _price(attempt)
    snapshot.forget_earlier(attempt)


# -- the steps ------------------------------------------------------------------------------------------------------


def _begin(job: Job, engine: Engine, watch: Watch, stop: Stop) -> Attempt:
    choice, task, earlier = job.choice, job.task, job.earlier
    entry = choice.entry
    record = RunRecord(
        id="",
        task=task.name,
        task_path=str(task.path),
        task_digest=task.digest,
        stage=job.stage,
        rung=job.rung,
        attempt=earlier.record.attempt if earlier is not None else job.attempt,
        agent=choice.agent,
        decoder=entry.decoder if entry is not None else "text",
        agent_version=entry.version if entry is not None else None,
        cli_version=entry.version if entry is not None else None,
        model=choice.model,
        unlisted=choice.unlisted,
        effort=choice.effort,
        rehearsal=job.script is not None,
        image=job.images.agent,
        task_image=job.images.task,
        checker_image=job.images.checker if task.checker is not None else None,
        engine=engine.identity() or None,
        fence=job.fence_mode,
        repository=job.ask.volume if job.ask is not None else None,
        owner=me(),
        resumed_from=earlier.record.id if earlier is not None else None,
    )
    record.times.limit_seconds = job.settings.timeout
    given: dict[str, bytes | str] = {"prompt.md": job.prompt}
    if job.ask is not None:
        given |= job.ask.files()
    if job.script_text is not None:
        given["rehearsal.toml"] = job.script_text
    made = RunDir.create(job.runs, record, given)
    if earlier is not None:
        try:
            RunDir(earlier.path, earlier.record).claim_resume(record.id)
        except BaseException:
            made.discard()
            raise
    attempt = attempt_at(job, engine, watch, stop, made)
    attempt.log.info("created", agent=choice.label, task=str(task.path), resumed_from=record.resumed_from)
    watch.began(record)
    return attempt


def attempt_at(job: Job, engine: Engine, watch: Watch, stop: Stop, run: RunDir) -> Attempt:
    """What the steps of a run share, for a run directory that is ours."""
    record = run.record
    return Attempt(
        job=job,
        engine=engine,
        watch=watch,
        stop=stop,
        dir=run,
        log=Log(run.path),
        redactor=Redactor((*job.held.secrets, *(job.proxy.secrets if job.proxy is not None else ()))),
        labels={
            "assay.run": record.id,
            "assay.attempt": str(record.attempt),
            "assay.project": str(job.project),
            "assay.owner": me(),
        },
    )


@contextlib.contextmanager
def committed(attempt: Attempt) -> Iterator[None]:
    """However the story ends, the record ends with it: committed with all that is known."""
    try:
        yield
        for removal in attempt.removals:
            _await(attempt, removal)
        attempt.dir.commit()
    except Exception as error:
        failed(attempt, error)
        raise
    finally:
        attempt.dir.release()
        attempt.log.close()
        attempt.watch.ended(attempt.record)


def _await(attempt: Attempt, removal: Future[None]) -> None:
    """A container that could not be removed takes nothing from what was measured."""
    try:
        removal.result()
    except EngineError as error:
        attempt.say(f"something was left behind, `assay clean` removes it: {error}")


@contextlib.contextmanager
def _surroundings(attempt: Attempt, pool: ThreadPoolExecutor) -> Iterator[str]:
    """The fence and the agent's container, made side by side; at the end both are removed in the background.

    The agent's stays if the disk had no room for what it holds.
    """
    around = place.set_up(attempt)
    container = ""
    try:
        ready = pool.submit(around.wait_ready)
        try:
            container = agent.create(attempt, around)
        finally:
            ready.result()
        around.watch_over(attempt)
        yield container
    finally:
        if container and container != attempt.waiting:
            attempt.removals.append(pool.submit(attempt.engine.remove, container))
        attempt.removals.append(pool.submit(around.finish, attempt))


def prepare_grading(attempt: Attempt, pool: ThreadPoolExecutor) -> Future[Grading] | None:
    """Create the checker's container while the left files are being collected."""
    record, checker = attempt.record, checker_of(attempt.job, replaces=bool(attempt.before))
    if attempt.ungraded and record.ending is not None and record.ending.graded:
        record.verdict_reason = f"not graded: {attempt.ungraded}"
        return None
    if checker is None or record.ending is None or not record.ending.graded:
        return None
    if attempt.job.task.digest != record.task_digest:
        record.verdict_reason = "not graded: the task has changed since the run began"
        return None
    (attempt.dir.path / "checker").mkdir(exist_ok=True)
    labels = {**attempt.labels, "assay.role": "checker"}
    grading = Grading(attempt.engine, checker, attempt.name("checker-1"), labels)

    def create() -> Grading:
        grading.create()
        return grading

    return pool.submit(create)


def checker_of(job: Job, *, replaces: bool) -> Checker | None:
    """The task's checker, in its image; None if it has none."""
    checker, settings = job.task.checker, job.settings
    if checker is None:
        return None
    own = job.task.settings.checker
    return Checker(
        folder=checker.path,
        kind=Kind(checker.kind),
        image=job.images.checker,
        workdir=job.task.settings.workdir,
        seconds=own.timeout,
        replaces=replaces,
        cpus=own.cpus or settings.cpus,
        memory=own.memory or settings.memory,
        pids=own.pids or settings.pids,
        disk=settings.disk,
        env=job.task.settings.env,
        own_env=own.env,
    )


def _known_changes(attempt: Attempt, container: str) -> list[dict[str, Any]]:
    """What the engine says has changed.

    It walks the whole image for that, half a second, which is not worth it where nothing hostile ran.
    """
    if attempt.job.choice.agent in ("oracle", "nop"):
        return []
    try:
        return attempt.engine.changes(container)
    except EngineError as error:
        # It fails on a path that is too long for it; the collection tells that by itself.
        attempt.log.info("no list of changes", reason=str(error))
        return []


def _collect(attempt: Attempt, container: str) -> collect.Left:
    job, record = attempt.job, attempt.record
    limits = collect.Limits(size=job.settings.disk)
    left = collect.collect(attempt.engine, container, job.folder, attempt.dir.path, attempt.redactor, limits)
    collect.note_withheld(left, _known_changes(attempt, container), job.folder, attempt.redactor)
    if left.listed:
        attempt.dir.write(collect.LISTED, b"".join(line + b"\n" for line in left.listed))
    _note_changes(attempt, left)
    record.left = "complete" if left.complete else "truncated"
    record.left_reason = left.reason or None
    record.secrets_redacted = attempt.redactor.count or None
    attempt.log.info("collected", entries=len(left.tree), changes=record.changes, left=record.left, reason=left.reason)
    return left


def _note_changes(attempt: Attempt, left: collect.Left) -> None:
    """What was left against what was given; where the task is gone, nobody knows what was given."""
    job = attempt.job
    if attempt.ungraded:
        return
    given = attempt.before | collect.given_tree([*launch.given(job), launch.END], job.folder)
    lines = list(collect.changes(given, left.tree, attempt.redactor))
    attempt.dir.write(collect.CHANGES, b"".join(line + b"\n" for line in lines))
    attempt.record.changes = len(lines)


def _grade(attempt: Attempt, left: collect.Left, creating: Future[Grading] | None) -> None:
    record = attempt.record
    if creating is None:
        if attempt.job.task.checker is None and not attempt.ungraded:
            record.verdict = Verdict.NONE
        return
    grading = creating.result()
    try:
        if not left.complete:
            graded = Graded(Verdict.CHECKER_ERROR, f"not graded: {left.reason}")
            output = b""
        else:
            attempt.watch.said(record, "grading")
            graded = grading.run(attempt.dir.path, attempt.stop)
            output = grading.output(attempt.redactor)
            graded = told(graded, record.id, output)
    finally:
        grading.remove()
    write_grade(attempt.dir, 1, graded, output, attempt.job.images.checker)
    record.verdict, record.verdict_reason, record.score = graded.verdict, graded.reason or None, graded.score
    attempt.log.info("graded", verdict=str(graded.verdict), reason=graded.reason, seconds=graded.seconds)


def write_grade(run: RunDir, number: int, graded: Graded, output: bytes, image: str) -> None:
    """Keep one grading: checker/N/output.txt and result.toml."""
    import tomli_w

    result = {
        "verdict": str(graded.verdict),
        "reason": graded.reason,
        "score": graded.score,
        "exit_code": graded.exit_code,
        "seconds": graded.seconds,
        "image": image,
        "at": now(),
    }
    run.write(f"checker/{number}/output.txt", output)
    known = {key: value for key, value in result.items() if value not in (None, "")}
    run.write(f"checker/{number}/result.toml", tomli_w.dumps(known))


def _price(attempt: Attempt) -> None:
    """A cost from the entry's price table, where the CLI stated none and every kind of token is priced."""
    record, entry = attempt.record, attempt.job.choice.entry
    if record.cost_usd is not None or entry is None or record.tokens is None:
        return
    cost = prices.cost(entry, record.model_used or record.model or "", record.tokens)
    if cost is not None:
        record.cost_usd, record.cost_source = cost, "price-table"
