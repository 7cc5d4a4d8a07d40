"""`assay grade`: grade the kept files of a run again."""

from __future__ import annotations

from pathlib import Path

import click

from assay.commands import completion

EXAMPLES = """\b
Examples:
  assay grade last
  assay grade runs/20261130T143935Z-hello-claude-6714
  assay grade 20261130T1439 --task tasks/hello-2     the checker of another folder
  for run in $(assay ls --task hello --ids); do assay grade $run; done

\b
Exit codes: 0 pass; 1 fail; 2 refused (the run was cut short, its files are not whole, there is no checker);
3 checker-error."""


@click.command(epilog=EXAMPLES)
@click.argument("run", metavar="RUN", shell_complete=completion.runs)
@click.option("--task", metavar="FOLDER", type=click.Path(path_type=Path), help="The task, if it was moved.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(run: str, task: Path | None, *, as_json: bool) -> int:
    """Grade the files that RUN (a path, the start of an id, or `last`) left, by the checker as it is now.

    The result goes to a new folder in the run's checker/; earlier ones and run.toml stay as they are, and the latest
    verdict is the one that ls, show and report tell.
    """
    from assay.commands.output import json_text
    from assay.commands.stopping import stop_on_signals
    from assay.commands.words import result_line
    from assay.model.project import find_project
    from assay.run import regrade
    from assay.run.find import find_run
    from assay.run.job import Stop
    from assay.run.record import grades
    from assay.sandbox.engine import Engine

    project = find_project()
    path = find_run(project.runs, run)
    record, job = regrade.check(project, path, task)
    changed = job.task.digest != record.task_digest
    stop = Stop()
    with stop_on_signals(stop.ask):
        renewed = regrade.grade(Engine.connect(), project, path, record, job, _say, stop)
    number = grades(path)[-1]["number"]
    if as_json:
        was = None if record.verdict is None else str(record.verdict)
        facts = {**renewed.to_toml(), "grade": number, "verdict_at_first": was, "task_changed": changed}
        click.echo(json_text(facts))
    else:
        if changed:
            click.echo("the task has changed since this run: graded by its checker as it is now", err=True)
        click.echo(result_line(renewed.to_toml(), path.parent))
        click.echo(f"  grading {number}, {path / 'checker' / str(number)}; at first: {record.verdict}")
    return _exit_code(str(renewed.verdict))


def _say(text: str) -> None:
    from assay.terminal.sanitise import one_line

    if ": building " in text or ": pulling" in text:
        click.echo(one_line(text), err=True)


def _exit_code(verdict: str) -> int:
    from assay.model.outcome import ExitCode

    codes = {"pass": ExitCode.DONE, "fail": ExitCode.NOTHING_PASSED}
    return codes.get(verdict, ExitCode.UNMEASURED)
