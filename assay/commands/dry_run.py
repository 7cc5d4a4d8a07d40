"""`assay run --dry-run`: what would run, where it may connect, whose credential it would use, what it may spend."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from assay.model.outcome import ExitCode

if TYPE_CHECKING:
    from assay.model.project import Project
    from assay.run.job import Job
    from assay.stage.climb import Climb


def show(project: Project, what: Climb, *, as_json: bool) -> int:
    """Print it; nothing is started, and no engine is asked."""
    rows = [
        {"task": job.task.name, "rung": step.rung, "runs": runs[step.rung], **_job(project, job)}
        for runs in [{rung.number: rung.runs for rung in what.plan.rungs}]
        for step, job in what.jobs.items()
    ]
    plan = what.plan
    if as_json:
        whole = {"stage": what.stage, "jobs": plan.jobs, "stop_on_pass": plan.stop_on_pass}
        click.echo(json.dumps({**whole, "budget_usd": plan.budget, "rungs": rows}, indent=2, ensure_ascii=False))
        return ExitCode.DONE
    for line in _lines(what, rows):
        click.echo(line)
    return ExitCode.DONE


def _job(project: Project, job: Job) -> dict[str, Any]:
    settings, entry = job.settings, job.choice.entry
    hosts = job.held.hosts(entry) if entry is not None else []
    return {
        "agent": job.choice.agent,
        "model": job.choice.model,
        "effort": job.choice.effort,
        "rehearsal": job.script is not None,
        "timeout_seconds": settings.timeout,
        "fence": job.fence_mode,
        "connects_to": ["the internet"] if settings.internet else [] if job.script is not None else hosts,
        "proxy": job.proxy.shown if job.proxy is not None else None,
        "credentials": [] if job.script is not None else job.held.names,
        "cost_known": job.choice.cost_known,
        "ca_bundle": str(project.ca_bundle) if project.ca_bundle is not None else None,
    }


def _reaches(row: dict[str, Any]) -> str:
    if row["rehearsal"]:
        return "a stand-in for the API"
    return (", ".join(row["connects_to"]) or "nothing") + (f" through {row['proxy']}" if row["proxy"] else "")


def _credential(row: dict[str, Any]) -> str:
    names = ", ".join(row["credentials"])
    return f"{names} (stays outside)" if names and row["fence"] == "inject" else names or "none"


def _lines(what: Climb, rows: list[dict[str, Any]]) -> list[str]:
    from assay.commands.budget import unpriced
    from assay.model.units import show_duration
    from assay.terminal.tables import table

    head = ["TASK", "RUNG", "AGENT", "MODEL", "EFFORT", "RUNS", "TIMEOUT", "MAY CONNECT TO", "CREDENTIAL"]
    cells = [
        [
            row["task"],
            row["rung"],
            row["agent"],
            row["model"],
            row["effort"],
            row["runs"],
            show_duration(row["timeout_seconds"]),
            _reaches(row),
            _credential(row),
        ]
        for row in rows
    ]
    plan = what.plan
    total = plan.ladders * sum(rung.runs for rung in plan.rungs)
    several = "up to " if plan.stop_on_pass and total > 1 else ""
    budget = f"nothing new starts once ${plan.budget:g} are spent" if plan.budget is not None else "no ceiling"
    if rungs := unpriced(what):
        budget += f", or once a run of {', '.join(rungs)} has ended, whose cost will not be known"
    if all(row["rehearsal"] or not row["credentials"] for row in rows):
        budget = f"nothing is spent ({budget})" if plan.budget is not None else "nothing is spent"
    runs = "1 run" if total == 1 else f"{several}{total} runs, {plan.jobs} at once"
    return [*table(head, cells, right="RUNG RUNS TIMEOUT").splitlines(), "", f"{runs}; budget: {budget}"]
