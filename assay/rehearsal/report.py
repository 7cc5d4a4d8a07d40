"""What a stand-in was asked, and whether the CLI played its part. Pure: the record's bytes come from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.rehearsal.play import FAILING

FAULTS = {"fault": "the stand-in failed, which is a bug: ", "full": "the record is full, later requests are missing"}
"""Kinds of record lines that tell of the stand-in itself."""

UNHEARD = {"no TLS": "a connection got no TLS: ", "malformed": "a request could not be read: "}
"""Kinds that are no request: harmless beside others (some clients open a connection and leave), else the reason."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request that the stand-in was asked, as its record shows it.

    Attributes:
        kind: `main`, `subagent`, `side`; or why it was none: `no TLS`, `malformed`, `fault`, `full`.
        turn: Position of the turn that answered, None for a side request or beyond the script's end.
        how: `turn`, `repeat` (the CLI asked the same once more) or `beyond` (the script was over).
        problems: Expectations on tool results that this request showed to be unmet.
        outcome: `sent`, `cut`, `hung`, or `gone` if the client left; None while it is being answered.
        raw: The whole line.
    """

    kind: str
    method: str
    path: str
    turn: int | None
    how: str | None
    model: str | None
    effort: str | None
    tools: tuple[str, ...]
    status: int | None
    problems: tuple[str, ...]
    outcome: str | None
    raw: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Report:
    """What a rehearsal showed.

    Attributes:
        requests: All requests in order.
        problems: Why the CLI did not play its part: unmet expectations, turns never reached, requests beyond the end.
        next_turn: The turn to begin with when this conversation is resumed.
    """

    requests: list[Request]
    problems: list[str]
    next_turn: int


def read(data: bytes) -> list[Request]:
    """The requests in a record."""
    requests: dict[int, dict[str, Any]] = {}
    # The last line may be half written while the server runs.
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        entry = json.loads(line)
        requests.setdefault(entry["n"], {}).update(entry)
    return [_request(entry) for _, entry in sorted(requests.items()) if "kind" in entry]


def _request(entry: dict[str, Any]) -> Request:
    return Request(
        kind=entry["kind"],
        method=entry.get("method", ""),
        path=entry.get("path", ""),
        turn=entry.get("turn"),
        how=entry.get("how"),
        model=entry.get("model"),
        effort=entry.get("effort"),
        tools=tuple(entry.get("tools", ())),
        status=entry.get("status"),
        problems=tuple(problem for settled in entry.get("settled", ()) for problem in settled["problems"]),
        outcome=entry.get("outcome"),
        raw=entry,
    )


def judge(requests: list[Request], turns: list[dict[str, Any]], first: int = 0) -> Report:
    """Whether the CLI played its part of a script, and where a resumed conversation goes on."""
    played = {request.turn for request in requests if request.turn is not None}
    kinds = FAULTS if played else {**FAULTS, **UNHEARD}
    problems = [kinds[r.kind] + str(r.raw.get("error", "")) for r in requests if r.kind in kinds]
    awaited: dict[str, int] = {}
    for request in requests:
        for settled in request.raw.get("settled", ()):
            turn = awaited.pop(settled["call"], None)
            problems += [f"turn {(turn or 0) + 1}: {problem}" for problem in settled["problems"]]
        if request.turn is not None:
            awaited |= dict.fromkeys(request.raw.get("awaits", ()), request.turn)
    problems += [f"turn {turn + 1}: the result of call {call} never came" for call, turn in awaited.items()]
    unplayed = [n + 1 for n, _ in enumerate(turns) if n >= first and n not in played]
    if unplayed:
        problems.append(f"never reached: turn {', '.join(map(str, unplayed))}")
    if beyond := sum(request.how == "beyond" for request in requests):
        problems.append(f"{beyond} request{'' if beyond == 1 else 's'} came after the script's end")
    return Report(requests, problems, _next_turn(requests, turns, first))


def _next_turn(requests: list[Request], turns: list[dict[str, Any]], first: int) -> int:
    """The turn after the last one, or that one again if its answer was to be whole and did not get out."""
    reached = {r.turn: r for r in requests if r.turn is not None and not turns[r.turn].get("subagent")}
    if not reached:
        return first
    turn = max(reached)
    lost = reached[turn].outcome in (None, "gone") and not any(key in turns[turn] for key in FAILING)
    return turn if lost else turn + 1
