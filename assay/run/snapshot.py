"""An unfinished run kept as an image, without its credentials, so that it can be resumed.

What the agent changed in its container is committed, the CLI's session included. The container's configuration never
held a secret; credential files are overwritten before, and a secret that the agent wrote somewhere itself is struck out
there. Volumes are no part of an image: they are kept beside it.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from assay.model.errors import EngineError
from assay.model.outcome import RUNG_PASSED
from assay.run.attempt import Attempt
from assay.run.chain import chain
from assay.run.clean_tar import clean_tar
from assay.run.launch import HOME, UID
from assay.run.redact import Stream
from assay.sandbox import archive
from assay.sandbox.archive import Member, Put, TarReader
from assay.sandbox.engine import Engine
from assay.sandbox.spec import NotThere

REPOSITORY = "assay-snapshot"
LABEL = "assay.snapshot"

MOST_READS = 64
"""Reads from the container in which the agent's changes are looked through."""

LARGEST_STRUCK = 256 << 20
"""A file is held in memory to be cleaned; a larger one that holds a secret is emptied."""


def keep(attempt: Attempt, container: str) -> None:
    """Keep an unfinished run so that it can be resumed, and any ask so that it can be followed up.

    If that fails, a resume begins anew.
    """
    record = attempt.record
    goes_on = record.resumable or (attempt.job.ask is not None and record.times.started is not None)
    if record.reason == RUNG_PASSED:
        record.resumable = False
    elif goes_on and record.session is not None and record.snapshot is None and not attempt.stop.hard:
        try:
            take(attempt, container)
        except EngineError as error:
            attempt.say(f"no snapshot could be taken: {error}")
    earlier = attempt.job.earlier
    if goes_on and record.snapshot is None and earlier is not None and earlier.kept:
        # From where this run itself began rather than anew.
        record.session, record.snapshot = earlier.record.session, earlier.record.snapshot


def forget_earlier(attempt: Attempt) -> None:
    """Remove the snapshots of the runs that this one goes on with, unless a resume would still need one of them."""
    record = attempt.record
    if record.resumed_from is None or (record.resumable and not record.snapshot):
        return
    for before in reversed(chain(attempt.dir.path.parent, record)[:-1]):
        if before.snapshot not in (None, record.snapshot):
            try:
                # One that a later snapshot was made of stays until that one goes.
                attempt.engine.remove_image(before.snapshot)
            except EngineError as error:
                attempt.say(f"a snapshot was left behind, `assay clean` removes it: {error}")


def take(attempt: Attempt, container: str) -> None:
    """Commit the stopped container and write the image's id into the record.

    Raises:
        EngineError: The engine could not; the run is kept all the same, but begins anew when resumed.
        OSError: The run directory cannot be written.
    """
    record, engine = attempt.record, attempt.engine
    scrub(attempt, container)
    _strike_out(attempt, container)
    _keep_volumes(attempt, container)
    # An earlier one of this run, from just before its harness was killed, would lose its name and never be found.
    engine.remove_image(tag(record.id))
    record.snapshot = engine.commit(container, REPOSITORY, record.id, {**attempt.labels, LABEL: record.id})
    attempt.log.info("snapshot", image=record.snapshot)


def tag(run_id: str) -> str:
    """What the snapshot of a run is called on the engine."""
    return f"{REPOSITORY}:{run_id}"


def scrub(attempt: Attempt, container: str) -> None:
    """Overwrite every credential file with an empty one, in the stopped container."""
    uid = 0 if attempt.job.task.settings.user == "root" else UID
    empty = [Put(path.replace("~", HOME, 1), b"", 0o600, uid) for path in attempt.job.held.files]
    if empty:
        attempt.engine.put(container, archive.pack(empty))


def _strike_out(attempt: Attempt, container: str) -> None:
    """Overwrite known secrets in whatever the agent or its CLI wrote: a model may well print its environment."""
    if not attempt.redactor.longest:
        return
    changed = {str(change["Path"]) for change in attempt.engine.changes(container) if change["Kind"] != 2}
    if attempt.job.ask is not None:
        # No part of the snapshot, though the place where it is mounted counts as a change.
        changed -= set(attempt.job.ask.mounts)
    if any(attempt.redactor.finds(os.fsencode(path)) for path in changed):
        msg = "a file's name holds the credential, and no name can be struck out"
        raise EngineError(msg)
    struck: dict[str, Put] = {}
    links: list[tuple[str, str]] = []
    for root in _roots(changed):
        try:
            stat, stream = attempt.engine.get(container, root)
        except NotThere:
            continue
        with stream:
            reader, folder = TarReader(stream), posixpath.dirname(root)
            for member in reader:
                if stat.link and member.type != archive.SYMLINK:
                    break  # what it leads to has a path of its own
                path = posixpath.join(folder, os.fsdecode(member.name)).rstrip("/")
                if member.type == archive.HARD:
                    links.append((path, posixpath.join(folder, os.fsdecode(member.link))))
                elif path in changed and (put := _struck(attempt, reader, member, path)) is not None:
                    struck[path] = put
    # What replaces a file leaves its other names as they were.
    struck |= {path: replace(struck[target], path=path) for path, target in links if target in struck}
    if struck:
        attempt.engine.put(container, archive.pack(list(struck.values())))
        attempt.log.info("secrets struck out of the snapshot", files=list(struck))


def _roots(changed: set[str]) -> list[str]:
    """Few paths below which all changes lie: the highest ones that are not a mere way to others."""
    leaves = {path for path in changed if path not in {posixpath.dirname(p) for p in changed}}
    while len(leaves) > MOST_READS:
        deepest = max(path.count("/") for path in leaves)
        leaves = {posixpath.dirname(path) if path.count("/") == deepest else path for path in leaves}
        leaves = {path for path in leaves if not _below(path, leaves)}
    return sorted(leaves)


def _below(path: str, others: set[str]) -> bool:
    while (path := posixpath.dirname(path)) != "/":
        if path in others:
            return True
    return False


def _struck(attempt: Attempt, reader: TarReader, member: Member, path: str) -> Put | None:
    """What takes the place of a file or of a link that holds a secret; None if it holds none."""
    if member.type == archive.SYMLINK and attempt.redactor.finds(member.link):
        return Put(path, owner=member.uid, link=os.fsdecode(attempt.redactor.clean(member.link)))
    if member.type == archive.REGULAR and (cleaned := _cleaned(attempt, reader, member.size)) is not None:
        return Put(path, cleaned, member.mode, member.uid)
    return None


def _cleaned(attempt: Attempt, reader: TarReader, size: int) -> bytes | None:
    """A file without its secrets; None if it has none."""
    if size > LARGEST_STRUCK:
        before = attempt.redactor.count
        stream = Stream(attempt.redactor, lambda _: None)
        for chunk in reader.content():
            stream.write(chunk)
        stream.close()
        return b"" if attempt.redactor.count != before else None
    data = b"".join(reader.content())
    cleaned = attempt.redactor.clean(data)
    return cleaned if cleaned != data else None


def _keep_volumes(attempt: Attempt, container: str) -> None:
    import zstandard

    for number, path in enumerate(attempt.job.images.volumes):
        try:
            _, chunks = attempt.engine.get(container, path)
        except NotThere:
            continue
        target = volume_file(attempt.dir.path, number)
        with contextlib.ExitStack() as stack:
            stack.enter_context(chunks)
            target.parent.mkdir(exist_ok=True)
            file = stack.enter_context(target.open("wb"))
            out = stack.enter_context(zstandard.ZstdCompressor(level=3).stream_writer(file))
            clean_tar(chunks, attempt.redactor, out.write)


def restore_volumes(engine: Engine, container: str, run: Path, volumes: tuple[str, ...]) -> None:
    """Lay the kept volumes of a run into a container that is about to resume it."""
    for number, path in enumerate(volumes):
        kept = volume_file(run, number)
        if kept.is_file():
            engine.put(container, _unpacked(kept), path.rstrip("/").rpartition("/")[0] or "/")


def volume_file(run: Path, number: int) -> Path:
    """Where a run keeps one volume."""
    return run / "volumes" / f"{number}.tar.zst"


def _unpacked(path: Path) -> Iterator[bytes]:
    import zstandard

    with path.open("rb") as file:
        yield from zstandard.ZstdDecompressor().read_to_iter(file, read_size=1 << 20)
