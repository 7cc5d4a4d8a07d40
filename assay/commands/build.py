"""`assay build`: the images that runs need, made ahead of the first run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pathlib import Path

    from assay.model.project import Project
    from assay.model.registry import Agent
    from assay.sandbox.engine import Engine
    from assay.sandbox.images import Builder, Image

    Step = tuple[str, Callable[[], str]]

EXAMPLES = """\b
Examples:
  assay build                   what the stages of this project need
  assay build claude            one agent, laid over the default environment
  assay build --task tasks/foo  this task's own environment, its checker's, and the agents over it
  assay build --base            the base image alone"""


@click.command("build", epilog=EXAMPLES)
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="Also this task's own images.")
@click.option("--base", "base_only", is_flag=True, help="Only the base image: pulled, else made from packages.")
@click.option("--all", "every", is_flag=True, help="Every agent of the registry.")
@click.option("-v", "--verbose", is_flag=True, help="Every line of every build.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: what was asked for, id, size, seconds.")
def command(
    agents: tuple[str, ...], tasks: tuple[str, ...], base_only: bool, every: bool, verbose: bool, as_json: bool
) -> int:
    """Build the images that runs need, each once.

    An image that is there is not built again. Every build's log is kept in the user's cache. Where a CLI comes from its
    vendor's own host, the first build notes address and sha512 in the project's agents.toml, and later ones hold to it.
    """
    from pathlib import Path

    from assay.model.errors import Unmeasured
    from assay.model.project import find_project
    from assay.sandbox.engine import Engine
    from assay.terminal.sanitise import one_line

    project = find_project()
    names = [] if base_only else list(agents) or _needed(project, every=every)
    for name in names:
        entry = project.registry.agents.get(name)
        project.registry.validate_choice(name, entry.default_model if entry else None)
    engine = Engine.connect()
    say = Progress(verbose)
    steps = _base(engine, project, say) if base_only else _steps(engine, project, names, [*map(Path, tasks)], say)
    failed = False
    for title, make in steps:
        begun = time.monotonic()
        try:
            image = make()
        except Unmeasured as error:
            # One agent that cannot be had is no reason to leave the others unbuilt.
            failed = True
            say.done()
            click.echo(f"assay: {one_line(str(error))}", err=True)
            continue
        say.done()
        _report(engine, title, image, time.monotonic() - begun, as_json=as_json)
    return 3 if failed else 0


def _report(engine: Engine, title: str, image: str, seconds: float, *, as_json: bool) -> None:
    size = int((engine.image(image) or {}).get("Size", 0))
    if as_json:
        click.echo(json.dumps({"image": title, "id": image, "bytes": size, "seconds": round(seconds, 3)}))
    else:
        click.echo(f"{title}: ready, {image.removeprefix('sha256:')[:12]}, {size / 1e6:.0f} MB, {seconds:.1f} s")


class Progress:
    """Tells what a build is doing: on a terminal in one line that is overwritten, else its main steps only."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose
        self.live = sys.stderr.isatty() and not verbose

    def __call__(self, line: str) -> None:
        """Tell a line that may come from a build."""
        import shutil

        from assay.terminal.sanitise import cut, one_line

        text = one_line(line)
        if self.live:
            sys.stderr.write(f"\r\x1b[2K{cut(text, shutil.get_terminal_size().columns - 1)}")
            sys.stderr.flush()
        elif self.verbose or any(
            mark in text for mark in (": building ", ": pulling", ": making", "waiting", ": Step")
        ):
            click.echo(cut(text, 160) if not self.verbose else text, err=True)

    def done(self) -> None:
        """Clear the line."""
        if self.live:
            sys.stderr.write("\r\x1b[2K")


def _needed(project: Project, *, every: bool) -> list[str]:
    """The vendors' agents that the stages and defaults name, or every one; without those that no registry has."""
    registry = project.registry.agents
    named = [rung.agent for stage in project.stages.values() for rung in stage.rungs]
    named += [project.defaults.agent] if project.defaults.agent else []
    names = [name for name in (registry if every else dict.fromkeys(named)) if name in registry]
    for name in [name for name in names if not registry[name].install.obtainable]:
        click.echo(f"{name}: left out, its CLI comes from the vendor's own host; assay build {name} tries it", err=True)
        names.remove(name)
    return names


def _asked(project: Project, name: str, entry: Agent) -> Agent:
    """The entry as it is built: without a version where nobody chose one and the vendor's host knows the newest."""
    from assay.model.registry import own_entry

    install = entry.install
    chosen = install.obtainable or install.source or install.sha512 or "version" in own_entry(project.root, name)
    return entry if chosen else entry.model_copy(update={"version": ""})


def _noted(project: Project, builder: Builder, image: Image, name: str, entry: Agent, say: Progress) -> Agent:
    """The entry, with what the vendor's host has given once that is noted in the project's own agents.toml."""
    from assay.commands.pin import record
    from assay.model.errors import ConfigError, Unmeasured
    from assay.model.place import as_named
    from assay.terminal.sanitise import one_line

    if entry.install.obtainable or (entry.install.source and entry.install.sha512):
        return entry
    pinned = builder.pinned(image, name, entry)
    say.done()
    if pinned is entry:
        words = "its install lines left no pinned.toml, so a later build may get another archive"
        click.echo(f"{name}: nothing to record: {words}", err=True)
        return entry
    source, sha512 = pinned.install.source, pinned.install.sha512
    version = None if entry.version else pinned.version
    if version is not None:
        builder.for_agent(builder.environment(), name, pinned)
        say.done()
    file = project.root / "agents.toml"
    try:
        record(file, name, {"source": source, "sha512": sha512}, version)
    except ConfigError as error:
        msg = f"{name}: built, but what it was built of is not recorded: {error}"
        raise Unmeasured(msg) from None
    where = f"[agents.{name}.install] of {as_named(file)}"
    click.echo(one_line(f"{name}: recorded in {where}: source {source}, sha512 {sha512[:16]}…"), err=True)
    if version is not None:
        known = project.registry.agents[name].version
        click.echo(
            f"{name}: recorded version = {version!r} beside it; what is known of it was seen with {known}", err=True
        )
    click.echo(f"{name}: from now on another archive for {pinned.version} is refused", err=True)
    return pinned


def _base(engine: Engine, project: Project, say: Progress) -> Iterator[Step]:
    from assay.sandbox.base import ensure_image

    base = project.defaults.base_image
    yield base, lambda: ensure_image(engine, base, say, make=True)


def _steps(engine: Engine, project: Project, names: list[str], tasks: list[Path], say: Progress) -> Iterator[Step]:
    """What to build, cheapest first: nothing is built until it is asked for."""
    from assay.model.task import load_task
    from assay.sandbox import fence_image
    from assay.sandbox.images import Builder

    loaded = [load_task(path) for path in tasks]
    builder = Builder(engine, base=project.defaults.base_image, ca=project.ca_bundle, say=say)
    registry = project.registry.agents
    entries = {name: _asked(project, name, registry[name]) for name in names if name in registry}

    def laid(name: str, over: Any) -> Step:
        return (
            f"{name} {entries[name].version or 'newest'} on {over.title}",
            lambda: builder.for_agent(over, name, entries[name]).id,
        )

    def first(name: str) -> str:
        image = builder.for_agent(builder.environment(), name, entries[name])
        entries[name] = _noted(project, builder, image, name, entries[name], say)
        return builder.for_agent(builder.environment(), name, entries[name]).id

    yield "environment", lambda: builder.environment().id
    yield "fence", lambda: fence_image.ensure(engine, say, builder.host)
    for name in entries:
        yield laid(name, builder.environment())[0], lambda name=name: first(name)  # type: ignore[misc]
    for task in loaded:
        own = builder.of_task(task.dockerfile, task.settings.image)
        yield task.name, lambda own=own: builder.for_agent(own).id  # type: ignore[misc]
        if task.checker is not None and (dockerfile := task.checker.dockerfile) is not None:
            yield f"{task.name}/checker", lambda file=dockerfile: builder.of_checker(file).id  # type: ignore[misc]
        if own.id != builder.environment().id:
            for name in entries:
                yield laid(name, own)
