"""The run directory: with the index beside it the only place that writes in `runs/`.

A directory without run.toml is no run yet. run.toml is replaced whole (temporary file, fsync, rename), its state only
moves forward, and once committed it is never written again. Streams are appended line by line.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from assay.model.errors import ConfigError, UsageError
from assay.model.outcome import Verdict
from assay.model.record import STATES, RunRecord, State, slug
from assay.run.index import append_index
from assay.run.owner import me

RUN_FILE = "run.toml"
LOCK = ".lock"
RESUMED_BY = "resumed-by"

RESERVE = 64 << 10
"""Bytes that a lock file takes up, given back so that a full disk still has room for the last record."""

_PART = re.compile(r"\..+\.[0-9a-f]{8}")


def now() -> datetime:
    """The time, aware, to the millisecond."""
    at = datetime.now(UTC)
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace a file whole or not at all, surviving a power cut."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def make_runs(runs: Path) -> None:
    """Make the folder in which runs are kept, unless it is there; git ignores one that was made here.

    A project need not be Assay's, and what it ignores is not ours to write: so the folder says it of itself.

    Raises:
        OSError: It cannot be written.
    """
    runs.parent.mkdir(parents=True, exist_ok=True)
    try:
        runs.mkdir()
    except FileExistsError:
        if not runs.is_dir():
            raise
    else:
        (runs / ".gitignore").write_bytes(b"*\n")


class RunDir:
    """One run's directory and its record.

    Attributes:
        path: `runs/<id>/`.
        record: What is known so far; written by `save`.
    """

    def __init__(self, path: Path, record: RunRecord) -> None:
        self.path, self.record = path, record
        self._lock: IO[bytes] | None = None

    @classmethod
    def create(cls, runs: Path, record: RunRecord, files: Mapping[str, bytes | str] | None = None) -> RunDir:
        """Make a directory that never existed before, with the first record and some files: all at once.

        Raises:
            OSError: `runs` cannot be written; nothing is left behind.
        """
        make_runs(runs)
        made = cls._new(runs, record)
        try:
            made.reserve()
            for name, data in (files or {}).items():
                made.write(name, data)
            made.save(State.CREATED)
        except BaseException:
            made.discard()
            raise
        return made

    @classmethod
    def _new(cls, runs: Path, record: RunRecord) -> RunDir:
        """Take an id that nobody has."""
        while True:
            record.times.created = at = now()
            record.id = f"{at:%Y%m%dT%H%M%S}Z-{slug(record.task)}-{slug(record.agent)}-{secrets.token_hex(2)}"
            made = cls(runs / record.id, record)
            # Between these two steps `clear_unborn` may think that its maker is dead.
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                made.path.mkdir()
                if made.own() and (made.path / LOCK).exists():
                    return made
            made.release()

    @classmethod
    def take(cls, path: Path) -> RunDir | None:
        """Take over a run that is not committed and that no living process owns; None if there is no such thing.

        Raises:
            ConfigError: Its record cannot be read.
        """
        taken = cls(path, RunRecord(path.name))
        if not taken.own():
            return None
        try:
            # Only now: a record read before the lock was ours may have been its owner's last but one.
            taken.record = read_record(path)
        except ConfigError:
            taken.release()
            raise
        if taken.record.state is State.COMMITTED:
            taken.disown()
            return None
        return taken

    def adopt(self) -> None:
        """Sign a run that was taken over, and clear away what its owner was writing when it died."""
        self.record.owner = me()
        self.reserve()
        self.save()
        for part in self.path.iterdir():
            if _PART.fullmatch(part.name):
                part.unlink()
        cut_torn(self.path / "harness.jsonl")

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """Read a run directory.

        Raises:
            ConfigError: There is no run record, or it cannot be read.
        """
        return cls(path, read_record(path))

    def own(self) -> bool:
        """Become this run's one owner, for the life of this process; False if another process is.

        The lock is the operating system's, so that it ends with its owner, however that ends.
        """
        import fcntl

        file = (self.path / LOCK).open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._lock = file
        return True

    def reserve(self) -> None:
        """Take up some room on the disk, see `make_room`."""
        if self._lock is not None and hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self._lock.fileno(), 0, RESERVE)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                    raise

    def make_room(self) -> None:
        """Give the reserve back: after this there is room for one more record on a disk that is full."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._lock.truncate(0)

    def disown(self) -> None:
        """Let go of a run that is over."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                (self.path / LOCK).unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Let go of a run that somebody else may take."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def discard(self) -> None:
        """Remove a run directory in which nothing has happened."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.release()

    def claim_resume(self, by: str) -> None:
        """Mark this run as resumed by another, once and for all; again by the same is fine.

        Raises:
            UsageError: It was resumed already.
        """
        part = self.path / f".{RESUMED_BY}.{secrets.token_hex(4)}"
        part.write_text(f"{by}\n", "utf-8")
        try:
            # Whole or not at all, and only one of two: neither `open("x")` nor a rename is both.
            os.link(part, self.path / RESUMED_BY)
        except FileExistsError:
            if (known := resumed_by(self.path)) != by:
                msg = f"{self.record.id} was resumed already, by {known}; resume that one"
                raise UsageError(msg) from None
        finally:
            part.unlink()

    def save(self, state: State | None = None) -> None:
        """Write the record; with a state, move it forward.

        Raises:
            RuntimeError: The record is committed already, or the state would move back: a bug of ours.
        """
        import tomli_w

        on_disk = self.record.state
        if state is not None:
            if STATES.index(state) < STATES.index(on_disk) or on_disk is State.COMMITTED:
                msg = f"run {self.record.id} is {on_disk}, it cannot become {state}"
                raise RuntimeError(msg)
            self.record.state = state
        try:
            write_atomic(self.path / RUN_FILE, tomli_w.dumps(self.record.to_toml()).encode())
        except BaseException:
            self.record.state = on_disk
            raise

    def commit(self) -> None:
        """The last write of the record, and its line in the index."""
        self.record.times.committed = now()
        self.save(State.COMMITTED)
        append_index(self.path.parent, self.record)
        self.disown()

    def write(self, name: str, data: bytes | str) -> None:
        """Write one kept file whole."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)

    def append(self, name: str) -> IO[bytes]:
        """Open one kept stream for appending; unbuffered, so that each write is on its way to disk."""
        return (self.path / name).open("ab", buffering=0)


def read_record(path: Path) -> RunRecord:
    """The record of a run directory.

    Raises:
        ConfigError: Missing, unreadable or not a record.
    """
    file = path / RUN_FILE
    try:
        return RunRecord.from_toml(tomllib.loads(file.read_text("utf-8")), file)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(file, "", f"cannot be read as a run record ({error})") from None


def resumed_by(path: Path) -> str | None:
    """Id of the run that resumed this one, None if none did."""
    try:
        return (path / RESUMED_BY).read_text("utf-8").strip() or None
    except OSError:
        return None


def grades(path: Path) -> list[dict[str, Any]]:
    """Every grading of a run, oldest first: its result.toml and, as `number`, its ordinal."""
    found = []
    for number in sorted(int(entry.name) for entry in _folders(path / "checker") if entry.name.isdigit()):
        try:
            result = tomllib.loads((path / "checker" / str(number) / "result.toml").read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            continue  # a grading that was broken off has no result
        found.append({"number": number, **result})
    return found


def _folders(path: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            yield from entries
    except FileNotFoundError:
        return


def latest_verdict(record: RunRecord, path: Path) -> RunRecord:
    """The record with the verdict of its latest grading; run.toml keeps the first for ever."""
    known = grades(path)
    if not known:
        return record
    last = known[-1]
    return replace(record, verdict=Verdict(last["verdict"]), verdict_reason=last.get("reason"), score=last.get("score"))


def cut_torn(path: Path) -> int:
    """Cut a torn last line off a kept stream; the size of what is left."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        size = at = file.seek(0, 2)
        while at > 0:
            step = min(at, 1 << 20)
            file.seek(at - step)
            newline = file.read(step).rfind(b"\n")
            if newline >= 0:
                at = at - step + newline + 1
                break
            at -= step
        if at != size:
            file.truncate(at)
        return at
