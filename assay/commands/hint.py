"""One line about runs that were left behind unfinished, before any command does anything. Light: most find nothing."""

from __future__ import annotations

import contextlib
import os

import click

from assay.model.errors import AssayError
from assay.model.place import find_root


def hint() -> None:
    """Say on standard error that this project has such runs, if it has; nothing is locked and nothing is touched."""
    # Whatever is wrong with the folder is for the command to tell.
    with contextlib.suppress(OSError, AssayError):
        runs = find_root() / "runs"
        if not os.path.isdir(runs):  # noqa: PTH112 - what comes next is imported for a reason only
            return
        from assay.run.find import left_behind

        names = left_behind(runs)
        if names:
            which = f"run {names[0]} was" if len(names) == 1 else f"{len(names)} runs were"
            said = f"note: {which} left behind unfinished; `assay recover` finishes what is there"
            click.echo(said, err=True)
