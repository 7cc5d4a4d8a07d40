"""The agent that a program of one's own hands over: `assay.main(agent)`."""

from __future__ import annotations

_registered: list[object] = []


def register(agent: object) -> None:
    """Make an agent the one that `assay agent` tests where nothing else is named."""
    _registered[:] = [agent]


def registered_agent() -> object | None:
    """The agent that was handed over; None if there is none."""
    return _registered[0] if _registered else None
