"""What a run's fence saw, in a few lines: which names were asked, which addresses refused, how often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assay.terminal.sanitise import cut, one_line

SHOWN = 5
LONGEST = 60
"""Columns of one name: the agent chose it."""


def fence_words(path: Path, mode: str | None) -> str | None:
    """The fence's mode and, a line each, what was asked and refused; all of it is in the run's fence.json.

    Args:
        path: The run directory.
        mode: As the record has it.
    """
    report = _read(path / "fence.json")
    if mode is None or report is None:
        return mode
    return "\n".join([mode, *_lines(report)])


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    if report.get("complete") is False:
        yield "ended before it could report"
        return
    asked, unknown = _counts(report, "names_asked"), _counts(report, "names_refused")
    refused = {
        "no such name": unknown,
        "refused": _counts(report, "addresses_refused"),
        "wrong server": _counts(report, "servers_refused"),
        "refused request": _counts(report, "requests_refused"),
    }
    answered = {name: many for name, many in asked.items() if name not in unknown}
    for what, counts in {"answered": answered, **refused}.items():
        if counts:
            yield f"{what}: {_listed(counts)}"
    injected = report.get("requests_injected")
    if isinstance(injected, int):
        yield f"requests that got the credential: {injected}"
    packets = report.get("packets_refused")
    if packets and not refused["refused"]:
        yield f"refused: {packets} packets"
    elif not packets and not any(refused.values()):
        yield "refused nothing"


def _listed(counts: Mapping[str, int]) -> str:
    often = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    words = [f"{cut(one_line(name), LONGEST)} ({many})" for name, many in often[:SHOWN]]
    more = [f"{len(often) - SHOWN} more (--part network)"] if len(often) > SHOWN else []
    return ", ".join(words + more)


def _counts(report: Mapping[str, Any], key: str) -> dict[str, int]:
    found = report.get(key)
    return {name: many for name, many in found.items() if isinstance(many, int)} if isinstance(found, dict) else {}


def _read(file: Path) -> dict[str, Any] | None:
    import orjson

    try:
        known = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return known if isinstance(known, dict) else None
