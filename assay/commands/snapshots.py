"""Snapshots on the engine: of which run, how large, how old, and whether a run can still be gone on with from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.sandbox.engine import Engine


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One image that an unfinished run was kept in.

    Attributes:
        id: Of the image.
        run: Id of the run that it was taken of.
        project: Whose run it is.
        owner: Of the run, as in run.toml.
        size: Bytes that it takes beyond the image it was made from.
        made: When.
        needed: Whether a run can be gone on with from it.
        why: What of that run.
    """

    id: str
    run: str
    project: Path
    owner: str
    size: int
    made: datetime
    needed: bool
    why: str


def snapshots(engine: Engine, project: Path | None = None) -> Iterator[Snapshot]:
    """Every snapshot, or those of one project, newest first: one that another was made of comes after it.

    Raises:
        EngineError: The engine failed.
    """
    from assay.model.errors import EngineError
    from assay.sandbox.build import engine_words

    of = f"assay.project={project}" if project is not None else "assay.project"
    with engine_words("list snapshots"):
        found: list[dict[str, Any]] = engine.api.images(filters={"label": ["assay", "assay.snapshot", of]})
    known: dict[Path, dict[str, tuple[bool, str]]] = {}
    held: set[str] = set()
    for image in sorted(found, key=lambda image: int(image["Created"]), reverse=True):
        labels = image["Labels"]
        root = Path(labels["assay.project"])
        if root not in known:
            known[root] = _uses(root / "runs")
        try:
            with engine_words("look at a snapshot"):
                size = int(engine.api.history(image["Id"])[0]["Size"])
        except EngineError:
            if engine.image(image["Id"]) is None:
                continue  # another process has removed it since it was listed
            raise
        needed, why = known[root].get(image["Id"]) or _unnamed(root / "runs" / labels["assay.snapshot"])
        if image["Id"] in held and not needed:
            needed, why = True, f"{why}, and a later snapshot is made of it"
        if needed:
            held.add(image["ParentId"])
        made = datetime.fromtimestamp(int(image["Created"]), UTC)
        yield Snapshot(
            image["Id"], labels["assay.snapshot"], root, labels.get("assay.owner", ""), size, made, needed, why
        )


def _uses(runs: Path) -> dict[str, tuple[bool, str]]:
    """What each snapshot is good for, by its id; the last run that names it counts."""
    from assay.commands.words import resumable_when
    from assay.model.record import State
    from assay.run.find import all_runs
    from assay.run.record import resumed_by

    uses: dict[str, tuple[bool, str]] = {}
    found = {run["id"]: run for run in all_runs(runs)} if runs.is_dir() else {}
    for run in found.values():
        if image := run.get("snapshot"):
            by = resumed_by(runs / run["id"])
            if by is not None:
                going = by in found and found[by]["state"] != State.COMMITTED
                uses[image] = (going, f"resumed by {by}{', which is not over' if going else ''}")
            else:
                wanted = bool(run.get("resumable")) or run.get("repository") is not None
                uses[image] = (wanted, resumable_when(run) if wanted else "not resumable")
    return uses


def _unnamed(run: Path) -> tuple[bool, str]:
    """What a snapshot that no record names is good for: a run that was killed just then finds it by its label."""
    from assay.model.errors import ConfigError
    from assay.model.record import State
    from assay.run.record import read_record

    if not run.is_dir():
        return False, "the directory of its run is gone"
    try:
        over = read_record(run).state is State.COMMITTED
    except ConfigError:
        over = True
    return (False, "its run does not name it") if over else (True, "its run is not over, see assay recover")


def age(made: datetime) -> str:
    """How long ago, in the largest unit."""
    seconds = max(0, int((datetime.now(UTC) - made).total_seconds()))
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def size_words(size: int) -> str:
    """Bytes for a reader."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.0f} kB"
