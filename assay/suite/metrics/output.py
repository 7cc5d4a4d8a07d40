"""What the agent said, how long it took, what it cost."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction

from assay.model.score import Score
from assay.model.trajectory import Trajectory
from assay.suite.checks.expectation import excerpt
from assay.suite.patterns import MATCH_SECONDS, Pattern


@dataclass(frozen=True, slots=True)
class OutputContains:
    """Texts that the answer must contain, upper and lower case as given."""

    parts: tuple[str, ...]
    label: str = "output_contains"

    def score(self, prompt: str, trajectory: Trajectory) -> Score:  # noqa: ARG002 - one shape for all metrics
        """Look for each."""
        missing = [part for part in self.parts if part not in trajectory.output]
        return _share(missing, len(self.parts), "substrings present", trajectory.output)


@dataclass(frozen=True, slots=True)
class OutputRegex:
    """Patterns that must be found in the answer."""

    patterns: tuple[Pattern, ...]
    label: str = "output_regex"

    def score(self, prompt: str, trajectory: Trajectory) -> Score:  # noqa: ARG002
        """Search for each."""
        end = time.monotonic() + MATCH_SECONDS
        missing = [pattern.pattern for pattern in self.patterns if not pattern.search(trajectory.output, end)]
        return _share(missing, len(self.patterns), "patterns matched", trajectory.output)


def _share(missing: list[str], total: int, what: str, output: str) -> Score:
    detail = f"{total - len(missing)}/{total} {what}"
    if missing:
        detail += f": not {', '.join(excerpt(part) for part in missing[:3])}"
    return Score.of(total - len(missing), total, detail, {"output": output[:2000]} if missing else None)


@dataclass(frozen=True, slots=True)
class MaxLatency:
    """The most that the whole answer may take, in seconds."""

    most: float
    label: str = "max_latency"

    def score(self, prompt: str, trajectory: Trajectory) -> Score:  # noqa: ARG002
        """Compare in full; the detail shows tenths of milliseconds where it is too slow."""
        if trajectory.seconds is None:
            return Score.error("how long it took is not known in this trajectory")
        held = trajectory.seconds <= self.most
        took, most = trajectory.seconds * 1000, f"{self.most * 1000:g}ms"
        return Score.of(int(held), 1, f"{int(took)}ms <= {most}" if held else f"{took:.1f}ms > {most} (too slow)")


@dataclass(frozen=True, slots=True)
class MaxTokens:
    """The most tokens, in and out together."""

    most: int
    label: str = "max_tokens"

    def score(self, prompt: str, trajectory: Trajectory) -> Score:  # noqa: ARG002
        """Compare; unknown is an error, not a pass."""
        total = trajectory.tokens.total if trajectory.tokens is not None else None
        if total is None:
            return Score.error("tokens are not known in this trajectory")
        held = total <= self.most
        return Score.of(int(held), 1, f"{total} tokens {'<=' if held else '>'} {self.most}")


@dataclass(frozen=True, slots=True)
class MaxCost:
    """The most that the answer may cost, in US dollars."""

    most: Fraction
    label: str = "max_cost_usd"

    def score(self, prompt: str, trajectory: Trajectory) -> Score:  # noqa: ARG002
        """Compare; unknown is an error, not a pass."""
        if trajectory.cost_usd is None:
            return Score.error("the cost is not known in this trajectory")
        held = Fraction(str(trajectory.cost_usd)) <= self.most
        return Score.of(int(held), 1, f"${trajectory.cost_usd:.4f} {'<=' if held else '>'} ${float(self.most):.4f}")


@dataclass(frozen=True, slots=True)
class Answered:
    """Nothing is asked but that there is an answer."""

    label: str = "answered"

    def score(self, prompt: str, trajectory: Trajectory) -> Score:  # noqa: ARG002
        """An agent that failed never comes here."""
        return Score.of(1, 1, "no expectations")
