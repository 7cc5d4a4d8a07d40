"""What is kept of a run when the disk or the engine fails under it."""

from __future__ import annotations

import contextlib
import errno
import shutil
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from assay import decoders
from assay.model.errors import AssayError, EngineError, NotKept
from assay.model.events import Exit, Facts
from assay.model.outcome import Ending, Verdict
from assay.run import agent, collect, snapshot
from assay.run.attempt import Attempt
from assay.run.follow import EVENTS
from assay.run.no_room import not_graded
from assay.run.session import session_begun, session_file

MEASURE_SECONDS = 3.0
"""For telling how much room is missing."""
SLACK = 256 << 10
"""Bytes of what else is kept of a run."""


@contextlib.contextmanager
def salvaged(attempt: Attempt, container: str) -> Iterator[None]:
    """If the disk or the engine fails under a run, keep what its agent did, as far as that goes, and then fail.

    Raises:
        NotKept: The agent has ended, and the disk has no room for what it left: its container stays, stopped, and
            `assay recover` keeps and grades what it holds.
    """
    try:
        yield
    except (AssayError, OSError) as error:
        if isinstance(error, OSError) and error.errno in collect.FATAL and attempt.record.ending is not None:
            raise _to_be_kept(attempt, container, error) from error
        if attempt.record.times.started is not None:
            with contextlib.suppress(AssayError, OSError):
                _salvage(attempt, container, error)
        raise


def _to_be_kept(attempt: Attempt, container: str, error: OSError) -> NotKept:
    """Make what room there is, and leave the container to a later `assay recover`."""
    attempt.waiting = container
    collect.clear(attempt.dir.path)
    try:
        amount, whole = _amount(attempt, container)
    except AssayError:
        amount, whole = 0, False
    return NotKept(nothing_lost(attempt.dir.path.parent, error, amount, whole=whole))


def _amount(attempt: Attempt, container: str) -> tuple[int, bool]:
    """Bytes that there are to keep, and whether that is all of them: it is looked at for a short time only."""
    _, stream = attempt.engine.get(container, attempt.job.folder)
    amount, until = 0, time.monotonic() + MEASURE_SECONDS
    with stream:
        for chunk in stream:
            amount += len(chunk)
            if amount > attempt.job.settings.disk or time.monotonic() > until:
                return amount, False
    return amount, True


def nothing_lost(runs: Path, error: OSError, amount: int = 0, *, whole: bool = True) -> str:
    """What to tell of a disk that could not be written, in one line.

    Args:
        runs: The folder on that disk.
        error: What the disk said.
        amount: Bytes that are to be kept; 0 if that is not known.
        whole: Whether there are no more of them.
    """
    said = error.strerror or str(error)
    with contextlib.suppress(OSError):
        # They are kept twice: packed, which may not make them smaller, and unpacked for reading.
        missing = 2 * amount + SLACK - shutil.disk_usage(runs).free
        if error.errno == errno.ENOSPC and amount and missing > 0:
            said += f", {'up to ' if whole else 'more than '}{missing} bytes are missing"
    remedy = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make it writable"
    return f"{said}: {remedy} and run assay recover, which keeps what the agent left ({runs})"


def _salvage(attempt: Attempt, container: str, error: Exception) -> None:
    record, engine = attempt.record, attempt.engine
    engine.signal(container, "KILL")
    engine.wait(container, agent.KILL_SECONDS)
    if record.ending is Ending.FINISHED:
        record.ending = Ending.CRASHED
        record.reason = f"the agent had finished, but its files could not be kept: {error}"
    if record.ending is None or record.ending.resumable:
        record.ending, record.reason = record.ending or Ending.CRASHED, record.reason or str(error)
        facts = stated(attempt)
        record.session, record.tokens = record.session or facts.session, record.tokens or facts.tokens
        if _has_session(attempt, container):
            record.resumable = True
            snapshot.keep(attempt, container)


def _has_session(attempt: Attempt, container: str) -> bool:
    job, engine, session = attempt.job, attempt.engine, attempt.record.session
    return session_begun(engine, container, job, session, session_file(engine, container, job, session, attempt.start))


def failed(attempt: Attempt, error: Exception) -> None:
    """Leave a record that says what is known and no container, as far as the disk and the engine let us."""
    attempt.log.error("failed", traceback="".join(traceback.format_exception(error)))
    record = attempt.record
    for removal in attempt.removals:
        with contextlib.suppress(Exception):
            removal.result()
    gone = not _swept(attempt)
    said = str(error) if isinstance(error, AssayError | OSError) else repr(error)
    if attempt.waiting:
        record.verdict, record.verdict_reason = None, said
        attempt.dir.make_room()
        with contextlib.suppress(OSError):
            attempt.dir.save()
        return
    if record.ending is None:
        record.ending = Ending.CRASHED
    if record.times.started is None and attempt.job.earlier is not None:
        attempt.not_begun()
    if not record.ending.graded:
        record.reason = record.reason or said
    elif record.verdict is None:
        again = attempt.job.task.checker is not None and record.left == "complete"
        record.verdict, record.verdict_reason = Verdict.CHECKER_ERROR, not_graded(record.id, error) if again else said
    attempt.dir.make_room()
    with contextlib.suppress(OSError, RuntimeError):
        if gone and record.times.started is not None:
            # The agent's container may outlive the engine's absence, and its work with it: left for `assay recover`.
            attempt.dir.save()
        else:
            attempt.dir.commit()


def stated(attempt: Attempt) -> Facts:
    """What the stream states as far as it was kept."""
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


def _swept(attempt: Attempt) -> bool:
    """Remove whatever of this run is on the engine and not to be kept; whether the engine could be asked."""
    try:
        for container in attempt.engine.containers({"assay.run": attempt.record.id}):
            if container["Id"] != attempt.waiting:
                attempt.engine.remove(container["Id"])
    except (EngineError, OSError):
        return False
    return True
