"""The CLI's own session file, fetched from the stopped container: it holds token counts that a stream may lack."""

from __future__ import annotations

import fnmatch
import posixpath

from assay.model.errors import EngineError
from assay.run.job import Job
from assay.run.launch import HOME, Start, fill
from assay.sandbox import archive
from assay.sandbox.archive import TarReader
from assay.sandbox.engine import Engine

LARGEST = 256 << 20


def session_file(engine: Engine, agent: str, job: Job, session: str | None, start: Start | None) -> bytes | None:
    """What the entry's `session_file` names (`*` allowed); several files follow each other. None if there is none."""
    entry = job.choice.entry
    if entry is None or entry.session_file is None or not session or start is None:
        return None
    pattern = fill(entry.session_file, {**start.blanks, "session": session}).replace("~", HOME, 1)
    parts = pattern.split("/")
    fixed = next((i for i, part in enumerate(parts) if "*" in part), len(parts))
    found: dict[str, bytes] = {}
    try:
        _, stream = engine.get(agent, "/".join(parts[:fixed]))
        base = posixpath.dirname("/".join(parts[:fixed]))
        reader = TarReader(stream)
        for member in reader:
            path = posixpath.join(base, member.name.decode("utf-8", "replace"))
            if member.type == archive.REGULAR and member.size <= LARGEST and matches(path, parts):
                found[path] = b"".join(reader.content())
    except EngineError:
        return None
    return b"".join(found[path] for path in sorted(found)) if found else None


def matches(path: str, parts: list[str]) -> bool:
    """Whether a path is what a pattern, split at its slashes, names; `*` never crosses a slash."""
    given = path.split("/")
    return len(given) == len(parts) and all(map(fnmatch.fnmatchcase, given, parts))
