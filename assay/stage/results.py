"""What a kept run means for its ladder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.model.outcome import RUNG_PASSED, Ending, Verdict
from assay.model.registry import BUILT_IN
from assay.stage.plan import Outcome, Result

_CUT = (Ending.STALLED, Ending.SESSION_LIMIT, Ending.API_ERROR)


def outcome_of(run: Mapping[str, Any]) -> Outcome:
    """The outcome of a run, from its record as plain data (`RunRecord.to_toml`)."""
    cost = run.get("cost_usd")
    if cost is None and run.get("agent") in BUILT_IN:
        cost = 0.0
    return Outcome(_result(run), cost)


def _result(run: Mapping[str, Any]) -> Result:
    ending, verdict = run.get("ending"), run.get("verdict")
    if ending == Ending.INTERRUPTED:
        return Result.SPARED if run.get("reason") == RUNG_PASSED else Result.STOPPED
    if ending in _CUT:
        return Result.CUT
    if ending is None or not Ending(ending).graded:
        return Result.UNMEASURED
    verdicts = {Verdict.PASS: Result.PASSED, Verdict.FAIL: Result.FAILED, Verdict.NONE: Result.UNJUDGED}
    return verdicts.get(verdict, Result.UNMEASURED) if verdict is not None else Result.UNMEASURED
