"""A kept run as a trajectory: its events read by its own decoder, its figures from its record."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

from assay.model.errors import UsageError
from assay.model.events import Event, Facts
from assay.model.outcome import Ending
from assay.model.record import RunRecord
from assay.model.trajectory import Trajectory


def kept_run(name: str) -> tuple[Path, RunRecord, Trajectory]:
    """The run that a path, a unique prefix or `last` means, and what its agent did.

    Raises:
        UsageError: There is no such run, it is not over, or it kept no events.
    """
    from assay import decoders
    from assay.model.project import find_project
    from assay.run.find import find_run
    from assay.run.record import read_record

    given = Path(name)
    path = given if (given / "run.toml").is_file() else find_run(find_project().runs, name)
    record = read_record(path)
    events = path / "events.jsonl"
    if record.decoder is None or not events.is_file():
        msg = (
            f"{path} kept no events that a decoder reads (agent {record.agent or 'unknown'}), so nothing can be graded"
        )
        raise UsageError(msg)
    if record.ending is None:
        msg = f"{path} is not over yet (state {record.state}); `assay recover` finishes what a killed assay left"
        raise UsageError(msg)
    facts: list[Facts] = []
    with events.open("rb") as lines:
        read = _events(decoders.get(record.decoder).decode(lines), facts)
        trajectory = Trajectory.from_events(
            read,
            seconds=record.times.seconds,
            tokens=record.tokens,
            cost_usd=record.cost_usd,
            error=_unusable(record),
        )
    if facts and facts[0].text:
        trajectory = replace(trajectory, output=facts[0].text)
    return path, record, trajectory


def _events(decoding: Generator[Event, None, Facts], facts: list[Facts]) -> Iterator[Event]:
    """The events of a stream; what it states as a whole is added to `facts` at its end."""
    facts.append((yield from decoding))


def _unusable(record: RunRecord) -> str:
    """Why the run says nothing about the agent; "" if the agent had its full say."""
    ending = record.ending
    if ending is None or ending.graded:
        return ""
    return f"the run ended in {Ending(ending)}" + (f": {record.reason}" if record.reason else "")
