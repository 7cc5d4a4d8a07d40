"""Whether a stage's budget can be kept: said before anything starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.stage.climb import Climb


def unpriced(what: Climb) -> list[str]:
    """Rungs whose runs' cost will not be known, for a reader; none where there is no budget to keep."""
    if what.plan.budget is None:
        return []
    found = {step.rung: job.choice for step, job in what.jobs.items() if not job.choice.cost_known}
    return [f"rung {number} ({choice.label})" for number, choice in sorted(found.items())]


def budget_warning(what: Climb) -> str | None:
    """What a user should know of a budget that cannot be kept, in one line; None if it can."""
    rungs = unpriced(what)
    if not rungs:
        return None
    verb, its = ("states", "its") if len(rungs) == 1 else ("state", "their")
    return (
        f"budget_usd: the CLI of {', '.join(rungs)} {verb} no cost, and {its} model has no usd_per_mtok (input, "
        "cached, output) in agents.toml: nothing new starts after the first such run; give prices, or leave "
        "budget_usd out"
    )
