"""`assay agent init`: a suite made from what an agent did in a kept run."""

from __future__ import annotations

import math
from collections.abc import Mapping

from assay.model.trajectory import Call, Trajectory
from assay.suite.metrics.tools import in_scope
from assay.suite.write import suite_text

_MARGIN = 1.5
"""How much more than in the run is allowed: time, tokens, cost."""
_MOST_CALLS = 20
_LONGEST = 200


def write_agent_suite(run: str, name: str, prompt: str, trajectory: Trajectory) -> str:
    """The text of a suite that the run passes.

    Args:
        run: What the run is called; the suite names it as its agent.
        name: Of the case.
        prompt: What the agent was told.
        trajectory: What it did.
    """
    calls = in_scope(trajectory.calls, "root")
    case: dict[str, object] = {"name": name, "input": prompt}
    if 0 < len(calls) <= _MOST_CALLS:
        case |= {"order": "in_order", "scope": "root", "calls": [_expected(call) for call in calls]}
    elif calls:
        case |= {"scope": "root", "expect_tools": list(dict.fromkeys(call.name for call in calls))}
    case["max_calls"] = max(math.ceil(len(calls) * _MARGIN), 1)
    if trajectory.seconds is not None:
        case["max_latency"] = f"{max(math.ceil(trajectory.seconds * _MARGIN), 1)}s"
    if trajectory.tokens is not None and (total := trajectory.tokens.total):
        case["max_tokens"] = math.ceil(total * _MARGIN)
    if trajectory.cost_usd:
        case["max_cost_usd"] = round(math.ceil(trajectory.cost_usd * _MARGIN * 10000) / 10000, 4)
    remarks = [
        f"A suite from the run {run}, made by `assay agent init`. It passes on that run; loosen it for others.",
        f"Ceilings are {_MARGIN:g} times what the run took.",
    ]
    return suite_text({"threshold": 1.0, "agent": {"run": run}, "cases": [case]}, remarks)


def _expected(call: Call) -> dict[str, object]:
    """A call as it was, with the arguments that are short enough to be worth comparing."""
    args = {key: value for key, value in (call.args or {}).items() if _short(value)}
    return {"tool": call.name, **({"args": args, "args_match": "subset"} if args else {})}


def _short(value: object) -> bool:
    if isinstance(value, Mapping | list) or value is None:
        return False
    return not isinstance(value, str) or (len(value) <= _LONGEST and value.isprintable())
