"""A run and those it goes on with: what they came to together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assay.model.errors import ConfigError
from assay.model.outcome import Tokens
from assay.model.record import RunRecord
from assay.run.record import read_record


@dataclass(frozen=True, slots=True)
class Total:
    """What several runs spent.

    Attributes:
        runs: How many.
        seconds: The agents' wall time.
        tokens: Kind by kind; None where nothing is known.
        cost_usd: The sum of what is known; None where nothing is.
        cost_unknown: How many of the runs started an agent and state no cost.
    """

    runs: int
    seconds: float
    tokens: Tokens | None
    cost_usd: float | None
    cost_unknown: int


def chain(runs: Path, record: RunRecord) -> list[RunRecord]:
    """A run and those it was resumed from, oldest first; one that is gone ends the chain."""
    found = [record]
    while (before := found[0].resumed_from) is not None:
        try:
            found.insert(0, read_record(runs / before))
        except ConfigError:
            break
    return found


def total(records: list[RunRecord]) -> Total:
    """The sum over several runs; a run's figures are its own alone, so nothing is counted twice."""
    tokens = [record.tokens for record in records if record.tokens is not None]
    costs = [record.cost_usd for record in records if record.cost_usd is not None]
    return Total(
        runs=len(records),
        seconds=round(sum(record.times.seconds or 0.0 for record in records), 3),
        tokens=sum(tokens[1:], tokens[0]) if tokens else None,
        cost_usd=sum(costs) if costs else None,
        cost_unknown=sum(record.cost_usd is None and record.times.started is not None for record in records),
    )
