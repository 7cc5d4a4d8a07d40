"""`assay recover`: finish what a killed assay left behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import click

from assay.run.job import Stop

if TYPE_CHECKING:
    from assay.model.events import Event
    from assay.model.project import Project
    from assay.model.record import RunRecord

EXAMPLES = """\b
Examples:
  assay recover           finish every left-over run of this project
  assay recover --list    only say which there are

\b
An agent that still runs is followed to its end; one that has ended is graded; nothing is lost and nothing is left
over. Exit codes are those of `assay run`."""


MOST_AT_ONCE = 8

CODES = {"passed": 0, "unjudged": 0, "failed": 1, "cut": 4, "stopped": 4, "spared": 0}
"""What each result means for the exit code; anything else could not be measured."""


@click.command(epilog=EXAMPLES)
@click.option("--list", "only_list", is_flag=True, help="Only list the runs.")
@click.option("-q", "--quiet", is_flag=True, help="Only the results.")
def command(*, only_list: bool, quiet: bool) -> int:
    """Finish the runs of an assay that was killed."""
    from assay.model.project import find_project
    from assay.run.recover import left_over

    project = find_project()
    names = left_over(project.runs)
    if only_list:
        for name in names:
            click.echo(name)
        return 0
    if not names:
        click.echo("nothing to recover")
        return 0
    return _recover(project, names, quiet=quiet)


def _recover(project: Project, names: list[str], *, quiet: bool) -> int:
    from assay.commands.stopping import stop_on_signals
    from assay.commands.words import result_line
    from assay.model.errors import AssayError
    from assay.model.outcome import ExitCode
    from assay.run.recover import recover
    from assay.sandbox.engine import Engine
    from assay.stage.results import outcome_of
    from assay.terminal.sanitise import one_line

    engine, stop, codes = Engine.connect(), Stop(), []
    with (
        ThreadPoolExecutor(MOST_AT_ONCE) as runs,
        ThreadPoolExecutor(2 * MOST_AT_ONCE + 2) as pool,
        stop_on_signals(stop.ask),
    ):
        watch = _Watch(quiet=quiet)
        under_way = [runs.submit(recover, project, name, engine, watch, stop, pool) for name in names]
        for name, one in zip(names, under_way, strict=True):
            try:
                record = one.result()
            except (AssayError, OSError) as error:
                click.echo(one_line(f"{name}: {error}"), err=True)
                codes.append(error.exit_code if isinstance(error, AssayError) else ExitCode.UNMEASURED)
                continue
            if record is None:
                click.echo(f"{name}: another assay has taken it up; assay ls shows how it ends")
            else:
                run = record.to_toml()
                click.echo(result_line(run, project.runs))
                codes.append(CODES.get(outcome_of(run).result, ExitCode.UNMEASURED))
    return ExitCode.INTERRUPTED if stop.reason else ExitCode.worst(codes)


class _Watch:
    """Plain lines, each led by the run."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def began(self, record: RunRecord) -> None:
        if not self._quiet:
            click.echo(f"{record.id}: {record.state}, taken over")

    def event(self, record: RunRecord, event: Event) -> None:
        from assay.terminal.transcript import lines

        if not self._quiet:
            for line in lines(event):
                click.echo(f"{record.id[-4:]} {line.text}")

    def said(self, record: RunRecord, text: str) -> None:
        from assay.terminal.sanitise import one_line

        if not self._quiet:
            click.echo(f"{record.id[-4:]} {one_line(text)}")

    def ended(self, record: RunRecord) -> None:
        """Told at the end."""
