"""The agent's container: created, started, followed to its end, stopped completely, and what that end means."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from assay import decoders
from assay.model.errors import EngineError
from assay.model.events import Event, Note
from assay.model.outcome import RUNG_PASSED, Ending
from assay.model.record import State
from assay.run import ask, collect, launch, limits, promises
from assay.run.attempt import Attempt
from assay.run.conclude import conclude
from assay.run.follow import Follower
from assay.run.mend import mend
from assay.run.place import Place
from assay.run.record import now
from assay.run.renewal import Renewals
from assay.run.snapshot import restore_volumes
from assay.sandbox.seccomp import profile
from assay.sandbox.spec import Spec
from assay.terminal.transcript import Transcript

STOP_SECONDS = 1.5
"""From the gentle signal to KILL; the CLIs need 0.1 to 0.9 s."""
KILL_SECONDS = 10.0
"""From KILL to giving the engine up."""
LOG_SECONDS = 60.0
"""For the rest of the output, once the process has ended."""
MOST_OUTPUT = 64 << 20
"""Bytes of output that are kept of one run; real streams stay below a sixth of it."""
MOST_EVENTS = 100_000
"""Events of one run that are shown."""


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
        storage=settings.disk,
        seccomp=profile(),
        volumes=job.ask.mounts if job.ask is not None else {},
    )
    container = engine.create(spec)
    try:
        attempt.before = before(attempt, container)
        engine.put(container, b"".join([*launch.members(start), *launch.placed(job), launch.END]))
        if earlier is not None and earlier.kept:
            restore_volumes(engine, container, earlier.path, job.images.volumes)
            mend(attempt, container, start)
        if job.ask is not None:
            ask.verify(engine, container, job.ask)
    except BaseException:
        engine.remove(container)
        raise
    attempt.start = start
    return container


def before(attempt: Attempt, container: str = "") -> collect.Tree:
    """What the task's own image holds in the working directory; the default environment has nothing there.

    Args:
        attempt: The run.
        container: Made of that image and as yet untouched, if there is one.
    """
    job, engine = attempt.job, attempt.engine
    if not job.images.own:
        return {}
    if container and (job.earlier is None or not job.earlier.record.snapshot):
        return collect.tree_of(engine, container, job.task.settings.workdir)
    labels = {**attempt.labels, "assay.role": "before"}
    bare = engine.create(Spec(job.images.task, ["/"], attempt.name("before"), labels))
    try:
        return collect.tree_of(engine, bare, job.task.settings.workdir)
    finally:
        engine.remove(bare)


def called_off(attempt: Attempt) -> bool:
    """Whether the run was stopped before its agent was started; then nothing of it is lost."""
    record = attempt.record
    if attempt.stop.reason is None:
        return False
    record.ending, record.reason = Ending.INTERRUPTED, attempt.stop.reason
    if record.reason != RUNG_PASSED:
        record.reason += ", before the agent was started"
    attempt.not_begun()
    return True


def follow(attempt: Attempt, container: str) -> None:
    """Start the agent, follow it to its end, stop it completely; record how it ended."""
    record, start = attempt.record, attempt.start
    assert start is not None  # noqa: S101 - set when the container was created
    if called_off(attempt):
        return
    record.session = start.session
    record.times.started = now()
    attempt.dir.save(State.RUNNING)
    began = time.monotonic()
    _start(attempt, container, start)
    see_through(attempt, container, began)


@dataclass(frozen=True, slots=True)
class Over:
    """How a process ended while nobody looked on: its exit code, after how many seconds, and when."""

    code: int
    seconds: float
    at: datetime


def see_through(attempt: Attempt, container: str, began: float, over: Over | None = None) -> None:
    """Follow a started agent to its end. What an earlier harness kept of its output is taken up, not kept twice.

    Args:
        attempt: The run.
        container: The agent's.
        began: When it was started, on the monotonic clock.
        over: If it has ended already.
    """
    record, limit = attempt.record, attempt.job.settings.timeout
    decoder = decoders.get(record.decoder or "text")
    transcript = Transcript(attempt.dir.path / "transcript.txt")
    most = min(MOST_OUTPUT, attempt.job.settings.disk)
    shown, no_web = itertools.count(), promises.NoWeb(attempt)

    def full(reason: str) -> None:
        attempt.cut_short(Ending.GAVE_UP, reason)

    def on_event(event: Event) -> None:
        no_web.event(event)
        number = next(shown)
        if number == MOST_EVENTS:
            event = Note("from here on the events are kept, and no longer shown", "warning")
        if number <= MOST_EVENTS:
            transcript.add(event)
            attempt.watch.event(record, event)

    follower = Follower(
        attempt.engine,
        container,
        attempt.dir.path,
        decoder,
        attempt.redactor,
        Renewals(attempt, container).look,
        on_event,
        lambda error: attempt.signals.put(("broken", error)),
        most,
        lambda: full(f"disk limit: it printed more than {most >> 20} MiB"),
    )
    follower.start()
    try:
        if over is None:
            threading.Thread(
                target=_wait, args=(attempt, container), name=f"wait {container[:12]}", daemon=True
            ).start()
            with limits.on_disk(attempt.engine, container, attempt.job.settings.disk, full):
                code = _until_ended(attempt, container, follower, began)
            over = Over(code, round(time.monotonic() - began, 3), now())
        elif over.seconds > limit:
            attempt.cut = (Ending.TIMEOUT, f"the time limit of {limit:g} s was reached while nobody looked on")
        record.times.seconds, record.times.ended = over.seconds, over.at
    finally:
        follower.process_ended()
    follower.join(LOG_SECONDS)
    if follower.is_alive():
        # What was left is worth more than the rest of what was said.
        follower.give_up()
        follower.join(KILL_SECONDS)
        attempt.say(f"events.jsonl is incomplete: the engine did not hand out all output within {LOG_SECONDS:g} s")
    transcript.close()
    if follower.failure is not None:
        raise follower.failure
    conclude(attempt, decoder, follower, over.code, container)
    attempt.log.info(
        "ended", ending=str(record.ending), reason=record.reason, code=over.code, seconds=record.times.seconds
    )


def _start(attempt: Attempt, agent: str, start: launch.Start) -> None:
    """Start the container; the credential goes to the launcher's standard input, attached before."""
    if not start.secret_input:
        attempt.engine.start(agent)
        return
    attempt.engine.feed(agent, (attempt.handed or attempt.job.held).header(launch.HOME))


def _wait(attempt: Attempt, agent: str) -> None:
    try:
        attempt.signals.put(("exit", attempt.engine.wait(agent)))
    except EngineError as error:
        attempt.signals.put(("broken", error))


def _until_ended(attempt: Attempt, agent: str, follower: Follower, began: float) -> int:
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
                    with contextlib.suppress(EngineError, OSError):
                        _end(attempt, agent)
                    raise value
                attempt.cut = value
    finally:
        attempt.stop.forget(asked)


def _ask(attempt: Attempt) -> Callable[[], None]:
    def ask() -> None:
        attempt.cut_short(Ending.INTERRUPTED, attempt.stop.reason or "stopped")

    return ask


def _end(attempt: Attempt, agent: str) -> int:
    """The gentle signal, then KILL; returns once nothing in the container can tick any more."""
    signal = attempt.start.stop_signal if attempt.start is not None else "TERM"
    if not attempt.stop.hard and (code := _signalled(attempt, agent, signal, STOP_SECONDS)) is not None:
        return code
    if (code := _signalled(attempt, agent, "KILL", KILL_SECONDS)) is not None:
        return code
    msg = f"the agent's container did not end within {KILL_SECONDS:g} s of KILL"
    raise EngineError(msg)


def _signalled(attempt: Attempt, agent: str, signal: str, seconds: float) -> int | None:
    """Send a signal; the exit code, or None if it did not end in time or the user will not wait so long."""
    attempt.engine.signal(agent, signal)
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        with contextlib.suppress(queue.Empty):
            kind, value = attempt.signals.get(timeout=left)
            if kind == "exit":
                return int(value)
            if kind == "cut" and attempt.stop.hard and signal != "KILL":
                return None
    return None
