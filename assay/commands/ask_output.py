"""What `assay ask` shows: what would be seen, what happens, the answers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.commands.output import json_line, tell
from assay.commands.views import JsonView, LiveView, QuietView
from assay.commands.words import ending_words, tokens_words
from assay.model.outcome import ExitCode
from assay.model.place import as_named
from assay.run.answer import Answer, answer_of, folder_for, write_together
from assay.run.collect import quote
from assay.run.record import read_record, write_atomic
from assay.stage.climb import Climbed, View
from assay.stage.executor import Began, Happening
from assay.terminal.figures import dollars, seconds
from assay.terminal.markdown import show
from assay.terminal.sanitise import one_line
from assay.terminal.tables import fields

if TYPE_CHECKING:
    from assay.commands.ask import Asked
    from assay.model.project import Project
    from assay.run.job import Job
    from assay.run.repository import Repository
    from assay.stage.asks import LaidOut

MOST_DEAD = 10
"""Dead places that are told one by one; all are in the run's citations.json."""


# -- before ---------------------------------------------------------------------------------------------------------


def show_plan(project: Project, repository: Repository, laid: LaidOut, *, as_json: bool) -> None:
    """What would be seen and who would be asked; nothing is started, and no engine is asked."""
    asked = [_job(job) for job in laid.climb.jobs.values()]
    if as_json:
        click.echo(json.dumps(_plan(project, repository, laid, asked), indent=2))
        return
    show_visible(repository)
    pairs: list[tuple[str, object]] = []
    for one in asked:
        label = " ".join(part for part in (one["agent"], one["model"], one["effort"]) if part)
        pairs.append(("asked", f"{label}, for {seconds(one['timeout_seconds'])} at most"))
        pairs.append(("connects to", ", ".join(one["connects_to"]) or "nothing"))
        pairs.append(("through", one["proxy"]))
        pairs.append(("credential", ", ".join(one["credentials"]) or "none"))
    pairs += [("note", note) for note in laid.notes]
    click.echo(fields(pairs), nl=False)


def _plan(project: Project, repository: Repository, laid: LaidOut, asked: list[dict[str, Any]]) -> dict[str, Any]:
    keys = list(repository.keys_inside())
    return {
        "repository": str(repository.root),
        "history": repository.history,
        "files": [name for thing in repository.files if (name := os.fsdecode(thing.name)) not in keys],
        "bytes": repository.size,
        "withheld": [{"name": name, "why": why} for name, why in _withheld(repository, keys)],
        "asked": asked,
        "notes": [*repository.notes, *laid.notes],
        "runs": str(project.runs),
    }


def show_visible(repository: Repository) -> None:
    """Every name that would be visible, then what would not."""
    keys = list(repository.keys_inside())
    shown = [thing.name for thing in repository.files if os.fsdecode(thing.name) not in keys]
    for name in shown:
        click.echo(_quoted(name))
    click.echo()
    pairs: list[tuple[str, object]] = [
        ("not shown", f"{_quoted(os.fsencode(name))} ({why})") for name, why in _withheld(repository, keys)
    ]
    pairs.append(("visible", f"{len(shown)} files, {repository.size / 1e6:.1f} MB, read-only"))
    pairs += [("note", note) for note in repository.notes]
    click.echo(fields(pairs), nl=False)


def _quoted(name: bytes) -> str:
    return quote(name).decode("ascii")


def _withheld(repository: Repository, keys: list[str]) -> list[tuple[str, str]]:
    return [*repository.withheld, *((name, "is a private key") for name in keys)]


def _job(job: Job) -> dict[str, Any]:
    entry = job.choice.entry
    hosts = job.held.hosts(entry) if entry is not None else []
    opened = "any address of the internet, none that is private or the engine's"
    connects = ["a stand-in for the API"] if job.script is not None else hosts
    return {
        "agent": job.choice.agent,
        "model": job.choice.model,
        "effort": job.choice.effort,
        "rehearsal": job.script is not None,
        "timeout_seconds": job.settings.timeout,
        "fence": job.fence_mode,
        "connects_to": [*connects, opened] if job.settings.internet else connects,
        "proxy": job.proxy.shown if job.proxy is not None else None,
        "credentials": [] if job.script is not None else job.held.names,
    }


# -- meanwhile ------------------------------------------------------------------------------------------------------


@contextmanager
def view_of(asked: Asked, *, quiet: bool, as_json: bool) -> Iterator[View]:
    """The view that was asked for; standard output is left to the answer."""
    if as_json:
        yield JsonView()
    elif quiet:
        yield QuietView()
    else:
        for note in asked.notes:
            click.echo(f"note: {one_line(note)}", err=True)
        view = _View(asked)
        try:
            yield view
        finally:
            view.close()


class _View(LiveView):
    """On standard error, labelled by who answers."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked.what, sys.stderr)

    def happened(self, happening: Happening) -> None:
        """Show it."""
        if isinstance(happening, Began):
            record = happening.record
            self._live.start(record.id, " ".join(part for part in (record.agent, record.model) if part))
        else:
            super().happened(happening)


# -- afterwards -----------------------------------------------------------------------------------------------------


def hand_out(project: Project, asked: Asked, climbed: Climbed, given: dict[str, Any]) -> int:
    """Print the answer or the answers, write them where they were wanted, say what they cost; the exit code."""
    runs = [climbed.runs[slot]["id"] for slot in sorted(climbed.runs)]
    answers = [answer_of(project.runs / run, read_record(project.runs / run)) for run in runs]
    errors = [str(error) for thing, error in climbed.errors.items() if thing not in climbed.runs]
    code, together = exit_code(answers, climbed), None
    if given["everyone"] and any(answer.text for answer in answers):
        folder = Path(given["output"]) if given["output"] else folder_for(project.runs, asked.root)
        together = write_together(folder, asked.question, answers, [facts_line(answer) for answer in answers])
    elif given["output"] and answers and answers[0].text:
        write_atomic(Path(given["output"]), answers[0].text.encode("utf-8", "replace"))
    if given["as_json"]:
        tell(json_line(_json(asked, answers, errors, together, code)))
        return code
    if together is not None and not given["output"]:
        show(together.read_text("utf-8", "replace"), sys.stdout)
    elif not given["output"]:
        for answer in answers:
            if answer.text:
                show(answer.text, sys.stdout)
    if not given["quiet"]:
        _tell(answers, together)
    for error in errors:
        click.echo(one_line(f"error: {error}"), err=True)
    return code


def exit_code(answers: list[Answer], climbed: Climbed) -> int:
    """One whole answer is success; otherwise what the runs came to."""
    if climbed.state.closed:
        return ExitCode.INTERRUPTED
    if any(answer.whole for answer in answers):
        return ExitCode.DONE
    return climbed.exit_code or ExitCode.NOTHING_PASSED


def facts_line(answer: Answer) -> str:
    """How it ended if not well, time, tokens, cost."""
    run = answer.record.to_toml()
    cost = dollars(answer.record.cost_usd)
    if cost and answer.record.rehearsal:
        cost += " by the stand-in's count"
    parts = [
        "" if answer.whole else f"no answer: {ending_words(run)}" if not answer.text else ending_words(run),
        seconds(answer.record.times.seconds),
        tokens_words(run.get("tokens", {})),
        cost or "cost unknown",
    ]
    return " · ".join(part for part in parts if part)


def _tell(answers: list[Answer], together: Path | None) -> None:
    """A line for each answer, and the places that it cites and that are not there; on standard error."""
    for answer in answers:
        where = as_named(answer.path / "answer.md" if answer.text else answer.path)
        click.echo(one_line(f"▪ {answer.label} · {facts_line(answer)} · {where}"), err=True)
        for dead in answer.dead[:MOST_DEAD]:
            click.echo(one_line(f"  cited and not there: {dead['place']} ({dead['why']})"), err=True)
        if len(answer.dead) > MOST_DEAD:
            more = len(answer.dead) - MOST_DEAD
            click.echo(f"  and {more} more: {as_named(answer.path / 'citations.json')}", err=True)
        if answer.record.resumable:
            click.echo(f"  to go on: assay resume {as_named(answer.path)}", err=True)
    missing = sum(not answer.whole for answer in answers)
    if missing and missing < len(answers):
        click.echo(f"▪ {missing} of {len(answers)} did not answer", err=True)
    if together is not None:
        click.echo(f"▪ side by side in {as_named(together)}", err=True)


def _json(asked: Asked, answers: list[Answer], errors: list[str], together: Path | None, code: int) -> dict[str, Any]:
    return {
        "what": "answers",
        "question": asked.question,
        "repository": str(asked.root),
        "answers": [
            {
                **{key: getattr(answer.record, key) for key in ("agent", "model", "effort", "ending", "cost_usd")},
                "run": answer.record.id,
                "path": str(answer.path),
                "answer": answer.text or None,
                "whole": answer.whole,
                "cited": answer.cited.get("cited"),
                "dead": answer.dead,
                "seconds": answer.record.times.seconds,
                "tokens": answer.record.tokens.as_dict() if answer.record.tokens is not None else None,
            }
            for answer in answers
        ],
        "together": str(together) if together is not None else None,
        "notes": list(asked.notes),
        "errors": errors,
        "exit_code": code,
    }
