"""What a stage came to, told at its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from assay.terminal.sanitise import one_line

if TYPE_CHECKING:
    from assay.stage.climb import Climb, Climbed


def summary_lines(what: Climb, climbed: Climbed) -> Iterator[str]:
    """One line for each ladder."""
    for error in climbed.errors.values():
        yield one_line(f"error: {error}")
    for ladder, place in enumerate(climbed.places):
        if what.stage is not None:
            yield f"{what.tasks[ladder].name}: {place.standing} at rung {place.rung}"


def summary_json(climbed: Climbed) -> dict[str, Any]:
    """The same as one object."""
    return {"what": "summary", "exit_code": climbed.exit_code}
