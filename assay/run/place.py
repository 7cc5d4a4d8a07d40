"""Where an agent runs: the network around it, and who answers at the vendor's address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assay.run.job import Job
from assay.sandbox.engine import Engine

if TYPE_CHECKING:
    from assay.rehearsal.vendor import StandIn


@dataclass(slots=True)
class Place:
    """The surroundings of one run.

    Attributes:
        network: For the agent's container.
        ca_pem: Certificates the agent is to trust beside its own.
    """

    network: str = "none"
    hosts: Mapping[str, str] = field(default_factory=dict)
    ca_pem: bytes | None = None
    stand_in: StandIn | None = None

    def close(self) -> None:
        """Take it down."""
        if self.stand_in is not None:
            self.stand_in.stop()


def set_up(engine: Engine, job: Job, name: str, labels: Mapping[str, str]) -> Place:
    """Start what the agent needs around it.

    Raises:
        EngineError: The engine failed; nothing is left behind.
    """
    entry = job.choice.entry
    if job.script is None or entry is None or entry.rehearsal is None:
        return Place(ca_pem=job.ca)
    from assay.rehearsal import vendor

    stand_in = vendor.create(
        engine,
        job.images.support,
        entry.rehearsal,
        job.script,
        {**labels, "assay.role": "stand-in"},
        name=f"{name}-stand-in",
    )
    place = Place("bridge", ca_pem=stand_in.ca_pem, stand_in=stand_in)
    stand_in.wait_ready()
    place.hosts = dict.fromkeys(stand_in.hosts, stand_in.address)
    return place
