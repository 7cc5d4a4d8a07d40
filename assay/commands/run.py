"""`assay run`: one agent, or a stage's ladder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.commands import completion
from assay.model.units import MOST_JOBS, MOST_RUNS

if TYPE_CHECKING:
    from assay.model.project import Project
    from assay.stage.climb import Climb, Climbed

EXAMPLES = """\b
Examples:
  assay run tasks/hello --stage rehearse          the real CLI against a stand-in: no key, no spend
  assay run tasks/hello --agent oracle            is the task sound? its own solution must pass
  assay run tasks/hello --agent nop               and doing nothing must fail
  assay run tasks/foo --stage prune               the ladder; the same command again goes on with it
  assay run tasks/foo tasks/bar --stage prune --jobs 8
  assay run tasks/foo --stage prune --from 2 --dry-run
  assay run tasks/foo --agent claude --effort high --runs 3
  assay run tasks/foo --agent claude --rehearse script.toml
  assay run tasks/foo --agent script --command 'echo hi > answer.txt'

\b
Exit codes: 0 something passed, or there was nothing to judge; 1 nothing passed; 2 refused before anything
started; 3 could not be measured; 4 stopped, and the same command goes on; 130 interrupted. Where several
hold: 130, 2, 4, 3, 1, 0; a pass in a stop_on_pass stage is 0.

\b
Ctrl-C keeps what runs, for `assay resume`; a second one gives up what is not kept yet. SIGTERM and a closed
terminal are like the first; SIGTERM again, 2 seconds later or more, is like the second."""


@click.command(epilog=EXAMPLES)
@click.argument("tasks", nargs=-1, metavar="TASK...", shell_complete=completion.tasks)
@click.option(
    "--stage", metavar="NAME", shell_complete=completion.stages, help="Climb the ladder [stage.NAME] of assay.toml."
)
@click.option(
    "--agent",
    metavar="NAME",
    shell_complete=completion.agents,
    help="One agent of the registry, or oracle, nop, script.",
)
@click.option("--model", metavar="MODEL", shell_complete=completion.models, help="Model of --agent.")
@click.option("--effort", metavar="LEVEL", shell_complete=completion.efforts, help="Effort of --agent.")
@click.option("--command", metavar="SH", help="What the agent script runs with sh -c.")
@click.option(
    "--rehearse",
    is_flag=False,
    flag_value="",
    metavar="[SCRIPT]",
    help="Against a scripted stand-in: no key, no spend.",
)
@click.option("--timeout", metavar="DURATION", help="Time limit of a run: 90s, 30m.")
@click.option("--internet/--no-internet", default=None, help="Whether a run reaches the internet; closed by default.")
@click.option("--runs", type=click.IntRange(1, MOST_RUNS), metavar="N", help="Runs of each rung, or of --agent.")
@click.option("--jobs", type=click.IntRange(1, MOST_JOBS), metavar="N", help="Runs at once.")
@click.option("--from", "first", metavar="RUNG", help="Begin the ladder at a rung: its number, or its agent or model.")
@click.option("--only", metavar="RUNG", help="Climb one rung alone.")
@click.option("--again", is_flag=True, help="Start the stage over; earlier runs do not count.")
@click.option("--dry-run", is_flag=True, help="Say what would run, where it may connect and what it may spend.")
@click.option("-q", "--quiet", is_flag=True, help="Only the results.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as things happen.")
def command(tasks: tuple[str, ...], **given: Any) -> int:
    """Put each TASK to coding agents and grade what they leave behind."""
    from assay.model.project import find_project
    from assay.stage.layout import lay_out

    tasks, given = _task_after_rehearse(tasks, given)
    flags = {key: given[key] for key in ("timeout", "internet", "jobs")}
    project = find_project(flags=flags)
    what = lay_out(project, _wanted(tasks, given))
    _warn(project, what)
    if given["dry_run"]:
        from assay.commands.dry_run import show

        return show(project, what, as_json=given["as_json"])
    return carry_out(project, what, given)


def _task_after_rehearse(tasks: tuple[str, ...], given: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """`--rehearse tasks/foo` names a task: a script is a file."""
    value = given["rehearse"]
    if value and Path(value).is_dir():
        return (value, *tasks), {**given, "rehearse": ""}
    return tasks, given


def _wanted(tasks: tuple[str, ...], given: dict[str, Any]) -> Any:
    from assay.stage.layout import Wanted

    names = ("stage", "agent", "model", "effort", "rehearse", "command", "runs", "first", "only")
    return Wanted([Path(task) for task in tasks], **{name: given[name] for name in names})


def _warn(project: Project, what: Climb) -> None:
    from assay.commands.budget import budget_warning
    from assay.run.prepare import unscripted

    warnings = [*project.warnings, *(job.choice.warning for job in what.jobs.values()), budget_warning(what)]
    for warning in dict.fromkeys(warnings):
        if warning:
            click.echo(f"warning: {warning}", err=True)
    for note in dict.fromkeys(unscripted(job) for job in what.jobs.values()):
        if note:
            click.echo(f"note: {note}", err=True)


def carry_out(project: Project, what: Climb, given: dict[str, Any]) -> int:
    """Climb, show it as it goes, sum it up; the exit code."""
    from assay.commands.output import json_line, tell
    from assay.commands.stopping import stop_on_signals
    from assay.commands.summary import Prices, summary_json, summary_lines
    from assay.commands.views import view_for
    from assay.run.find import all_runs, refuse_unwritable
    from assay.sandbox.engine import Engine
    from assay.stage.climb import climb
    from assay.stage.earlier import Earlier
    from assay.stage.executor import LocalExecutor

    refuse_unwritable(project.runs)
    engine = Engine.connect()
    kept = list(all_runs(project.runs)) if what.stage is not None else []
    earlier = Earlier([] if given["again"] else kept, what.stage)
    executor = LocalExecutor(engine, project, what.plan.jobs)

    def stop(reason: str, *, hard: bool) -> None:
        executor.stop(None, reason, hard=hard)

    with view_for(what, quiet=given["quiet"], as_json=given["as_json"]) as view, stop_on_signals(stop):
        try:
            climbed = climb(what, executor, earlier, view)
        finally:
            executor.close()
    _refuse_what_never_started(climbed)
    if given["as_json"]:
        tell(json_line(summary_json(what, climbed, Prices.of(kept))))
    else:
        for line in summary_lines(what, climbed, project.runs, Prices.of(kept)):
            tell(line)
    return climbed.exit_code


def _refuse_what_never_started(climbed: Climbed) -> None:
    """What is refused while a first rung is made ready is refused like anything before: one line, exit 2."""
    from assay.model.errors import Refused

    errors = list(climbed.errors.values())
    if errors and not climbed.runs and all(isinstance(error, Refused) for error in errors):
        raise errors[0]
