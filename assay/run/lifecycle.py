"""The story of one run, from its directory to its commit. Read `perform`; the rest is its steps.

Every step has a clock, every container is removed whatever happens, and what is known is on disk before the next step
begins. Ending and verdict are decided apart: the ending by what the harness did and what the stream says, the verdict
by the checker alone.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay import decoders
from assay.model.errors import AssayError, EngineError
from assay.model.events import Decoder, Event, Exit, Facts, Started
from assay.model.outcome import Ending, Verdict
from assay.model.record import RunRecord, State
from assay.run import collect, launch, place, prices
from assay.run.follow import STDERR, Follower
from assay.run.grade import Checker, Graded, Grading, Kind
from assay.run.job import Job, Stop, Watch
from assay.run.log import Log
from assay.run.owner import me
from assay.run.record import RunDir, now
from assay.run.redact import Redactor
from assay.run.session import session_file
from assay.sandbox.engine import Engine, Spec
from assay.terminal.transcript import Transcript

if TYPE_CHECKING:
    from assay.run.place import Place

STOP_SECONDS = 2.0
"""From the gentle signal to KILL."""
KILL_SECONDS = 10.0
"""From KILL to giving the engine up."""
LOG_SECONDS = 60.0
"""For the rest of the output, once the process has ended."""
STDERR_TAIL = 1 << 20


@dataclass(slots=True)
class Attempt:
    """One run under way: what its steps share."""

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
    before: collect.Tree = field(default_factory=dict)
    start: launch.Start | None = None
    cut: tuple[Ending, str] | None = None

    @property
    def record(self) -> RunRecord:
        """The record of this run."""
        return self.dir.record

    def name(self, role: str) -> str:
        """Name of one of this run's containers."""
        return f"assay-{self.record.id}-{role}"

    def say(self, text: str) -> None:
        """Tell whoever looks on, and the log."""
        self.log.info("said", text=text)
        self.watch.said(self.record, text)


def perform(job: Job, engine: Engine, watch: Watch, stop: Stop, pool: ThreadPoolExecutor) -> RunRecord:
    """Carry out one run and commit it.

    Raises:
        Unmeasured: The engine or the disk failed; the record says what is known, containers are gone.
    """
    attempt = _begin(job, engine, watch, stop)
    record = attempt.record
    try:
        with _surroundings(attempt, pool) as agent:
            facts = _run_agent(attempt, agent)
            attempt.dir.save(State.STOPPED)
            grading = _prepare_grading(attempt, pool)
            left = _collect(attempt, agent)
            attempt.dir.save(State.COLLECTED)
        _grade(attempt, left, grading)
        _price(attempt, facts)
        for removal in attempt.removals:
            removal.result()
        attempt.dir.commit()
    except Exception as error:
        _failed(attempt, error)
        raise
    finally:
        attempt.log.close()
        watch.ended(record)
    return record


# -- the steps ------------------------------------------------------------------------------------------------------


def _begin(job: Job, engine: Engine, watch: Watch, stop: Stop) -> Attempt:
    choice, task = job.choice, job.task
    entry = choice.entry
    record = RunRecord(
        id="",
        task=task.name,
        task_path=str(task.path),
        task_digest=task.digest,
        stage=job.stage,
        rung=job.rung,
        attempt=job.attempt,
        agent=choice.agent,
        decoder=entry.decoder if entry is not None else "text",
        cli_version=entry.version if entry is not None else None,
        model=choice.model,
        unlisted=choice.unlisted,
        effort=choice.effort,
        rehearsal=job.script is not None,
        image=job.images.agent,
        task_image=job.images.task,
        fence=job.fence_mode,
        owner=me(),
    )
    record.times.limit_seconds = job.settings.timeout
    made = RunDir.create(job.runs, record)
    made.write("prompt.md", task.prompt)
    labels = {"assay.run": record.id, "assay.project": str(job.project), "assay.owner": record.owner or ""}
    attempt = Attempt(
        job=job,
        engine=engine,
        watch=watch,
        stop=stop,
        dir=made,
        log=Log(made.path),
        redactor=Redactor(job.held.secrets),
        labels=labels,
    )
    attempt.log.info("created", agent=choice.label, task=str(task.path))
    watch.began(record)
    return attempt


@contextlib.contextmanager
def _surroundings(attempt: Attempt, pool: ThreadPoolExecutor) -> Iterator[str]:
    """The fence and the agent's container, created side by side; at the end both are removed in the background."""
    job, engine = attempt.job, attempt.engine
    name = f"assay-{attempt.record.id}"
    around = place.set_up(engine, job, name, attempt.labels)
    agent = ""
    try:
        agent = _create_agent(attempt, around)
        yield agent
    finally:
        if agent:
            attempt.removals.append(pool.submit(engine.remove, agent))
        attempt.removals.append(pool.submit(around.close))


def _create_agent(attempt: Attempt, around: Place) -> str:
    job, engine, settings = attempt.job, attempt.engine, attempt.job.settings
    start = launch.plan(job, ca_pem=around.ca_pem, offline=not settings.internet)
    spec = Spec(
        image=job.images.agent,
        argv=start.argv,
        name=attempt.name("agent"),
        labels={**attempt.labels, "assay.role": "agent"},
        user=start.user,
        workdir=job.task.settings.workdir,
        env=start.env,
        network=around.network,
        hosts=around.hosts,
        caps=start.caps,
        stdin=start.secret_input,
        cpus=settings.cpus,
        memory=settings.memory,
        pids=settings.pids,
    )
    agent = engine.create(spec)
    try:
        if job.images.own:
            attempt.before = collect.tree_of(engine, agent, job.task.settings.workdir)
        engine.put(agent, b"".join([*launch.members(start), *launch.given(job), launch.END]))
    except BaseException:
        engine.remove(agent)
        raise
    attempt.start = start
    return agent


def _run_agent(attempt: Attempt, agent: str) -> Facts:
    """Start the agent, follow it to its end, stop it completely; record how it ended."""
    record, start = attempt.record, attempt.start
    assert start is not None  # noqa: S101 - set when the container was created
    decoder = decoders.get(record.decoder or "text")
    transcript = Transcript(attempt.dir.path / "transcript.txt")

    def on_event(event: Event) -> None:
        transcript.add(event)
        attempt.watch.event(record, event)
        if isinstance(event, Started):
            _started(attempt, event)

    record.times.started = now()
    record.session = start.session
    attempt.dir.save(State.RUNNING)
    began = time.monotonic()
    _start(attempt, agent, start)
    follower = Follower(
        attempt.engine,
        agent,
        attempt.dir.path,
        decoder,
        attempt.redactor,
        on_event,
        lambda error: attempt.signals.put(("broken", error)),
    )
    follower.start()
    threading.Thread(target=_wait, args=(attempt, agent), name=f"wait {agent[:12]}", daemon=True).start()
    code = _until_ended(attempt, agent, follower, began)
    record.times.seconds = round(time.monotonic() - began, 3)
    record.times.ended = now()
    follower.process_ended()
    follower.join(LOG_SECONDS)
    transcript.close()
    facts = _conclude(attempt, decoder, follower, code, agent)
    attempt.log.info("ended", ending=str(record.ending), reason=record.reason, code=code, seconds=record.times.seconds)
    return facts


def _start(attempt: Attempt, agent: str, start: launch.Start) -> None:
    """Start the container; the credential goes to the launcher's standard input, attached before."""
    if not start.secret_input:
        attempt.engine.start(agent)
        return
    attempt.engine.feed(agent, attempt.job.held.header(launch.HOME))


def _wait(attempt: Attempt, agent: str) -> None:
    try:
        attempt.signals.put(("exit", attempt.engine.wait(agent)))
    except EngineError as error:
        attempt.signals.put(("broken", error))


def _until_ended(attempt: Attempt, agent: str, follower: Follower, began: float) -> int | None:
    """Wait for the process's own end, or end it: timeout, stall, stop, a web tool in spite of the fence."""
    settings, entry = attempt.job.settings, attempt.job.choice.entry
    stall = settings.stall if settings.stall is not None else entry.launch.stall_seconds if entry is not None else None
    asked = _ask(attempt)
    attempt.stop.on_ask(asked)
    try:
        while True:
            at = time.monotonic()
            deadline = began + settings.timeout
            quiet_until = max(follower.heard, began) + stall if stall is not None else deadline
            if at >= deadline:
                attempt.cut = (Ending.TIMEOUT, f"the time limit of {settings.timeout:g} s was reached")
            elif at >= quiet_until:
                attempt.cut = (Ending.STALLED, f"no output for {stall:g} s")
            if attempt.cut is not None:
                return _end(attempt, agent)
            with contextlib.suppress(queue.Empty):
                kind, value = attempt.signals.get(timeout=min(deadline, quiet_until) - at)
                if kind == "exit":
                    return int(value)
                if kind == "broken":
                    _end(attempt, agent)
                    raise value
                attempt.cut = value
    finally:
        attempt.stop.forget(asked)


def _ask(attempt: Attempt) -> Any:
    def ask() -> None:
        attempt.signals.put(("cut", (Ending.INTERRUPTED, attempt.stop.reason or "stopped")))

    return ask


def _end(attempt: Attempt, agent: str) -> int | None:
    """The gentle signal, then KILL; returns once nothing in the container can tick any more."""
    signal = attempt.start.stop_signal if attempt.start is not None else "TERM"
    for name, seconds in ((signal, STOP_SECONDS), ("KILL", KILL_SECONDS)):
        attempt.engine.signal(agent, name)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                kind, value = attempt.signals.get(timeout=left)
                if kind == "exit":
                    return int(value)
    msg = f"the agent's container did not end within {KILL_SECONDS:g} s of KILL"
    raise EngineError(msg)


def _started(attempt: Attempt, event: Started) -> None:
    """What the CLI says of itself, held against what was asked for."""
    entry = attempt.job.choice.entry
    attempt.log.info("introduced", session=event.session, model=event.model, version=event.version)
    if entry is None or attempt.job.settings.internet or event.tools is None:
        return
    offered = [tool for tool in event.tools if tool in entry.web_tools]
    if offered:
        reason = f"the CLI offers {', '.join(offered)} although the run has no internet"
        attempt.signals.put(("cut", (Ending.CRASHED, reason)))


def _conclude(attempt: Attempt, decoder: Decoder, follower: Follower, code: int | None, agent: str) -> Facts:
    """Write down how the run ended and what the stream stated."""
    record, cut = attempt.record, attempt.cut
    stderr = (attempt.dir.path / STDERR).read_bytes()[-STDERR_TAIL:]
    kept = session_file(attempt.engine, agent, attempt.job, follower.facts.session or record.session, attempt.start)
    exit_ = Exit(code, stderr, kept, stopped=cut is not None, ended_at=record.times.ended)
    try:
        facts = decoder.conclude(follower.facts, exit_)
        ending = facts.ending or Ending.CRASHED
        reason = facts.reason
    except Exception:
        attempt.log.exception("decoder failed")
        facts, ending, reason = follower.facts, Ending.CRASHED, "the decoder failed; see harness.jsonl"
    if follower.fault is not None:
        attempt.log.error("decoder failed", traceback="".join(traceback.format_exception(follower.fault)))
        ending, reason = Ending.CRASHED, f"the decoder failed on this stream ({follower.fault!r}); see harness.jsonl"
    if cut is not None and not (cut[0] is Ending.STALLED and ending is Ending.FINISHED):
        ending, reason = cut
    record.ending, record.reason, record.exit_code = ending, reason or None, code
    record.error_kind, record.reset_at = facts.error_kind or None, facts.reset_at
    record.resumable = ending.resumable and attempt.job.choice.entry is not None
    record.session, record.model_used = facts.session or record.session, facts.model
    record.cli_version = facts.cli_version or record.cli_version
    record.turns, record.tokens, record.cost_usd = facts.turns, facts.tokens, facts.cost_usd
    record.cost_source = "cli" if facts.cost_usd is not None else None
    record.tool_calls = len(facts.tool_calls) if attempt.job.choice.entry is not None else None
    _check_effort(attempt, facts)
    return facts


def _check_effort(attempt: Attempt, facts: Facts) -> None:
    """A run whose CLI says that it used another effort than it was told is not the run that was asked for."""
    record = attempt.record
    if facts.effort is None or record.effort is None or facts.effort == record.effort:
        return
    record.ending = Ending.CRASHED
    record.reason = f"effort {record.effort} was asked for, the CLI used {facts.effort}"


def _prepare_grading(attempt: Attempt, pool: ThreadPoolExecutor) -> Future[Grading] | None:
    """Create the checker's container while the left files are being collected."""
    record, checker = attempt.record, checker_of(attempt.job, replaces=bool(attempt.before))
    if checker is None or record.ending is None or not record.ending.graded:
        return None
    (attempt.dir.path / "checker").mkdir()
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
        env=own.env,
    )


def _collect(attempt: Attempt, agent: str) -> collect.Left:
    job, record = attempt.job, attempt.record
    limits = collect.Limits(size=job.settings.disk)
    workdir = job.task.settings.workdir
    left = collect.collect(attempt.engine, agent, workdir, attempt.dir.path, attempt.redactor, limits)
    given = attempt.before | collect.given_tree([*launch.given(job), launch.END], workdir)
    lines = list(collect.changes(given, left.tree))
    attempt.dir.write(collect.CHANGES, attempt.redactor.clean(b"".join(line + b"\n" for line in lines)))
    record.changes = len(lines)
    record.left = "complete" if left.complete else "truncated"
    record.left_reason = left.reason or None
    record.secrets_redacted = attempt.redactor.count or None
    attempt.log.info("collected", entries=len(left.tree), changes=len(lines), left=record.left, reason=left.reason)
    return left


def _grade(attempt: Attempt, left: collect.Left, creating: Future[Grading] | None) -> None:
    record = attempt.record
    if creating is None:
        if attempt.job.task.checker is None:
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


def _price(attempt: Attempt, facts: Facts) -> None:
    """A cost from the entry's price table, where the CLI stated none and every kind of token is priced."""
    record, entry = attempt.record, attempt.job.choice.entry
    if record.cost_usd is not None or entry is None or facts.tokens is None:
        return
    cost = prices.cost(entry, record.model_used or record.model or "", facts.tokens)
    if cost is not None:
        record.cost_usd, record.cost_source = cost, "price-table"


def _failed(attempt: Attempt, error: Exception) -> None:
    """Leave a record that says what is known, as far as the disk lets us."""
    attempt.log.error("failed", traceback="".join(traceback.format_exception(error)))
    record = attempt.record
    for removal in attempt.removals:
        with contextlib.suppress(Exception):
            removal.result()
    if record.ending is None:
        record.ending = Ending.CRASHED
    record.verdict = record.verdict or (Verdict.CHECKER_ERROR if record.ending.graded else None)
    said = str(error) if isinstance(error, AssayError | OSError) else repr(error)
    if record.verdict is Verdict.CHECKER_ERROR:
        record.verdict_reason = said
    record.reason = record.reason or said
    with contextlib.suppress(OSError, RuntimeError):
        attempt.dir.commit()
