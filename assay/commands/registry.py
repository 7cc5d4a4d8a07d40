"""`assay registry`: the agents, what each accepts and needs, and whether its image is built."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from assay.model.project import Project
    from assay.model.registry import Agent

EXAMPLES = """\b
Examples:
  assay registry
  assay registry claude codex
  assay registry codex --toml                     the whole entry, the project's own keys included
  assay registry --json | jq '.[] | {agent, version, built}'"""


@click.command("registry", epilog=EXAMPLES)
@click.argument("names", nargs=-1, metavar="[AGENT]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
@click.option("--toml", "as_toml", is_flag=True, help="Whole entries, as an agents.toml.")
def command(names: tuple[str, ...], *, as_json: bool, as_toml: bool) -> int:
    """List the agents: version, models, efforts, hosts, names of credentials, image built or not.

    The built-in agents oracle (the task's own solution), nop (nothing) and script (one command) need no entry.
    """
    from assay.model.errors import UsageError
    from assay.model.project import find_project

    if as_json and as_toml:
        msg = "--json and --toml exclude each other; leave one out"
        raise UsageError(msg)
    project = find_project()
    for name in names:
        entry = project.registry.agents.get(name)
        project.registry.validate_choice(name, entry.default_model if entry else None)
    chosen = [name for name in project.registry.agents if not names or name in names]
    if as_toml:
        click.echo(_toml({name: project.registry.agents[name] for name in chosen}), nl=False)
        return 0
    images = _images(project, chosen)
    rows = [_row(name, project.registry.agents[name], images.get(name)) for name in chosen]
    if as_json:
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    for row in rows:
        click.echo("\n".join(_card(row)))
    if not names:
        click.echo("built in: oracle, nop, script")
    return 0


def _toml(agents: dict[str, Agent]) -> str:
    """Entries as they hold, defaults included, in the form in which they are written."""
    import tomli_w

    entries = {name: agent.model_dump(exclude_none=True) for name, agent in agents.items()}
    return tomli_w.dumps({"agents": entries}, multiline_strings=True)


def _images(project: Project, names: list[str]) -> dict[str, str | bool]:
    """By agent: the id of its image over the default environment, False if it is not built; empty without engine."""
    from assay.model.errors import EngineError, EngineUnavailable
    from assay.sandbox.engine import Engine
    from assay.sandbox.images import Builder, NotBuilt

    found: dict[str, str | bool] = {}
    try:
        builder = Builder(Engine.connect(), base=project.defaults.base_image, build=False)
        for name in names:
            try:
                found[name] = builder.for_agent(builder.environment(), name, project.registry.agents[name]).id
            except NotBuilt:
                found[name] = False
    except (EngineUnavailable, EngineError):
        return {}
    return found


def _row(name: str, agent: Agent, image: str | bool | None) -> dict[str, Any]:
    efforts = agent.efforts
    return {
        "agent": name,
        "title": agent.title,
        "version": agent.version,
        "decoder": agent.decoder,
        "default_model": agent.default_model,
        "default_effort": agent.default_effort,
        "efforts": efforts,
        "models": {key: efforts if model.efforts is None else model.efforts for key, model in agent.models.items()},
        "hosts": agent.hosts,
        "credentials": [way.env or way.file for way in agent.credentials],
        "injected": [way.env for way in agent.credentials if way.inject is not None],
        "obtainable": agent.install.obtainable,
        "resumes": bool(agent.launch.resume),
        "rehearses": agent.rehearsed,
        "built": None if image is None else bool(image),
        "image": image if isinstance(image, str) else None,
    }


def _card(row: dict[str, Any]) -> list[str]:
    """One agent for a reader."""
    built = {True: "image built", False: f"image not built (assay build {row['agent']})", None: "no engine answers"}
    own = {model: efforts for model, efforts in row["models"].items() if efforts != row["efforts"]}
    efforts = ", ".join(row["efforts"]) or "cannot be set"
    lines = [
        f"{row['agent']}: {row['title']} {row['version']}, {built[row['built']]}",
        f"  models       {', '.join(row['models']) or 'none listed'}; default {row['default_model'] or 'none'}",
        f"  efforts      {efforts}" + (f"; default {row['default_effort']}" if row["default_effort"] else ""),
        *(f"               {model}: {', '.join(levels) or 'cannot be set'}" for model, levels in own.items()),
        f"  hosts        {', '.join(row['hosts']) or 'none'}",
        f"  credentials  {', '.join(row['credentials']) or 'none'}",
    ]
    notes = [
        word
        for word, holds in (("cannot be rehearsed", not row["rehearses"]), ("no resume", not row["resumes"]))
        if holds
    ]
    if row["injected"]:
        notes.append(f'{", ".join(row["injected"])} can stay outside the container ([fence] mode = "inject")')
    if not row["obtainable"]:
        notes.append("its CLI comes from the vendor's own host")
    return [*lines, *(f"  note         {note}" for note in notes), ""]
