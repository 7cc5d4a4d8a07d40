"""Hand-written facts of recordings, as `tests/data/streams/<vendor>/facts.toml` states them, and their comparison."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

import orjson

from assay.decoders import get
from assay.model.events import Event, Exit, Facts
from assay.model.outcome import Tokens

STREAMS = Path(__file__).parent.parent / "data" / "streams"
INPUTS = {"exit", "stopped", "resumed", "ended_at", "session_file", "session_lines", "recordings", "name"}


@dataclass(frozen=True)
class Case:
    """One recording with the circumstances of its exit, and what must be known of it afterwards."""

    vendor: str
    recording: str
    given: dict[str, Any]
    expected: dict[str, Any]

    def __str__(self) -> str:
        return str(self.given.get("name", self.recording))

    @property
    def path(self) -> Path:
        return STREAMS / self.vendor / f"{self.recording}.jsonl"

    @property
    def exit(self) -> Exit:
        folder = STREAMS / self.vendor
        stderr = folder / f"{self.recording}.stderr"
        session = None
        if name := self.given.get("session_file"):
            kept = (folder / name).read_bytes().splitlines(keepends=True)
            session = b"".join(kept[: self.given.get("session_lines")])
        ended_at = self.given.get("ended_at")
        return Exit(
            code=self.given["exit"],
            stderr=stderr.read_bytes() if stderr.exists() else b"",
            session_file=session,
            stopped=self.given.get("stopped", False),
            resumed=self.given.get("resumed", False),
            ended_at=ended_at and ended_at.astimezone(UTC),
        )


def cases(vendor: str) -> list[Case]:
    """Every case of one vendor's table."""
    return list(_cases(vendor))


def _cases(vendor: str) -> Iterator[Case]:
    table = tomllib.loads((STREAMS / vendor / "facts.toml").read_text(encoding="utf-8"))
    sessions = table.get("sessions", {})
    for case in table["case"]:
        given = {key: value for key, value in case.items() if key in INPUTS}
        for recording in case["recordings"]:
            expected = {key: value for key, value in case.items() if key not in INPUTS}
            if recording in sessions:
                expected["session"] = sessions[recording]
            yield Case(vendor, recording, given, expected)


def read(vendor: str, lines: list[bytes]) -> tuple[list[Event], Facts]:
    """All events of a stream, and what it states."""
    stream = get(vendor).decode(lines)
    events: list[Event] = []
    while True:
        try:
            events.append(next(stream))
        except StopIteration as end:
            return events, end.value


def check(case: Case) -> None:
    """The decoder knows what the table says, and claims nothing more."""
    _, facts = read(case.vendor, case.path.read_bytes().splitlines())
    facts = get(case.vendor).conclude(facts, case.exit)
    expected = dict(case.expected)
    reason = expected.pop("reason", "")
    if expected.get("session") == "any":
        # A recording that a command writes anew has another one each time.
        assert facts.session
        expected["session"] = facts.session
    assert (reason in facts.reason) if reason else not facts.reason, facts.reason
    assert _stated(facts) == {
        "ending": None, "error_kind": "", "reset_at": None, "session": None, "model": None, "effort": None,
        "cli_version": None, "turns": None, "tools": [], "tokens": None, "cost_usd": None, "text": "", **expected,
    }  # fmt: skip


def _stated(facts: Facts) -> dict[str, Any]:
    how = {True: "ok", False: "failed", None: "?"}
    return {
        "ending": facts.ending and facts.ending.value,
        "error_kind": facts.error_kind,
        "reset_at": facts.reset_at,
        "session": facts.session,
        "model": facts.model,
        "effort": facts.effort,
        "cli_version": facts.cli_version,
        "turns": facts.turns,
        "tools": [f"{use.name} {how[use.ok]}" for use in facts.tool_calls],
        "tokens": facts.tokens.as_dict() if isinstance(facts.tokens, Tokens) else None,
        "cost_usd": None if facts.cost_usd is None else round(facts.cost_usd, 9),
        "text": facts.text,
    }


def assert_kept(facts: Facts) -> None:
    """What is stated can be written down, and be read again by every reader of JSON."""
    known = {"tokens": facts.tokens and facts.tokens.as_dict(), "turns": facts.turns, "cost": facts.cost_usd}
    assert orjson.loads(orjson.dumps(known)) == known
