"""`assay report`: passes, times, tokens and cost over many runs."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.commands.selected import selected, selecting

if TYPE_CHECKING:
    from assay.model.report import Report
    from assay.model.score import Score
    from assay.stage.statistics import Group, Run

EXAMPLES = """\b
Examples:
  assay report
  assay report --task tasks/foo --stage prune
  assay report --stage prune --markdown > results.md
  assay report --json | jq '.[] | {model, rate, interval}'
  assay report --stage prune --junit results.xml

\b
PASSED counts runs with a verdict; those that could not be measured stand apart and lower no rate. The interval is
Wilson's, 95 %. Times, tokens and costs are medians of the measured runs; a run that was resumed counts once, with
all its parts. A rehearsal is a row of its own."""

HEAD = (
    "TASK",
    "STAGE",
    "AGENT",
    "MODEL",
    "EFFORT",
    "PASSED",
    "95 %",
    "UNMEASURED",
    "TIME",
    "TOKENS",
    "COST",
    "ENDINGS",
)
RIGHT = "PASSED UNMEASURED TIME TOKENS COST"


@click.command(epilog=EXAMPLES)
@selecting
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
@click.option("--markdown", is_flag=True, help="A Markdown table.")
@click.option("--junit", metavar="FILE", type=click.Path(path_type=Path), help="Also write a JUnit file, a case a run.")
def command(*, as_json: bool, markdown: bool, junit: Path | None, **filters: tuple[str, ...]) -> None:
    """Sum up kept runs: one row for each task, stage, agent, model and effort."""
    from assay.model.place import find_root
    from assay.stage.statistics import groups

    runs = find_root() / "runs"
    found = groups(selected(runs, filters))
    if junit is not None:
        _write_junit(junit, found)
    if as_json:
        from assay.commands.output import json_text

        click.echo(json_text([group.as_dict() for group in found]))
    elif not found:
        click.echo(f"no run in {runs} that is over" + (" and fits" if any(filters.values()) else ""), err=True)
    elif markdown:
        click.echo(_markdown([_row(group) for group in found]), nl=False)
    else:
        from assay.terminal.tables import table

        click.echo(table(HEAD, [_row(group) for group in found], right=RIGHT), nl=False)


def _row(group: Group) -> list[str]:
    from assay.terminal.figures import dollars, seconds, tokens

    interval = group.interval
    stage = f"{group.stage}:{group.rung}" if group.rung is not None else group.stage or ""
    return [
        group.task,
        stage,
        f"{group.agent}{' (rehearsal)' if group.rehearsal else ''}",
        group.model or "",
        group.effort or "",
        f"{group.passes} of {group.judged}" if group.judged else "",
        f"{interval[0]:.0%} to {interval[1]:.0%}" if interval is not None else "",
        str(group.unmeasured or ""),
        seconds(group.seconds),
        tokens(None if group.tokens is None else round(group.tokens)),
        dollars(group.cost),
        ", ".join(name if count == 1 else f"{count} {name}" for name, count in group.endings.items()),
    ]


def _markdown(rows: Iterable[list[str]]) -> str:
    from assay.terminal.sanitise import one_line

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(one_line(cell).replace('|', chr(92) + '|') for cell in cells)} |\n"

    rule = ["--:" if name in RIGHT.split() else "---" for name in HEAD]
    return "".join([line(HEAD), line(rule), *(line(row) for row in rows)])


def _write_junit(file: Path, found: Iterable[Group]) -> None:
    from assay.model.errors import UsageError
    from assay.model.report import junit_xml

    try:
        file.write_text(junit_xml(_as_report(found)), encoding="utf-8")
    except OSError as error:
        msg = f"--junit: {file} cannot be written: {(error.strerror or str(error)).lower()}"
        raise UsageError(msg) from None


def _as_report(found: Iterable[Group]) -> Report:
    from assay.model.report import Case, Report

    cases = []
    for group in found:
        label = " ".join(part for part in (group.stage, group.agent, group.model, group.effort) if part)
        name = f"{group.task}.{label}"
        cases += [Case(name, {run["id"]: _score(run)}, run["times"].get("seconds")) for run in group.runs]
    return Report("assay", None, tuple(cases), seconds=sum(case.seconds or 0.0 for case in cases))


def _score(run: Run) -> Score:
    from assay.commands.words import ending_words, verdict_words
    from assay.model.score import Score, State
    from assay.stage.plan import Result
    from assay.stage.results import outcome_of

    said = f"{verdict_words(run)}; {ending_words(run)}"
    match outcome_of(run).result:
        case Result.PASSED:
            return Score(State.PASSED, Fraction(1), said)
        case Result.FAILED:
            return Score(State.FAILED, Fraction(0), said)
        case Result.UNJUDGED | Result.SPARED:
            return Score.skipped(said)
        case _:
            return Score.error(said)
