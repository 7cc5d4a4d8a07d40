"""The CLI's own session, found in the stopped container: it holds what a resume needs, and token counts."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterator

from assay.model.errors import EngineError
from assay.run.job import Job
from assay.run.launch import HOME, Start, fill
from assay.sandbox import archive
from assay.sandbox.archive import TarReader
from assay.sandbox.engine import Engine

LARGEST = 256 << 20


def session_file(engine: Engine, agent: str, job: Job, session: str | None, start: Start | None) -> bytes | None:
    """What the entry's `session_file` names, then its `session_more`; None if there is no such session file."""
    entry = job.choice.entry
    if entry is None or entry.session_file is None or not session or start is None:
        return None
    blanks = {**start.blanks, "session": session}
    main = _matching(engine, agent, fill(entry.session_file, blanks))
    more = (_matching(engine, agent, fill(pattern, blanks)) for pattern in entry.session_more)
    return b"".join([*main, *(data for found in more for data in found)]) if main else None


def _matching(engine: Engine, agent: str, pattern: str) -> list[bytes]:
    """What the files hold that a pattern names, by their paths."""
    parts = pattern.replace("~", HOME, 1).split("/")
    fixed = next((i for i, part in enumerate(parts) if "*" in part), len(parts))
    found = {
        path: b"".join(content)
        for path, content in _files(engine, agent, "/".join(parts[:fixed]))
        if matches(path, parts)
    }
    return [found[path] for path in sorted(found)]


def session_begun(engine: Engine, agent: str, job: Job, session: str | None, file: bytes | None) -> bool:
    """Whether the CLI has written down a session that it can go on with.

    Args:
        engine: Where the container is.
        agent: The stopped container.
        job: Whose entry says where the session lies.
        session: Its id.
        file: What `session_file` found.
    """
    entry = job.choice.entry
    if entry is None or not session:
        return False
    if entry.session_file is not None or not entry.state:
        return file is not None or entry.session_file is None
    places = [place.replace("{session}", session).replace("~", HOME, 1) for place in entry.state]
    return any(session in path for place in places for path, _ in _files(engine, agent, place))


def _files(engine: Engine, container: str, top: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Regular files below a path in a container that is not trusted; none where there is no such path."""
    try:
        _, stream = engine.get(container, top)
        base = posixpath.dirname(top)
        with stream:
            reader = TarReader(stream)
            for member in reader:
                if member.type == archive.REGULAR and member.size <= LARGEST:
                    yield posixpath.join(base, member.name.decode("utf-8", "replace")), reader.content()
    except EngineError:
        return


def matches(path: str, parts: list[str]) -> bool:
    """Whether a path is what a pattern, split at its slashes, names; `*` never crosses a slash."""
    given = path.split("/")
    return len(given) == len(parts) and all(map(fnmatch.fnmatchcase, given, parts))
