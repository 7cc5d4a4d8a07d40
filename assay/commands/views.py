"""Who looks on while runs go: the live view, results alone, or one JSON object a line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import click

from assay.commands.output import json_line
from assay.stage.climb import Climb, Climbed, View
from assay.stage.executor import Acted, Asked, Began, Ended, Happening, Ready, Said, Told, Unready
from assay.stage.plan import Decision, Slot
from assay.terminal.live import Live

PHASES = ("grading",)
"""What a run says of itself that is its phase, not news."""

BUILD_STEPS = (": building ", ": pulling", ": making", "waiting", ": Step")
"""What is told of a build; the rest is in its log."""


@contextmanager
def view_for(what: Climb, *, quiet: bool, as_json: bool) -> Iterator[View]:
    """The view that was asked for; when it ends, the screen is free."""
    if as_json:
        yield JsonView()
    elif quiet:
        yield QuietView()
    else:
        view = LiveView(what)
        try:
            yield view
        finally:
            view.close()


class LiveView:
    """Transcripts side by side, as they happen."""

    def __init__(self, what: Climb) -> None:
        self._what = what
        self._several = what.plan.ladders * sum(rung.runs for rung in what.plan.rungs) > 1
        self._live = Live(sys.stdout, labels=self._several)

    def happened(self, happening: Happening) -> None:
        """Show it."""
        live = self._live
        match happening:
            case Told(_, text):
                if any(mark in text for mark in BUILD_STEPS):
                    live.note(None, text)
            case Began(slot, record):
                live.start(record.id, label_of(self._what, slot))
            case Acted(_, record, event):
                live.event(record.id, event)
            case Said(_, record, text) if text in PHASES:
                live.status(record.id, text)
            case Said(_, record, text):
                live.note(record.id, text)
            case Ended(_, record, error):
                self._ended(record, error)
            case Asked(reason, hard):
                more = "giving up what is not kept yet" if hard else "keeping what is there; once more gives that up"
                live.note(None, f"{reason}: {more}")

    def _ended(self, record: Any, error: Exception | None) -> None:
        if record is None:
            self._live.note(None, f"could not start: {error}")
        elif self._several:
            self._live.done(
                record.id,
                record.ending,
                record.verdict,
                reason=record.reason or record.verdict_reason,
                seconds=record.times.seconds,
                tokens=record.tokens,
                cost=record.cost_usd,
            )

    def decided(self, climbed: Climbed, decision: Decision) -> None:
        """Told by the summary."""

    def close(self) -> None:
        """Leave the screen as plain lines."""
        self._live.close()


def label_of(what: Climb, slot: Slot) -> str:
    """The short label of a run: its task if there are several, its rung and ordinal, its agent."""
    task = f"{what.tasks[slot.ladder].name} " if what.plan.ladders > 1 else ""
    ordinal = f"{slot.rung}.{slot.attempt}" if what.stage is not None else str(slot.attempt)
    return f"{task}{ordinal} {what.jobs[slot.step].choice.agent}"


class QuietView:
    """Nothing but a stop is worth a line: results come in the summary."""

    def happened(self, happening: Happening) -> None:
        """Say that a stop was heard."""
        if isinstance(happening, Asked):
            click.echo(f"{happening.reason}: stopping", err=True)

    def decided(self, climbed: Climbed, decision: Decision) -> None:
        """Told by the summary."""


class JsonView:
    """One object a line."""

    def happened(self, happening: Happening) -> None:
        """Write it."""
        match happening:
            case Told(step, text):
                self._write("preparing", ladder=step.ladder, rung=step.rung, text=text)
            case Ready(step):
                self._write("ready", ladder=step.ladder, rung=step.rung)
            case Unready(step, error):
                self._write("unready", ladder=step.ladder, rung=step.rung, error=str(error))
            case Began(_, record):
                self._write("began", **record.to_toml())
            case Acted(_, record, event):
                self._write("event", run=record.id, kind=type(event).__name__, **asdict(event))
            case Said(_, record, text):
                self._write("said", run=record.id, text=text)
            case Ended(_, record, error):
                known = {} if record is None else record.to_toml()
                self._write("ended", **known, **({} if error is None else {"error": str(error)}))
            case Asked(reason, hard):
                self._write("stopping", reason=reason, hard=hard)

    def decided(self, climbed: Climbed, decision: Decision) -> None:
        """Told by the summary."""

    def _write(self, what: str, **facts: Any) -> None:
        click.echo(json_line({"what": what, **facts}))
