"""One line about runs that a killed assay left behind, before anything else is done."""

from __future__ import annotations

from pathlib import Path

import click


def hint(runs: Path) -> None:
    """Say on standard error that there are such runs, if there are; nothing is locked and nothing is touched."""
    from assay.run.record import left_behind

    names = left_behind(runs)
    if names:
        which = f"run {names[0]} was" if len(names) == 1 else f"{len(names)} runs were"
        click.echo(
            f"note: {which} left behind by an assay that was killed; `assay recover` finishes what is there", err=True
        )
