"""The runs of a project: which there are, which one a name means, which were left behind."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.model.errors import ConfigError, UsageError
from assay.model.record import RUN_ID, RunRecord, State
from assay.run.index import INDEX, append_index, index_line
from assay.run.owner import alive
from assay.run.record import LOCK, RUN_FILE, RunDir, latest_verdict, make_runs, read_record


def find_run(runs: Path, name: str) -> Path:
    """The run directory that a path, a unique prefix of its id, or `last` means.

    Raises:
        UsageError: Nothing or more than one run is meant.
    """
    given = Path(name)
    # A name that is too long for a path, or cannot be one, is no path.
    with contextlib.suppress(OSError, ValueError):
        if (given / RUN_FILE).is_file():
            return given
    names = run_names(runs)
    if name == "last":
        if not names:
            msg = f"there is no run in {runs}"
            raise UsageError(msg)
        return runs / names[-1]
    wanted = given.name if given.parent == runs or len(given.parts) > 1 else name
    found = [n for n in names if n == wanted] or [n for n in names if n.startswith(wanted)]
    if len(found) == 1:
        return runs / found[0]
    if not found:
        shown = name if len(name) <= 80 else f"{name[:79]}…"
        msg = f"no run {shown!r} in {runs}; `assay ls` lists them"
        raise UsageError(msg)
    msg = f"{name!r} means {len(found)} runs ({found[0]} … {found[-1]}); give more of the id"
    raise UsageError(msg)


def run_names(runs: Path) -> list[str]:
    """Ids of all runs, oldest first."""
    try:
        with os.scandir(runs) as entries:
            return sorted(e.name for e in entries if e.name[:1].isdigit() and "Z-" in e.name)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        msg = f"{runs} is no folder, and runs are kept there: move what is there away"
        raise UsageError(msg) from None


def keeps_runs(folder: bytes) -> bool:
    """Whether runs of Assay are kept in a folder, anybody's: run directories with a record, or beside an index."""
    try:
        with os.scandir(folder) as entries:
            found = [e for e in entries if RUN_ID.fullmatch(os.fsdecode(e.name)) and e.is_dir(follow_symlinks=False)]
    except OSError:
        return False
    beside = bool(found) and os.path.lexists(folder + b"/" + INDEX.encode())
    return beside or any(os.path.lexists(entry.path + b"/" + RUN_FILE.encode()) for entry in found)


def refuse_unwritable(runs: Path) -> None:
    """See that runs can be kept, before anything is started.

    Raises:
        UsageError: They cannot; says why.
    """
    try:
        make_runs(runs)
        trial = runs / f".trial-{secrets.token_hex(4)}"
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        msg = f"{runs} cannot be written, and runs are kept there: {error.strerror or error}"
        raise UsageError(msg) from None


def left_behind(runs: Path) -> list[str]:
    """Ids of runs whose owner on this machine has died, oldest first; takes no lock and costs little."""
    found = []
    for name in run_names(runs):
        # A committed run has no lock file any more.
        if os.path.exists(f"{runs}/{name}/{LOCK}"):  # noqa: PTH110 - thousands of them
            with contextlib.suppress(ConfigError):
                record = read_record(runs / name)
                if record.state is not State.COMMITTED and record.owner and alive(record.owner) is False:
                    found.append(name)
    return found


def clear_unborn(runs: Path) -> None:
    """Remove directories whose makers died before they were runs."""
    for name in run_names(runs):
        if not os.path.exists(f"{runs}/{name}/{RUN_FILE}"):  # noqa: PTH110 - thousands of them
            unborn = RunDir(runs / name, RunRecord(name))
            with contextlib.suppress(OSError):
                if unborn.own() and not (unborn.path / RUN_FILE).exists():
                    unborn.discard()
            unborn.release()


def all_runs(runs: Path) -> Iterator[dict[str, Any]]:
    """Every run as plain data (see `RunRecord.to_toml`, times as ISO text), oldest first, with its latest verdict.

    Committed runs come from the index; one that the index does not know is read from its directory and, if
    committed, added to it. A directory without a readable record is passed over.
    """
    import orjson

    indexed: dict[str, dict[str, Any]] = {}
    try:
        for line in (runs / INDEX).read_bytes().splitlines():
            try:
                entry = orjson.loads(line)
                indexed[entry["id"]] = entry
            except (ValueError, KeyError, TypeError):
                continue  # torn by a full disk: its run is read from its directory
    except FileNotFoundError:
        pass
    for name in run_names(runs):
        entry = indexed.get(name)
        if entry is None:
            try:
                record = latest_verdict(read_record(runs / name), runs / name)
                entry = orjson.loads(index_line(record))
            except (ConfigError, KeyError, ValueError):
                continue
            if record.state is State.COMMITTED:
                append_index(runs, record)
        yield entry
