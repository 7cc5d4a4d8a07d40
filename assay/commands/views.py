"""Who looks on while runs go: plain lines, results alone, or one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from assay.commands.words import result_line
from assay.stage.executor import Acted, Asked, Began, Ended, Happening, Ready, Said, Told, Unready
from assay.terminal.sanitise import one_line
from assay.terminal.transcript import lines

if TYPE_CHECKING:
    from assay.model.project import Project
    from assay.stage.climb import Climb, Climbed, View
    from assay.stage.plan import Decision


@contextmanager
def view_for(project: Project, what: Climb, *, quiet: bool, as_json: bool) -> Iterator[View]:
    """The view that was asked for."""
    yield JsonView(what) if as_json else PlainView(project, what, quiet=quiet)


class PlainView:
    """One line for each thing that happens, led by the run's short label."""

    def __init__(self, project: Project, what: Climb, *, quiet: bool) -> None:
        self._project, self._what, self._quiet = project, what, quiet

    def happened(self, happening: Happening) -> None:
        """Say it in a line."""
        if isinstance(happening, Ended):
            if happening.record is not None:
                click.echo(result_line(happening.record.to_toml(), self._project.runs))
        elif self._quiet:
            return
        elif isinstance(happening, Told | Said):
            click.echo(one_line(happening.text))
        elif isinstance(happening, Began):
            click.echo(happening.record.id)
        elif isinstance(happening, Acted):
            for line in lines(happening.event):
                click.echo(line.text)
        elif isinstance(happening, Asked):
            click.echo(f"{happening.reason}: stopping; once more gives up what is not kept yet", err=True)

    def decided(self, climbed: Climbed, decision: Decision) -> None:
        """Nothing to say."""


class JsonView:
    """One object a line."""

    def __init__(self, what: Climb) -> None:
        self._what = what

    def happened(self, happening: Happening) -> None:
        """Write it."""
        from dataclasses import asdict

        if isinstance(happening, Told):
            self._write("preparing", ladder=happening.step.ladder, rung=happening.step.rung, text=happening.text)
        elif isinstance(happening, Ready):
            self._write("ready", ladder=happening.step.ladder, rung=happening.step.rung)
        elif isinstance(happening, Unready):
            self._write("unready", ladder=happening.step.ladder, rung=happening.step.rung, error=str(happening.error))
        elif isinstance(happening, Began):
            self._write("began", **happening.record.to_toml())
        elif isinstance(happening, Acted):
            kind = type(happening.event).__name__
            self._write("event", run=happening.record.id, kind=kind, **asdict(happening.event))
        elif isinstance(happening, Said):
            self._write("said", run=happening.record.id, text=happening.text)
        elif isinstance(happening, Ended):
            error = {"error": str(happening.error)} if happening.error is not None else {}
            self._write("ended", **(happening.record.to_toml() if happening.record is not None else {}), **error)
        elif isinstance(happening, Asked):
            self._write("stopping", reason=happening.reason, hard=happening.hard)

    def decided(self, climbed: Climbed, decision: Decision) -> None:
        """Told by the summary."""

    def _write(self, what: str, **facts: Any) -> None:
        click.echo(json.dumps({"what": what, **facts}, ensure_ascii=False, default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value)
