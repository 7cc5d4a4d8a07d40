"""Somebody who looks on and remembers."""

from __future__ import annotations

from assay.model.events import Event
from assay.model.record import RunRecord


class Recorder:
    """Remembers what a run tells."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Event]] = []
        self.told: list[str] = []

    def began(self, record: RunRecord) -> None:
        self.told.append(f"{record.id} began")

    def event(self, record: RunRecord, event: Event) -> None:
        self.events.append((record.id, event))

    def said(self, record: RunRecord, text: str) -> None:
        self.told.append(f"{record.id} {text}")

    def ended(self, record: RunRecord) -> None:
        self.told.append(f"{record.id} ended")
