"""`assay config`: every value that holds here, and where it came from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from assay.model.layers import Origin
    from assay.model.project import Project

    Row = tuple[str, object, Origin]


FILES = ("assay", "task", "agents", "rehearsal")
"""Those that have a JSON Schema, without their `.toml`."""


def _schema(ctx: click.Context, _: click.Parameter, kind: str | None) -> None:
    """Print a schema, whatever else is asked: nothing of a project is needed for it."""
    from importlib import resources

    if kind is not None:
        folder = resources.files("assay.model") / "schemas"
        click.echo((folder / f"{kind}.schema.json").read_text(encoding="utf-8"), nl=False)
        ctx.exit()


@click.command("config")
@click.argument("task", required=False, type=click.Path(path_type=str))
@click.option("--stage", metavar="NAME", help="With TASK: as a run of this stage.")
@click.option(
    "--explain", is_flag=True, help="Say where each value came from: default, file, task, environment or flag."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object; durations in seconds, sizes in bytes.")
@click.option(
    "--schema",
    type=click.Choice(FILES),
    is_eager=True,
    expose_value=False,
    callback=_schema,
    help="Print the JSON Schema of one of our files, for an editor, and nothing else.",
)
def command(task: str | None, stage: str | None, explain: bool, as_json: bool) -> None:
    """Show the values that hold for this project, or for the runs of one TASK.

    \b
    What decides, strongest first: flag, environment (ASSAY_TIMEOUT, ASSAY_FENCE_MODE, ...), rung, stage,
    task.toml, [defaults] of assay.toml, built in.

    \b
    Examples:
      assay config --explain
      assay config tasks/hello --stage rehearse --explain
      assay config --schema assay >assay.schema.json     # found by a first line `#:schema ./assay.schema.json`
    """  # noqa: D301 - click's own mark, which keeps lines as they are
    from pathlib import Path

    from assay.model.project import find_project

    project = find_project()
    rows = list(_of_task(project, Path(task), stage) if task else _of_project(project, stage))
    warnings = [*project.warnings, *_unlisted(project)]
    if as_json:
        values = {path: {"value": v, "source": str(o.source), "where": o.where} for path, v, o in rows}
        file = str(project.file) if project.file else None
        about = {"root": str(project.root), "file": file, "values": values, "warnings": warnings}
        click.echo(json.dumps(about, indent=2, ensure_ascii=False))
        return
    shown = [(_line(path, value), origin) for path, value, origin in rows if explain or value is not None]
    width = max(len(line) for line, _ in shown)
    for line, origin in shown:
        click.echo(f"{line:{min(width, 60)}}  # {origin}" if explain else line)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)


def _of_project(project: Project, stage: str | None) -> Iterator[Row]:
    if stage is not None:
        project.stage(stage)
    for path, origin in project.origins.items():
        if stage is None or path.startswith(f"stage.{stage}."):
            yield path, _value(project, path), origin


def _of_task(project: Project, path: Path, stage: str | None) -> Iterator[Row]:
    from assay.model.task import load_task

    settings = project.settings(load_task(path), stage)
    for key, origin in settings.origins.items():
        yield key, getattr(settings, key), origin


def _value(project: Project, path: str) -> Any:
    """The value at a dotted path of assay.toml."""
    table, _, rest = path.partition(".")
    if table != "stage":
        return getattr(getattr(project, table), rest)
    name, _, key = rest.rpartition(".")
    name, _, rung = name.partition(".rungs[")
    stage = project.stages[name.strip('"')]
    return getattr(stage.rungs[int(rung.rstrip("]"))] if rung else stage, key)


def _unlisted(project: Project) -> Iterator[str]:
    for name in project.stages:
        for rung in project.rungs(name):
            if rung.choice.warning:
                yield f"stage.{name}.rungs[{rung.number - 1}].model: {rung.choice.warning}"


def _line(path: str, value: Any) -> str:
    """One value as assay.toml would say it."""
    from assay.model.units import show_duration, show_size

    key = path.rpartition(".")[2]
    if value is None:
        return f"{path} is not set"
    if key in ("timeout", "stall"):
        value = show_duration(value)
    elif key in ("memory", "disk"):
        value = show_size(value)
    return f"{path} = {json.dumps(value, ensure_ascii=False)}"
