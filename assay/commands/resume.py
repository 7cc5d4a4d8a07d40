"""`assay resume`: go on with a run that was cut short."""

from __future__ import annotations

import click

EXAMPLES = """\b
Examples:
  assay resume last
  assay resume runs/20261130T143935Z-hello-claude-6714
  assay resume last --prompt 'The API is back. Go on, and mind the tests.'
  assay resume last --force                       before the session limit lifts

\b
A new run goes on in the agent's own session, with its files, for what is left of the time limit. A run that has
finished, timed out, was resumed already or still runs is refused (exit 2)."""


@click.command(epilog=EXAMPLES)
@click.argument("run", metavar="RUN")
@click.option("--prompt", metavar="TEXT", help="What the agent is told; by default to continue.")
@click.option("--force", is_flag=True, help="Also before a session limit lifts.")
@click.option("-q", "--quiet", is_flag=True, help="Only the result.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as things happen.")
def command(run: str, prompt: str | None, *, force: bool, quiet: bool, as_json: bool) -> int:
    """Go on with RUN (a path, the start of an id, or `last`) where its agent stopped."""
    from assay.commands.run import carry_out
    from assay.commands.words import chain_words
    from assay.model.project import find_project
    from assay.run import resume
    from assay.run.chain import chain, total
    from assay.run.find import find_run
    from assay.run.record import read_record, resumed_by
    from assay.stage.climb import Climb
    from assay.stage.plan import Plan, Rung, Step

    project = find_project()
    path = find_run(project.runs, run)
    job = resume.check(project, path, message=prompt, force=force)
    if (begins := resume.begins(path, read_record(path))) is not None:
        click.echo(begins, err=True)
    what = Climb(None, (job.task,), Plan(1, (Rung(1, 1),)), {Step(0, 1): job})
    code = carry_out(project, what, {"quiet": quiet, "as_json": as_json, "again": True})
    if not as_json and (by := resumed_by(path)) is not None:
        whole = chain(project.runs, read_record(project.runs / by))
        click.echo(f"in all, with what it goes on with: {chain_words(total(whole))}")
    return code
