"""Counting what an agent may make up without end, in bounded memory."""

from __future__ import annotations

MOST_KINDS = 256
"""Distinct names, addresses or server names kept; further ones are only counted together."""


class Tally:
    """How often each key was seen, first come first kept."""

    def __init__(self, most: int = MOST_KINDS) -> None:
        self.most = most
        self.counts: dict[str, int] = {}
        self.others = 0

    def add(self, key: str) -> None:
        """Count one sighting."""
        if key in self.counts or len(self.counts) < self.most:
            self.counts[key] = self.counts.get(key, 0) + 1
        else:
            self.others += 1

    @property
    def total(self) -> int:
        """All sightings, the ones beyond the limit included."""
        return sum(self.counts.values()) + self.others
