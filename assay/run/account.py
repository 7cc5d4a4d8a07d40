"""A credential file that the CLI may renew in its container: used by one run at a time, and given back with care.

A refresh token can be spent once. A run whose entry says `copy-back` has the user's file to itself from the moment it
is read until a renewal has been written back; the lock's file also names the run, so that one that was killed in
between is finished before another takes its place.

The agent controls the file in the container. It goes back only if it is a regular file of the same shape and the same
account, with newer tokens that are not empty, while the user's own file is still the one that was copied in.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

from assay.model.errors import AssayError, EngineError, UsageError
from assay.model.record import State
from assay.run.attempt import Attempt
from assay.run.launch import HOME
from assay.run.record import read_record, write_atomic
from assay.run.redact import clean_file
from assay.sandbox import archive, credential_file, credentials
from assay.sandbox.archive import TarReader

LOOK_SECONDS = 0.2
"""Between two looks at a lock that another run holds."""

KEPT_BEFORE = ("events.jsonl", "stderr.log", "transcript.txt", "harness.jsonl")
"""Files of the run directory that were written before a renewed token could be known."""


class Sole:
    """The user's credential file while it is this run's alone.

    Attributes:
        given: Digest of what was copied into the container.
    """

    def __init__(self, file: IO[bytes], given: str) -> None:
        self._file, self.given = file, given

    def free(self) -> None:
        """Let the next run have it."""
        with contextlib.suppress(OSError, ValueError):
            self._file.truncate(0)
            self._file.close()


@contextlib.contextmanager
def alone(attempt: Attempt) -> Iterator[None]:
    """Have the credential of this run to itself, as far as it is one that must not be shared; read it again then.

    A run that is stopped while it waits goes on without: it is not started any more.

    Raises:
        UsageError: An earlier run was killed while it had it, or the lock cannot be made.
        CredentialMissing: The file no longer signs in to anything.
    """
    path = attempt.job.held.shared
    sole = _take(attempt, path) if path is not None else None
    attempt.sole = sole
    try:
        yield
    finally:
        if sole is not None:
            sole.free()


def settle(attempt: Attempt, container: str) -> None:
    """Learn the secrets of renewed files, so that they are kept nowhere, and copy a file back where that is right."""
    held = attempt.job.held
    learned: list[str] = []
    for path, given in held.files.items():
        found, problem = read_file(attempt, container, path)
        if found == given:
            continue
        if found is not None:
            learned += credential_file.renewed_values(found)
        shared = held.shared
        if shared is not None:
            problem = problem or _give_back(attempt, shared, given, found or b"")
            said = f"not copied back: {problem}" if problem else "copied back"
            attempt.say(f"{path} was changed in the container and {said}")
    attempt.redactor.know(learned)
    for name in KEPT_BEFORE if learned else ("transcript.txt",):
        # What is split over several events of a stream is whole where a person reads it.
        clean_file(attempt.dir.path / name, attempt.redactor)
    if attempt.sole is not None:
        attempt.sole.free()


def _give_back(attempt: Attempt, path: Path, given: bytes, found: bytes) -> str | None:
    """Write a renewed file where the user's own is; why not, if not."""
    source = attempt.job.held.source
    problem = credential_file.refusal(given, found, source.account if source is not None else None)
    if problem is not None:
        return problem
    if attempt.sole is None:
        return "this run does not have the sign-in to itself"
    try:
        if _digest(path.read_bytes()) != attempt.sole.given:
            return "the file on this machine has changed meanwhile"
        write_atomic(path.resolve(), found, mode=0o600)
    except OSError as error:
        return f"the file on this machine: {error.strerror}"
    return None


def read_file(attempt: Attempt, container: str, path: str) -> tuple[bytes | None, str | None]:
    """What the container has at a path (`~/...`), and why that is nothing to be taken."""
    try:
        stat, stream = attempt.engine.get(container, path.replace("~", HOME, 1))
        with stream:
            if stat.link:
                return None, "it is a link"
            reader = TarReader(stream)
            for member in reader:
                if member.type != archive.REGULAR:
                    return None, "it is no regular file"
                if member.size > credential_file.LONGEST:
                    return None, "it is too long"
                return b"".join(reader.content()), None
    except EngineError:
        pass
    return None, "it is gone"


# -- the lock -------------------------------------------------------------------------------------------------------


def _take(attempt: Attempt, path: Path) -> Sole | None:
    """The lock, once no other run has it; None if the run was stopped before."""
    file = _open(attempt.job.held.home or Path.home(), path)
    try:
        if not _wait(attempt, file, path):
            file.close()
            return None
        given = _last_user(file, attempt.dir.path)
        if given is None:
            fresh = credentials.again(attempt.job.held)
            attempt.job = replace(attempt.job, held=fresh)
            attempt.redactor.know(fresh.secrets)
            given = _digest(b"".join(fresh.files.values()))
            file.truncate(0)
            file.seek(0)
            file.write(json.dumps({"run": str(attempt.dir.path), "given": given}).encode())
            file.flush()
    except BaseException:
        file.close()
        raise
    return Sole(file, given)


def _open(home: Path, path: Path) -> IO[bytes]:
    base = os.environ.get("XDG_STATE_HOME")
    folder = (Path(base) if base else home / ".local" / "state") / "assay" / "accounts"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = os.open(folder / f"{_digest(os.fsencode(path.resolve()))[:16]}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        msg = f"{folder}: {error.strerror}: without a lock two runs could spend one refresh token"
        raise UsageError(msg) from None
    return os.fdopen(number, "r+b")


def _wait(attempt: Attempt, file: IO[bytes], path: Path) -> bool:
    """Block until the lock is ours; False if the run was stopped."""
    stopped = threading.Event()
    attempt.stop.on_ask(stopped.set)
    try:
        told = False
        while not stopped.is_set():
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    attempt.say(f"waits for another run: {path} can be used by one at a time")
                told = True
                stopped.wait(LOOK_SECONDS)
            else:
                return True
        return False
    finally:
        attempt.stop.forget(stopped.set)


def _last_user(file: IO[bytes], run: Path) -> str | None:
    """The digest that this very run copied in before it was taken over; None for a new run.

    Raises:
        UsageError: Another run was killed while its agent had the file.
    """
    try:
        last = json.loads(file.read() or b"{}")
        name, given = Path(last["run"]), str(last["given"])
    except (ValueError, KeyError, TypeError):
        return None
    if name == run:
        return given
    try:
        unfinished = read_record(name).state is not State.COMMITTED
    except (AssayError, OSError):
        return None
    if unfinished:
        msg = (
            f"{name.name} was killed while it used the same sign-in, which it may have renewed: run assay recover first"
        )
        raise UsageError(msg)
    return None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
