"""Repairs that a CLI's own files need before it can resume, as its entry says."""

from __future__ import annotations

import posixpath

from assay.run.attempt import Attempt
from assay.run.launch import HOME, Start, fill
from assay.run.session import matches
from assay.sandbox import archive
from assay.sandbox.archive import Put, TarReader
from assay.sandbox.spec import NotThere

LARGEST = 256 << 20


def mend(attempt: Attempt, container: str, start: Start) -> None:
    """Leave out the lines that the entry names, in the container that is about to start.

    Raises:
        EngineError: The engine failed.
    """
    entry = attempt.job.choice.entry
    for repair in entry.launch.mend if entry is not None else ():
        parts = fill(repair.file, start.blanks).replace("~", HOME, 1).split("/")
        fixed = next((i for i, part in enumerate(parts) if "*" in part), len(parts))
        words = [word.encode() for word in repair.drop_lines]
        try:
            _, stream = attempt.engine.get(container, "/".join(parts[:fixed]))
        except NotThere:
            continue
        base = posixpath.dirname("/".join(parts[:fixed]))
        mended = []
        with stream:
            reader = TarReader(stream)
            for member in reader:
                path = posixpath.join(base, member.name.decode("utf-8", "surrogateescape"))
                if member.type != archive.REGULAR or member.size > LARGEST or not matches(path, parts):
                    continue
                lines = b"".join(reader.content()).splitlines(keepends=True)
                kept = [line for line in lines if not any(word in line for word in words)]
                if len(kept) != len(lines):
                    mended.append(Put(path, b"".join(kept), member.mode, member.uid))
        if mended:
            attempt.engine.put(container, archive.pack(mended))
            attempt.log.info("mended", files=[put.path for put in mended])
