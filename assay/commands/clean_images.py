"""What `assay clean --images` may take: images and copies that can be made again, but for what a run still needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.sandbox.engine import Engine

IMAGES = ("image", "task_image", "checker_image")
"""Keys of a record that name images."""


@dataclass(frozen=True)
class Thing:
    """Something of ours on the engine.

    Attributes:
        kind: `container`, `image` or `volume`.
        name: For a reader.
        why: Why it may go, or must stay.
        goes: Whether it is to be removed.
    """

    kind: str
    id: str
    name: str
    why: str
    goes: bool


@dataclass
class Needed:
    """What runs still need.

    Attributes:
        things: Ids of images and names of volumes, each with why it must stay.
        busy: Why everything must stay: what an assay has made ready for runs that are to come is in no record yet.
    """

    things: dict[str, str] = field(default_factory=dict)
    busy: str = ""

    def why(self, *names: str) -> str:
        """Why something must stay, "" if it need not."""
        return next((self.things[name] for name in names if name in self.things), self.busy)

    def add(self, runs: Iterable[Mapping[str, Any]], folder: Path, *, dead: bool, resumable: bool) -> None:
        """Take in what the runs of a project need.

        Args:
            runs: Their records as plain data.
            folder: Where they are kept.
            dead: Whether to heed runs that a killed assay left.
            resumable: Whether to heed runs that could be gone on with.
        """
        from assay.model.record import State
        from assay.run.owner import alive
        from assay.run.record import resumed_by

        for run in runs:
            why = ""
            if run["state"] != State.COMMITTED:
                living = alive(run.get("owner", ""))
                if living is not False:
                    self.busy = self.busy or f"an assay is at work that may need it ({run['id']})"
                if dead or living is not False:
                    why = f"{run['id']} is not over"
            elif resumable and run.get("resumable") and run.get("snapshot") and not resumed_by(folder / run["id"]):
                why = f"{run['id']} can be gone on with, by assay resume"
            if why:
                self.things |= {run[key]: why for key in (*IMAGES, "repository") if key in run}


def needed(engine: Engine, root: Path, *, force: bool, snapshots: bool) -> Needed:
    """What runs on this engine still need, of this project and of every other that shows there.

    Args:
        engine: Where to look.
        root: Of this project.
        force: Runs that a killed assay left are given up.
        snapshots: Runs that could be gone on with are given up.

    Raises:
        EngineError: The engine failed.
    """
    from assay.run.find import all_runs
    from assay.run.owner import alive

    found, roots = Needed(), {root}
    labels = [container.get("Labels") or {} for container in engine.containers()]
    for label in labels:
        if (owner := label.get("assay.owner")) and alive(owner) is not False:
            what = label.get("assay.run") or label.get("assay.role") or owner
            found.busy = found.busy or f"an assay is at work that may need it ({what})"
    labels += [image.get("Labels") or {} for image in images(engine, "assay.snapshot")]
    roots |= {Path(label["assay.project"]) for label in labels if "assay.project" in label}
    for one in roots:
        if (one / "runs").is_dir():
            found.add(all_runs(one / "runs"), one / "runs", dead=not force, resumable=not snapshots)
    return found


def built(engine: Engine, need: Needed) -> Iterator[Thing]:
    """Every image that can be built again, and what builds left that were cut short."""
    for found in images(engine, "assay.title"):
        labels = found.get("Labels") or {}
        if "assay.snapshot" in labels:
            continue
        stays = need.why(found["Id"])
        tags = [tag for tag in found.get("RepoTags") or [] if tag != "<none>:<none>"]
        for tag in tags:
            why = stays or f"can be built again ({labels['assay.title']})"
            yield Thing("image", tag, tag, why, goes=not stays)
        if not tags:
            yield Thing("image", found["Id"], found["Id"][7:19], stays or "left by a build", goes=not stays)


def copies(engine: Engine, need: Needed, *, every: bool) -> Iterator[Thing]:
    """Copies of repositories that were asked about: those whose folder is gone, or all."""
    from assay.run.owner import alive
    from assay.sandbox.volumes import listed

    for found in listed(engine, "assay.repository"):
        labels = found.get("Labels") or {}
        root, here = labels.get("assay.root", ""), alive(labels.get("assay.owner", "")) is not None
        if every or (here and not Path(root).is_dir()):
            stays = need.why(found["Name"])
            why = f"a copy of {root}" + (f"; {stays}" if stays else "" if every else ", which is gone")
            yield Thing("volume", found["Name"], found["Name"], why, goes=not stays)


def images(engine: Engine, label: str) -> list[dict[str, Any]]:
    """Our images that carry a label."""
    from assay.sandbox.build import engine_words

    with engine_words("list images"):
        found: list[dict[str, Any]] = engine.api.images(filters={"label": ["assay", label]})
    return found
