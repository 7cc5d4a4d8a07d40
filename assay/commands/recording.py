"""Recordings of a CLI's stream: kept as golden files, and compared when a new version writes them anew."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.model.events import Event, Progress, ToolCall, ToolResult

CHECKOUT = Path("tests", "data", "streams")
"""Golden files of Assay itself, by decoder; another project keeps its own in `recordings/`."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What one CLI printed, and what its decoder makes of it.

    Attributes:
        decoder: Name of the decoder.
        title: Agent and version, for a reader.
        stdout: The raw stream.
        stderr: As it was.
    """

    decoder: str
    title: str
    stdout: bytes
    stderr: bytes = b""

    @classmethod
    def of_run(cls, run: Path, decoder: str, title: str) -> Recording:
        """What a run directory keeps."""
        return cls(decoder, title, (run / "events.jsonl").read_bytes(), (run / "stderr.log").read_bytes())

    def rendering(self, *, settled: bool = False) -> list[str]:
        """The transcript, line by line; settled: results of calls made side by side come in the order of the calls."""
        from assay import decoders
        from assay.terminal.transcript import lines

        events: Iterable[Event] = decoders.get(self.decoder).decode(self.stdout.splitlines())
        if settled:
            events = _in_order(events)
        return [text for event in events for line in lines(event) for text in line.text.split("\n")]

    def fields(self) -> list[str]:
        """Every field that occurs, as `kind of event: path`, sorted."""
        from assay.decoders.lines import records

        found: set[str] = set()
        for record in records(self.stdout.splitlines()):
            if isinstance(record, dict):
                kind = next((str(record[key]) for key in ("type", "event") if key in record), "no kind")
                found |= {f"{kind}: {path}" for path in _paths(record)}
        return sorted(found)


def _in_order(events: Iterable[Event]) -> Iterator[Event]:
    calls: dict[str, int] = {}
    results: list[ToolResult] = []
    for event in events:
        if isinstance(event, ToolResult):
            results.append(event)
            continue
        if isinstance(event, Progress):
            continue
        yield from sorted(results, key=lambda result: calls.get(result.id, 0))
        results.clear()
        if isinstance(event, ToolCall):
            calls[event.id] = len(calls)
        yield event
    yield from sorted(results, key=lambda result: calls.get(result.id, 0))


def _paths(value: Any, at: str = "") -> Iterator[str]:
    """Dotted paths of all fields; `[]` stands for any item of a list."""
    if isinstance(value, dict):
        for key, inner in value.items():
            path = f"{at}.{key}" if at else key
            yield path
            yield from _paths(inner, path)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, f"{at}[]")


@dataclass(frozen=True, slots=True)
class Golden:
    """Where one agent's recording is kept: the raw stream, what it is rendered to, stderr if there was any."""

    stream: Path

    @classmethod
    def of(cls, project: Path, agent: str, decoder: str) -> Golden:
        """In a checkout of Assay beside its other recordings, else in the project's `recordings/`."""
        folder = project / CHECKOUT if (project / CHECKOUT).is_dir() else project / "recordings"
        name = "rehearsal" if agent == decoder else f"rehearsal-{agent}"
        return cls(folder / decoder / f"{name}.jsonl")

    def read(self, decoder: str, title: str) -> Recording | None:
        """The kept recording, None if there is none."""
        if not self.stream.exists():
            return None
        stderr = self.stream.with_suffix(".stderr")
        return Recording(decoder, title, self.stream.read_bytes(), stderr.read_bytes() if stderr.exists() else b"")

    def write(self, recording: Recording) -> list[Path]:
        """Keep a recording; the files that were written."""
        from assay.run.record import write_atomic

        self.stream.parent.mkdir(parents=True, exist_ok=True)
        text = self.stream.with_suffix(".txt")
        write_atomic(self.stream, recording.stdout)
        write_atomic(text, "".join(f"{line}\n" for line in recording.rendering()).encode())
        written = [self.stream, text]
        stderr = self.stream.with_suffix(".stderr")
        if recording.stderr:
            write_atomic(stderr, recording.stderr)
            written.append(stderr)
        else:
            stderr.unlink(missing_ok=True)
        return written


def differences(old: Recording, new: Recording) -> list[str]:
    """What a new version broke, as two diffs: of the renderings, and of the fields that occur; empty if nothing."""
    said: list[str] = []
    for what, before, after in (
        ("rendering", old.rendering(settled=True), new.rendering(settled=True)),
        ("fields", old.fields(), new.fields()),
    ):
        context = 3 if what == "rendering" else 0
        names = (f"{old.title}: {what}", f"{new.title}: {what}")
        said += difflib.unified_diff(before, after, *names, n=context, lineterm="")
    return said
