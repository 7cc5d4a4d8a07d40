"""`assay ls`: list runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from assay.commands.selected import selected, selecting
from assay.model.outcome import Ending, Verdict

EXAMPLES = """\b
Examples:
  assay ls
  assay ls -n 20
  assay ls --task tasks/foo --stage prune --verdict pass
  assay ls --ending session-limit --ending api-error      what can be gone on with
  assay ls --agent claude --json | jq '.[].cost_usd'
  assay ls --snapshots                                    what unfinished runs take up on the engine
  assay ls --task foo --ids | xargs -n1 assay show"""

HEAD = ("RUN", "TASK", "STAGE", "AGENT", "MODEL", "EFFORT", "ENDING", "VERDICT", "TIME", "TOKENS", "COST")


@click.command(epilog=EXAMPLES)
@selecting
@click.option(
    "--ending", multiple=True, type=click.Choice([str(ending) for ending in Ending]), help="Only with this ending."
)
@click.option(
    "--verdict", multiple=True, type=click.Choice([str(verdict) for verdict in Verdict]), help="Only with this verdict."
)
@click.option("-n", "--last", type=click.IntRange(1), metavar="N", help="Only the last N.")
@click.option("--snapshots", is_flag=True, help="The snapshots of unfinished runs instead: size, age, what for.")
@click.option("--ids", is_flag=True, help="Only the ids, one a line.")
@click.option("--json", "as_json", is_flag=True, help="One JSON list, each run with all that its record says.")
def command(last: int | None, *, snapshots: bool, ids: bool, as_json: bool, **filters: tuple[str, ...]) -> None:
    """List runs, oldest first; options of one kind widen, of several kinds narrow."""
    from assay.model.place import find_root

    root = find_root()
    runs = root / "runs"
    if snapshots:
        _refuse_filters(ids=ids, last=last, filters=filters)
        _snapshots(root, as_json=as_json)
        return
    found = list(selected(runs, filters))[-last if last is not None else 0 :]
    if as_json:
        import orjson

        click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
    elif ids:
        click.echo("".join(f"{run['id']}\n" for run in found), nl=False)
    elif found:
        from assay.terminal.tables import table

        click.echo(table(HEAD, [_row(runs, run) for run in found], right="TIME TOKENS COST"), nl=False)
    else:
        click.echo(f"no run in {runs}" + (" that fits" if any(filters.values()) else ""), err=True)


def _refuse_filters(*, ids: bool, last: int | None, filters: Mapping[str, tuple[str, ...]]) -> None:
    if ids or last is not None or any(filters.values()):
        msg = "--snapshots lists every snapshot of the project; anything but --json would be ignored, leave it out"
        raise click.UsageError(msg)


def _snapshots(root: Path, *, as_json: bool) -> None:
    from assay.commands.output import json_text
    from assay.commands.snapshots import age, size_words, snapshots
    from assay.sandbox.engine import Engine
    from assay.terminal.tables import table

    found = list(snapshots(Engine.connect(), root))[::-1]
    if as_json:
        keys = ("id", "run", "size", "made", "needed", "why")
        click.echo(json_text([{key: getattr(one, key) for key in keys} for one in found]))
    elif found:
        rows: list[list[object]] = [[one.run, size_words(one.size), age(one.made), one.why] for one in found]
        click.echo(table(("RUN", "SIZE", "AGE", "FOR"), rows, right="SIZE AGE"), nl=False)
    else:
        click.echo(f"no snapshot of a run in {root}", err=True)


def _row(runs: Path, run: Mapping[str, Any]) -> list[object]:
    from assay.terminal.figures import dollars, seconds, tokens

    stage = f"{run['stage']}:{run['rung']}.{run.get('attempt', 1)}" if run.get("rung") is not None else run.get("stage")
    rehearsal = " (rehearsal)" if run.get("rehearsal") else ""
    kinds = run.get("tokens", {})
    total = sum(kinds.get(kind, 0) for kind in ("input", "cached", "cache_write", "output")) if kinds else None
    return [
        run["id"],
        run.get("task"),
        stage,
        f"{run.get('agent', '')}{rehearsal}",
        run.get("model"),
        run.get("effort"),
        _ending(runs, run),
        _verdict(run),
        seconds(run.get("times", {}).get("seconds")),
        tokens(total),
        dollars(run.get("cost_usd")),
    ]


def _ending(runs: Path, run: Mapping[str, Any]) -> str:
    """The ending, and whether and when the run can be gone on with."""
    from assay.commands.words import resumable_when, unfinished_words
    from assay.model.record import State

    if run.get("state") != State.COMMITTED:
        return unfinished_words(run)
    ending = str(run.get("ending", ""))
    if not run.get("resumable"):
        return ending
    if (runs / run["id"] / "resumed-by").exists():
        return f"{ending}, resumed"
    return f"{ending}, {resumable_when(run)}"


def _verdict(run: Mapping[str, Any]) -> str:
    verdict = run.get("verdict", "")
    if run.get("score") not in (None, 0.0, 1.0):
        return f"{verdict} {run['score']:g}"
    return str(verdict)
