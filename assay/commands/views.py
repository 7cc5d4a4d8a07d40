"""Who looks on while runs go: the live view, results alone, or one JSON object a line."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, TextIO

import click

from assay.commands.output import json_line, tell
from assay.stage.climb import Climb, Climbed, View
from assay.stage.executor import Acted, Asked, Began, Ended, Happening, Ready, Said, Told, Unready
from assay.stage.plan import Result, Slot, Standing
from assay.terminal.figures import dollars
from assay.terminal.live import Live

PHASES = ("grading",)
"""What a run says of itself that is its phase, not news."""

BUILD_STEPS = (": building ", ": pulling", ": making", ", waiting")
"""What of a build is worth a line that stays; the rest is only seen passing, and is in its log."""


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

    def __init__(self, what: Climb, out: TextIO | None = None) -> None:
        self._what = what
        plan = what.plan
        self._several = plan.ladders * sum(rung.runs for rung in plan.rungs) > 1
        self._parallel = min(plan.jobs, plan.ladders * max(rung.runs for rung in plan.rungs)) > 1
        self._live = Live(out or sys.stdout, labels=self._parallel)

    def happened(self, happening: Happening) -> None:
        """Show it."""
        live = self._live
        match happening:
            case Told(_, text):
                live.ladder(text)
                if any(mark in text for mark in BUILD_STEPS):
                    live.note(None, text)
            case Ready() | Unready():
                live.ladder("")
            case Began(slot, record):
                about = (record.agent, record.model or "", record.effort or "") if self._several else ()
                live.start(record.id, label_of(self._what, slot), about)
                if self._several and not self._parallel:
                    live.note(record.id, introduction(self._what, slot))
            case Acted(_, record, event):
                live.event(record.id, event)
            case Said(_, record, text) if text in PHASES:
                live.status(record.id, text)
            case Said(_, record, text):
                live.note(record.id, text)
            case Ended(_, record, error):
                self._ended(record, error)
            case Asked(reason, hard):
                more = "giving up what is not kept yet" if hard else "keeping what is there; Ctrl-C again gives that up"
                live.note(None, f"{reason}: {more}")

    def _ended(self, record: Any, error: BaseException | None) -> None:
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

    def decided(self, climbed: Climbed) -> None:
        """How far the ladders have come."""
        if self._several:
            self._live.ladder(progress(self._what, climbed))

    def close(self) -> None:
        """Leave the screen as plain lines."""
        self._live.close()


def label_of(what: Climb, slot: Slot) -> str:
    """The short label of a run: its task if there are several, its rung and ordinal, its agent."""
    task = f"{what.tasks[slot.ladder].name} " if what.plan.ladders > 1 else ""
    ordinal = f"{slot.rung}.{slot.attempt}" if what.stage is not None else str(slot.attempt)
    return f"{task}{ordinal} {what.jobs[slot.step].choice.agent}"


def introduction(what: Climb, slot: Slot) -> str:
    """What comes next, where one run follows the other."""
    at = f"rung {slot.rung}, run {slot.attempt}" if what.stage is not None else f"run {slot.attempt}"
    task = f"{what.tasks[slot.ladder].name}, " if what.plan.ladders > 1 else ""
    return f"{task}{at}: {what.jobs[slot.step].choice.label}"


def progress(what: Climb, climbed: Climbed) -> str:
    """Where every ladder is, and what was done and spent, in one line."""
    plan, state, top = what.plan, climbed.state, what.plan.rungs[-1].number
    going = [place for place in climbed.places if place.standing is Standing.CLIMBING]
    where = [f"rung {place.rung} of {top}" for place in going] if what.stage is not None and plan.ladders == 1 else []
    if plan.ladders > 1:
        where = [f"{plan.ladders - len(going)} of {plan.ladders} tasks done"]
    passed = sum(outcome.result is Result.PASSED for outcome in state.all_outcomes)
    spent = dollars(state.spent) if plan.budget is None else f"{dollars(state.spent)} of {dollars(plan.budget)}"
    counts = [f"{len(state.running)} at work", f"{len(state.ended)} done", f"{passed} passed"]
    return " · ".join([*filter(None, [what.stage]), *where, *counts, spent])


class QuietView:
    """Nothing but a stop is worth a line: results come in the summary."""

    def happened(self, happening: Happening) -> None:
        """Say that a stop was heard."""
        if isinstance(happening, Asked):
            with contextlib.suppress(OSError):
                click.echo(f"{happening.reason}: stopping", err=True)

    def decided(self, climbed: Climbed) -> None:
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

    def decided(self, climbed: Climbed) -> None:
        """Told by the summary."""

    def _write(self, what: str, **facts: Any) -> None:
        tell(json_line({"what": what, **facts}))
