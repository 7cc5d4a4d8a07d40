"""The agent's container: created, started, followed to its end, stopped completely, and what that end means."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import traceback
from collections.abc import Callable

from assay import decoders
from assay.model.errors import EngineError
from assay.model.events import Decoder, Event, Exit, Facts, Started
from assay.model.outcome import Ending
from assay.model.record import RunRecord, State
from assay.run import collect, launch
from assay.run.attempt import Attempt
from assay.run.follow import STDERR, Follower
from assay.run.mend import mend
from assay.run.place import Place
from assay.run.record import now
from assay.run.session import session_file
from assay.run.snapshot import restore_volumes
from assay.sandbox.engine import Spec
from assay.sandbox.seccomp import profile
from assay.terminal.transcript import Transcript

STOP_SECONDS = 2.0
"""From the gentle signal to KILL."""
KILL_SECONDS = 10.0
"""From KILL to giving the engine up."""
LOG_SECONDS = 60.0
"""For the rest of the output, once the process has ended."""
STDERR_TAIL = 1 << 20


def create(attempt: Attempt, around: Place) -> str:
    """Create the container and put everything in it but the credential; its id."""
    job, engine, settings = attempt.job, attempt.engine, attempt.job.settings
    start = launch.plan(job, ca_pem=around.ca_pem, offline=not settings.internet)
    earlier = job.earlier
    spec = Spec(
        image=(earlier.record.snapshot if earlier is not None else None) or job.images.agent,
        argv=start.argv,
        name=attempt.name("agent"),
        labels={**attempt.labels, "assay.role": "agent"},
        user=start.user,
        workdir=job.task.settings.workdir,
        env=start.env,
        network=around.network,
        caps=start.caps,
        stdin=start.secret_input,
        cpus=settings.cpus,
        memory=settings.memory,
        pids=settings.pids,
        seccomp=profile(),
    )
    container = engine.create(spec)
    try:
        attempt.before = _before(attempt, container)
        engine.put(container, b"".join([*launch.members(start), *launch.placed(job), launch.END]))
        if earlier is not None and earlier.kept:
            restore_volumes(engine, container, earlier.path, job.images.volumes)
            mend(attempt, container, start)
    except BaseException:
        engine.remove(container)
        raise
    attempt.start = start
    return container


def _before(attempt: Attempt, container: str) -> collect.Tree:
    """What the task's own image holds in the working directory; the default environment has nothing there."""
    job, engine = attempt.job, attempt.engine
    if not job.images.own:
        return {}
    if job.earlier is None or not job.earlier.record.snapshot:
        return collect.tree_of(engine, container, job.task.settings.workdir)
    labels = {**attempt.labels, "assay.role": "before"}
    bare = engine.create(Spec(job.images.task, ["/"], attempt.name("before"), labels))
    try:
        return collect.tree_of(engine, bare, job.task.settings.workdir)
    finally:
        engine.remove(bare)


def follow(attempt: Attempt, container: str) -> Facts:
    """Start the agent, follow it to its end, stop it completely; record how it ended."""
    record, start = attempt.record, attempt.start
    assert start is not None  # noqa: S101 - set when the container was created
    record.session = start.session
    if attempt.stop.reason is not None:
        record.ending, record.reason = Ending.INTERRUPTED, f"{attempt.stop.reason}, before the agent was started"
        record.resumable, record.session = attempt.job.choice.entry is not None, None
        return Facts()
    record.times.started = now()
    attempt.dir.save(State.RUNNING)
    began = time.monotonic()
    _start(attempt, container, start)
    return see_through(attempt, container, began)


def see_through(attempt: Attempt, container: str, began: float) -> Facts:
    """Follow a started agent to its end. What an earlier harness kept of its output is taken up, not kept twice.

    Args:
        attempt: The run.
        container: The agent's.
        began: When it was started, on the monotonic clock.
    """
    record = attempt.record
    decoder = decoders.get(record.decoder or "text")
    transcript = Transcript(attempt.dir.path / "transcript.txt")

    def on_event(event: Event) -> None:
        transcript.add(event)
        attempt.watch.event(record, event)
        if isinstance(event, Started):
            _started(attempt, event)

    follower = Follower(
        attempt.engine,
        container,
        attempt.dir.path,
        decoder,
        attempt.redactor,
        on_event,
        lambda error: attempt.signals.put(("broken", error)),
    )
    follower.start()
    threading.Thread(target=_wait, args=(attempt, container), name=f"wait {container[:12]}", daemon=True).start()
    code = _until_ended(attempt, container, follower, began)
    record.times.seconds = round(time.monotonic() - began, 3)
    record.times.ended = now()
    follower.process_ended()
    follower.join(LOG_SECONDS)
    transcript.close()
    facts = _conclude(attempt, decoder, follower, code, container)
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


def _ask(attempt: Attempt) -> Callable[[], None]:
    def ask() -> None:
        attempt.cut_short(Ending.INTERRUPTED, attempt.stop.reason or "stopped")

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
        attempt.cut_short(Ending.CRASHED, reason)


def _conclude(attempt: Attempt, decoder: Decoder, follower: Follower, code: int | None, container: str) -> Facts:
    """Write down how the run ended and what the stream stated."""
    record, cut, earlier = attempt.record, attempt.cut, attempt.job.earlier
    stderr = (attempt.dir.path / STDERR).read_bytes()[-STDERR_TAIL:]
    kept = session_file(attempt.engine, container, attempt.job, follower.facts.session or record.session, attempt.start)
    resumed = earlier is not None and earlier.kept
    exit_ = Exit(code, stderr, kept, stopped=cut is not None, resumed=resumed, ended_at=record.times.ended)
    try:
        facts = decoder.conclude(follower.facts, exit_)
        ending, reason = facts.ending or Ending.CRASHED, facts.reason
    except Exception:
        attempt.log.exception("decoder failed")
        facts, ending, reason = follower.facts, Ending.CRASHED, "the decoder failed; see harness.jsonl"
    if follower.fault is not None:
        attempt.log.error("decoder failed", traceback="".join(traceback.format_exception(follower.fault)))
        ending, reason = Ending.CRASHED, f"the decoder failed on this stream ({follower.fault!r}); see harness.jsonl"
    # A CLI that said its last word and then did not end has finished all the same.
    if cut is not None and not (cut[0] is Ending.STALLED and ending is Ending.FINISHED):
        ending, reason = cut
    record.ending, record.reason, record.exit_code = ending, reason or None, code
    _write_facts(record, facts, vendor=attempt.job.choice.entry is not None)
    _check_promises(attempt, facts)
    _settle_resumable(attempt, session_kept=kept is not None)
    return facts


def _write_facts(record: RunRecord, facts: Facts, *, vendor: bool) -> None:
    record.error_kind, record.reset_at = facts.error_kind or None, facts.reset_at
    record.session, record.model_used = facts.session or record.session, facts.model
    record.cli_version = facts.cli_version or record.cli_version
    record.turns, record.tokens, record.cost_usd = facts.turns, facts.tokens, facts.cost_usd
    record.cost_source = "cli" if facts.cost_usd is not None else None
    record.tool_calls = len(facts.tool_calls) if vendor else None


def _settle_resumable(attempt: Attempt, *, session_kept: bool) -> None:
    """Whether this run can be resumed, and whether there is a session of the CLI's to go on with."""
    record, entry = attempt.record, attempt.job.choice.entry
    if record.ending is None or entry is None or not record.ending.resumable:
        record.resumable = False
        return
    begun = session_kept or (entry.session_file is None and record.session is not None)
    record.resumable = begun or record.ending is not Ending.CRASHED
    if not begun:
        record.session = None


def _check_promises(attempt: Attempt, facts: Facts) -> None:
    """A run that was not the one asked for measures nothing: another effort, another session."""
    record, earlier = attempt.record, attempt.job.earlier
    if facts.effort is not None and record.effort is not None and facts.effort != record.effort:
        record.ending = Ending.CRASHED
        record.reason = f"effort {record.effort} was asked for, the CLI used {facts.effort}"
    if earlier is not None and earlier.kept and facts.session not in (None, earlier.record.session):
        record.ending = Ending.CRASHED
        record.reason = f"the CLI began a new session {facts.session} instead of going on with {earlier.record.session}"
