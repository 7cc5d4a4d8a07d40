"""What the end of a checker means: pure rules. A checker-error is never a fail, and a forged exit 0 is never a pass."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from assay.model.outcome import Verdict


class Kind(StrEnum):
    """What a checker folder holds."""

    SHELL = "sh"
    PYTHON = "py"
    PYTEST = "pytest"

    @property
    def shown(self) -> str:
        """As a reader knows it."""
        return "pytest" if self is Kind.PYTEST else f"check.{self}"


@dataclass(frozen=True, slots=True)
class Graded:
    """What the checker said."""

    verdict: Verdict
    reason: str = ""
    score: float | None = None
    exit_code: int | None = None
    seconds: float = 0.0


def judge(kind: Kind, code: int | None, results: Mapping[str, bytes], seconds: float, clock: float) -> Graded:
    """What a checker's end means.

    Args:
        kind: What was run.
        code: Its exit code; None if its clock ended it.
        results: `score` and `report`, as far as they were written.
        seconds: How long it ran.
        clock: How long it was allowed to.
    """
    score, odd = _score(results.get("score"))

    def said(verdict: Verdict, reason: str = "") -> Graded:
        return Graded(verdict, reason, score if verdict in (Verdict.PASS, Verdict.FAIL) else None, code, seconds)

    if code is None:
        return said(Verdict.CHECKER_ERROR, f"the checker ran longer than its {clock:g} s")
    if kind is not Kind.SHELL and code in (0, 1) and "report.begun" not in results:
        return said(Verdict.CHECKER_ERROR, f"{kind.shown} did not start")
    if kind is Kind.PYTEST:
        verdict, reason = _pytest_verdict(code, results.get("report"))
    else:
        verdict, reason = _exit_verdict(code, kind)
        if verdict is Verdict.PASS and kind is Kind.PYTHON and "report" not in results:
            verdict, reason = Verdict.FAIL, "something the checker loaded ended it before it had finished"
    if odd and verdict in (Verdict.PASS, Verdict.FAIL):
        return Graded(Verdict.CHECKER_ERROR, odd, None, code, seconds)
    return said(verdict, reason)


def _exit_verdict(code: int, kind: Kind) -> tuple[Verdict, str]:
    if code == 0:
        return Verdict.PASS, ""
    if code == 1:
        return Verdict.FAIL, ""
    known = {
        70: "check.py broke: the exception came from the checker itself" if kind is Kind.PYTHON else "",
        71: "the left files could not be laid in place",
        126: f"{kind.shown} cannot be executed (a wrong first line?)",
        127: f"{kind.shown} or a command it needs is not in the image",
        137: "the checker was killed (out of memory?)",
    }
    why = known.get(code) or f"the checker exited with {code}"
    return Verdict.CHECKER_ERROR, f"{why}; only 0 is a pass and 1 a fail"


def _pytest_verdict(code: int, report: bytes | None) -> tuple[Verdict, str]:
    try:
        seen: dict[str, Any] = json.loads(report) if report is not None else {}
        counts = {key: int(seen.get(key) or 0) for key in ("passed", "failed", "skipped", "errors", "broken")}
    except (ValueError, TypeError, AttributeError):
        seen, counts = {}, {}
    if not seen:
        if code in (0, 1):
            return Verdict.FAIL, "pytest ended before its report: something it loaded ended the process"
        return _exit_verdict(code, Kind.PYTEST)
    total = counts["passed"] + counts["failed"] + counts["skipped"]
    tally = f"{counts['passed']} of {total} tests passed"
    if counts["broken"]:
        return Verdict.CHECKER_ERROR, "a test file of the checker could not be loaded"
    if counts["errors"]:
        return Verdict.FAIL, "a test file could not load what the agent should have left"
    if code == 0 and counts["failed"]:
        return Verdict.FAIL, f"{tally}, whatever the exit code says: something it loaded ended the process with 0"
    if code == 0:
        return (Verdict.PASS, tally) if counts["passed"] else (Verdict.FAIL, "no test passed: all were skipped")
    if code == 1:
        return Verdict.FAIL, tally
    if code == 5:
        return Verdict.CHECKER_ERROR, "the checker holds no test"
    return _exit_verdict(code, Kind.PYTEST)


def _score(data: bytes | None) -> tuple[float | None, str]:
    """The score that the checker wrote, and what is wrong with it."""
    if data is None or not data.strip():
        return None, ""
    text = data.decode("utf-8", "replace").strip()
    try:
        value = float(text)
    except ValueError:
        return None, f"$ASSAY_SCORE holds {text[:40]!r}, not a number"
    if not 0 <= value <= 1:
        return None, f"$ASSAY_SCORE holds {text[:40]}, not a number in [0, 1]"
    return value, ""
