"""`assay clean`: what runs left on the engine whose owner is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from assay.commands.clean_images import Needed, Thing, built, copies, needed

if TYPE_CHECKING:
    from pathlib import Path

    from assay.sandbox.engine import Engine


EXAMPLES = """\b
Examples:
  assay clean --dry-run
  assay clean
  assay clean --snapshots                  what assay resume could still go on from, of this project
  assay clean --snapshots --all-projects   of every project on this engine
  assay clean --images                     what can be built or copied again and no run still needs

\b
Containers of ended runs and snapshots that no run can go on from are removed whatever their project."""


@click.command("clean", epilog=EXAMPLES)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--force", is_flag=True, help="Also of runs that assay recover could still finish: they are lost.")
@click.option(
    "--snapshots", is_flag=True, help="Also snapshots that a run of this project could still be resumed from."
)
@click.option("--all-projects", is_flag=True, help="With --snapshots: those of every project on this engine.")
@click.option(
    "--images",
    is_flag=True,
    help="Also images that were built and copies of repositories, unless a run still needs them.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(dry_run: bool, force: bool, snapshots: bool, all_projects: bool, images: bool, as_json: bool) -> int:
    """Remove containers, images and copies of runs that are over.

    Only what carries our label, and only where the assay that made it has ended. Never a run's directory.
    """
    from assay.model.errors import EngineError, UsageError
    from assay.model.place import find_root
    from assay.sandbox.engine import Engine
    from assay.terminal.sanitise import one_line

    if all_projects and not snapshots:
        msg = "--all-projects widens --snapshots and would be ignored without it; write both, or leave it out"
        raise UsageError(msg)
    engine = Engine.connect()
    failed = 0
    verb = "would remove" if dry_run else "removed"
    things = [*_containers(engine, force), *_snapshots(engine, wanted=snapshots, everywhere=all_projects)]
    for thing in things:
        said = verb if thing.goes else "left"
        if thing.goes and not dry_run:
            try:
                _remove(engine, thing)
            except EngineError as error:
                said, failed = f"could not remove ({error})", failed + 1
        _tell(thing, one_line(said), as_json)
    # After the containers, which hold images and volumes; one that is still held is no failure.
    need = needed(engine, find_root(), force=force, snapshots=snapshots) if images else Needed()
    held = [*copies(engine, need, every=images), *(built(engine, need) if images else ())]
    for thing in held:
        said = verb if thing.goes else "left"
        if thing.goes and not dry_run:
            try:
                _remove(engine, thing)
            except EngineError as error:
                said = f"left ({error})"
        _tell(thing, one_line(said), as_json)
    if not things and not held and not images and not as_json:
        click.echo("nothing to remove")
    return 3 if failed else 0


def _tell(thing: Thing, said: str, as_json: bool) -> None:
    from assay.terminal.sanitise import one_line

    if as_json:
        click.echo(json.dumps({"what": said, "kind": thing.kind, "id": thing.id, "name": thing.name, "why": thing.why}))
    else:
        click.echo(f"{said} {thing.kind} {one_line(thing.name)}: {one_line(thing.why)}")


def _containers(engine: Engine, force: bool) -> Iterator[Thing]:
    from assay.run.owner import alive

    for found in engine.containers():
        labels = found.get("Labels") or {}
        owner = labels.get("assay.owner")
        if not owner:
            # Started by hand from an image of ours, which passes its label on.
            continue
        name = (found.get("Names") or [found["Id"][:12]])[0].lstrip("/")
        living = alive(owner)
        if living is None:
            yield Thing("container", found["Id"], name, f"its owner is on another machine ({owner})", goes=False)
        elif not living:
            recoverable = _recoverable(labels)
            why = "its assay has ended" + (", assay recover can finish the run" if recoverable else "")
            yield Thing("container", found["Id"], name, why, goes=force or not recoverable)


def _recoverable(labels: dict[str, str]) -> bool:
    """Whether the container belongs to a run that is kept and not committed."""
    from assay.model.errors import AssayError
    from assay.model.record import State
    from assay.run.record import read_record

    folder = _run_folder(labels)
    if folder is None:
        return False
    try:
        return read_record(folder).state is not State.COMMITTED
    except AssayError:
        return False


def _run_folder(labels: dict[str, str]) -> Path | None:
    from pathlib import Path

    project, run = labels.get("assay.project"), labels.get("assay.run")
    folder = Path(project) / "runs" / run if project and run else None
    return folder if folder is not None and folder.is_dir() else None


def _snapshots(engine: Engine, *, wanted: bool, everywhere: bool) -> Iterator[Thing]:
    """Snapshots that no run can be gone on with from any more; on demand also those that one could.

    Args:
        engine: Where they are.
        wanted: Whether those of this project go too.
        everywhere: And those of all others.
    """
    from assay.commands.snapshots import size_words, snapshots
    from assay.model.place import find_root
    from assay.run.owner import alive

    here = find_root()
    for one in snapshots(engine):
        # Another machine's project folder cannot be seen from here, and a living assay knows what it does.
        if alive(one.owner) is False and not _recoverable({"assay.project": str(one.project), "assay.run": one.run}):
            why = f"{one.why}, {size_words(one.size)}"
            option = "--snapshots" if one.project == here else "--snapshots --all-projects"
            if one.project != here:
                why += f", of {one.project}"
            if not one.needed or (wanted and (everywhere or one.project == here)):
                yield Thing("image", one.id, f"snapshot of {one.run}", why, goes=True)
            else:
                yield Thing("image", one.id, f"snapshot of {one.run}", f"{why}; {option} removes it", goes=False)


def _remove(engine: Engine, thing: Thing) -> None:
    from assay.sandbox.build import engine_words

    if thing.kind == "container":
        engine.remove(thing.id)
        return
    if thing.kind == "volume":
        from assay.sandbox.volumes import remove

        remove(engine, thing.id)
        return
    with engine_words(f"remove {thing.name}"):
        engine.api.remove_image(thing.id)
