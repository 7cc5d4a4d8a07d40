"""An unfinished run kept as an image, without its credentials, so that it can be resumed.

What the agent changed in its container is committed, the CLI's session included. The container's configuration never
held a secret; credential files are overwritten before. Volumes are no part of an image: they are kept beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from assay.run.attempt import Attempt
from assay.run.launch import HOME, UID
from assay.run.redact import Stream
from assay.sandbox import archive
from assay.sandbox.archive import Put
from assay.sandbox.engine import Engine, NotThere

REPOSITORY = "assay-snapshot"
LABEL = "assay.snapshot"


def take(attempt: Attempt, container: str) -> None:
    """Commit the stopped container and write the image's id into the record.

    Raises:
        EngineError: The engine could not; the run is kept all the same, but begins anew when resumed.
    """
    record = attempt.record
    scrub(attempt, container)
    _keep_volumes(attempt, container)
    labels = {**attempt.labels, LABEL: record.id}
    record.snapshot = attempt.engine.commit(container, REPOSITORY, record.id, labels)
    attempt.log.info("snapshot", image=record.snapshot)


def scrub(attempt: Attempt, container: str) -> None:
    """Overwrite every credential file with an empty one, in the stopped container."""
    uid = 0 if attempt.job.task.settings.user == "root" else UID
    empty = [Put(path.replace("~", HOME, 1), b"", 0o600, uid) for path in attempt.job.held.files]
    if empty:
        attempt.engine.put(container, archive.pack(empty))


def _keep_volumes(attempt: Attempt, container: str) -> None:
    import zstandard

    for number, path in enumerate(attempt.job.images.volumes):
        try:
            _, chunks = attempt.engine.get(container, path)
        except NotThere:
            continue
        target = volume_file(attempt.dir.path, number)
        target.parent.mkdir(exist_ok=True)
        with target.open("xb") as file, zstandard.ZstdCompressor(level=3).stream_writer(file) as out:
            cleaned = Stream(attempt.redactor, out.write)
            for chunk in chunks:
                cleaned.write(chunk)
            cleaned.close()


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
