"""Many runs of the same thing, told in a few figures. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.stage.plan import Result
from assay.stage.results import outcome_of

Run = Mapping[str, Any]

KEY = ("task", "stage", "rung", "agent", "model", "effort", "rehearsal")

Z = 1.959964
"""Two-sided 95 %."""


def wilson(passes: int, runs: int) -> tuple[float, float] | None:
    """The 95 % interval of a pass rate by Wilson's score, which holds for few runs and at 0 and 1; None for no run."""
    if runs == 0:
        return None
    rate, square = passes / runs, Z * Z
    centre = (rate + square / (2 * runs)) / (1 + square / runs)
    half = Z * math.sqrt(rate * (1 - rate) / runs + square / (4 * runs * runs)) / (1 + square / runs)
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return (0.0 if passes == 0 else low, 1.0 if passes == runs else high)


@dataclass(slots=True)
class Group:
    """Runs of one task by one agent, model and effort, in one stage or none; a rehearsal is never mixed in.

    Attributes:
        runs: As plain data, oldest first; one that was resumed is counted with the run that went on.
    """

    task: str
    stage: str | None
    rung: int | None
    agent: str
    model: str | None
    effort: str | None
    rehearsal: bool
    runs: list[Run] = field(default_factory=list)

    def _count(self, *results: Result) -> int:
        return sum(outcome_of(run).result in results for run in self.runs)

    @property
    def passes(self) -> int:
        """How many passed."""
        return self._count(Result.PASSED)

    @property
    def judged(self) -> int:
        """How many have a verdict of pass or fail: what a rate is a rate of."""
        return self._count(Result.PASSED, Result.FAILED)

    @property
    def unmeasured(self) -> int:
        """How many say nothing of the agent; those stopped because a sibling passed are not among them."""
        return self._count(Result.CUT, Result.UNMEASURED, Result.STOPPED)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's, of the pass rate."""
        return wilson(self.passes, self.judged)

    @property
    def endings(self) -> dict[str, int]:
        """How often each ending was seen, most often first."""
        return dict(Counter(str(run.get("ending") or "none") for run in self.runs).most_common())

    @property
    def seconds(self) -> float | None:
        """Median of the measured runs."""
        return _median(run["times"].get("seconds") for run in self._measured)

    @property
    def tokens(self) -> float | None:
        """Median of the measured runs' tokens, in and out."""
        return _median(total_tokens(run) for run in self._measured)

    @property
    def cost(self) -> float | None:
        """Median of the measured runs, in US dollars."""
        return _median(run.get("cost_usd") for run in self._measured)

    @property
    def spent(self) -> float:
        """Known cost of all runs, in US dollars."""
        return sum(run.get("cost_usd") or 0.0 for run in self.runs)

    @property
    def _measured(self) -> Iterator[Run]:
        return (run for run in self.runs if outcome_of(run).result.measured)

    def as_dict(self) -> dict[str, Any]:
        """JSON form; the interval is null where nothing was judged."""
        about = {key: getattr(self, key) for key in KEY}
        return {
            **about,
            "runs": len(self.runs),
            "passes": self.passes,
            "judged": self.judged,
            "unmeasured": self.unmeasured,
            "rate": self.passes / self.judged if self.judged else None,
            "interval": self.interval,
            "median_seconds": self.seconds,
            "median_tokens": self.tokens,
            "median_cost_usd": self.cost,
            "spent_usd": self.spent,
            "endings": self.endings,
            "ids": [run["id"] for run in self.runs],
        }


def groups(runs: Iterable[Run]) -> list[Group]:
    """Runs that are over, by what they have in common: sorted by task, stage and rung."""
    found: dict[tuple[Any, ...], Group] = {}
    for run in _joined([run for run in runs if run.get("state") == "committed"]):
        key = (run.get("task", ""), *(run.get(k) for k in KEY[1:-1]), bool(run.get("rehearsal")))
        found.setdefault(key, Group(*key)).runs.append(run)
    return sorted(
        found.values(), key=lambda g: (g.task, g.stage or "", g.rung or 0, g.agent, g.model or "", g.effort or "")
    )


def total_tokens(run: Run) -> int | None:
    """All tokens in and out; None where nothing is known."""
    kinds = run.get("tokens") or {}
    known = [kinds[kind] for kind in ("input", "cached", "cache_write", "output") if kind in kinds]
    return sum(known) if known else None


def _joined(runs: list[Run]) -> Iterator[Run]:
    """Each run with what went before it when it was resumed: one attempt, however often it was cut short."""
    by_id = {run["id"]: run for run in runs}
    superseded = {run["resumed_from"] for run in runs if run.get("resumed_from") in by_id}
    for run in runs:
        if run["id"] in superseded:
            continue
        whole, before = dict(run), run.get("resumed_from")
        while before in by_id:
            part = by_id[before]
            whole["cost_usd"] = _sum(part.get("cost_usd"), whole.get("cost_usd"))
            whole["tokens"] = Counter(part.get("tokens") or {}) + Counter(whole.get("tokens") or {})
            seconds = _sum(part["times"].get("seconds"), whole["times"].get("seconds"))
            whole["times"] = {**whole["times"], "seconds": seconds}
            before = part.get("resumed_from")
        yield whole


def _sum(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
