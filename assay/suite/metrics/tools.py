"""tool_correctness and its relatives: the right tools, with the right arguments, in the right order?"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from assay.model.score import Score
from assay.model.trajectory import Call, Trajectory
from assay.suite.metrics.matching import any_order, by_position, in_order
from assay.suite.patterns import MATCH_SECONDS, Pattern
from assay.suite.schema import same

ORDERS = ("any", "in_order", "exact")
ARGS_MATCHES = ("ignore", "exact", "subset", "regex")
SCOPES = ("all", "root", "leaf")
_PAIRING = {"any": any_order, "in_order": in_order, "exact": by_position}


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call that should be there.

    Attributes:
        tool: Its name.
        args: What its arguments should be; None does not look at them.
        match: How arguments are compared: ignore, exact, subset (others may be there, at any depth), regex (texts are
            patterns that must be found).
        patterns: The compiled patterns of `regex`, argument to pattern.
    """

    tool: str
    args: Mapping[str, object] | None = None
    match: str = "ignore"
    patterns: Mapping[str, Pattern] = field(default_factory=dict)

    def agreement(self, call: Call, end: float) -> tuple[Fraction, str]:
        """How far a call agrees, and where it does not; `end` is the monotonic time by which that must be told.

        The tool's name counts as much as each argument: of a call with two arguments of which one is right, 2/3 agree.
        """
        if call.name != self.tool:
            return Fraction(0), ""
        if self.args is None or self.match == "ignore":
            return Fraction(1), ""
        given = call.args or {}
        wanted = list(self.args) + ([key for key in given if key not in self.args] if self.match == "exact" else [])
        wrong = [key for key in wanted if not self._argument_agrees(key, given, end)]
        value = Fraction(1 + len(wanted) - len(wrong), 1 + len(wanted))
        return value, "; ".join(self._difference(key, given) for key in wrong[:2])

    def _argument_agrees(self, key: str, given: Mapping[str, object], end: float) -> bool:
        if key not in given or self.args is None or key not in self.args:
            return False
        if key in self.patterns:
            value = given[key]
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            return self.patterns[key].search(text, end)
        return _within(self.args[key], given[key]) if self.match == "subset" else same(self.args[key], given[key])

    def _difference(self, key: str, given: Mapping[str, object]) -> str:
        if self.args is None or key not in self.args:
            return f"{key} is not expected"
        if key not in given:
            return f"{key} is missing"
        verb = "does not match" if key in self.patterns else "is not"
        return f"{key} = {_short(given[key])} {verb} {_short(self.args[key])}"


def _within(expected: object, actual: object) -> bool:
    """Whether a value has all that is expected; objects may have more keys, at any depth."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return all(key in actual and _within(value, actual[key]) for key, value in expected.items())
    return same(expected, actual)


def _short(value: object) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"


def in_scope(calls: Sequence[Call], scope: str) -> list[Call]:
    """The calls that a metric looks at.

    `root`: the main agent's own; `leaf`: those in which no other call was made; `actor:NAME`: one sub-agent's; `all`.
    """
    if scope == "root":
        return [call for call in calls if not call.actor and not call.parent]
    if scope == "leaf":
        parents = {call.parent for call in calls if call.parent}
        return [call for call in calls if not call.id or call.id not in parents]
    if scope.startswith("actor:"):
        return [call for call in calls if call.actor == scope.removeprefix("actor:")]
    return list(calls)


@dataclass(frozen=True, slots=True)
class ToolCorrectness:
    """Were the expected tools called?

    Attributes:
        tools: Names each of which must be among the called ones; one call satisfies a name however often it is listed.
        calls: Calls each of which must have a call of its own.
        order: any, in_order (others may come between) or exact (position by position, others may follow).
        extra: Whether other calls are allowed; if not, each lowers the score.
        scope: Which calls are looked at.
    """

    tools: tuple[str, ...] = ()
    calls: tuple[ExpectedCall, ...] = ()
    order: str = "any"
    extra: bool = True
    scope: str = "all"
    label: str = "tool_correctness"

    def score(self, prompt: str, trajectory: Trajectory) -> Score:  # noqa: ARG002 - one shape for all metrics
        """Pair and count."""
        done = in_scope(trajectory.calls, self.scope)
        names = {call.name for call in done}
        missing = [name for name in self.tools if name not in names]
        if unknown := self._unknown_arguments(done):
            return Score.error(f"the arguments of {unknown} are not known in this trajectory")
        end = time.monotonic() + MATCH_SECONDS
        weights = [[expected.agreement(call, end)[0] for call in done] for expected in self.calls]
        pairs = _PAIRING[self.order](weights)
        value = sum((weights[i][j] for i, j in enumerate(pairs) if j is not None), Fraction(0))
        value += len(self.tools) - len(missing)
        full = sum(j is not None and weights[i][j] == 1 for i, j in enumerate(pairs)) + len(self.tools) - len(missing)
        asked = len(self.tools) + len(self.calls)
        places = asked if self.extra else max(asked, len(done))
        reasons = [f"missing {name}" for name in missing] + self._reasons(done, pairs, end)
        if not self.extra:
            taken = {j for j in pairs if j is not None}
            others = [call.name for j, call in enumerate(done) if j not in taken]
            reasons += [f"not expected: {', '.join(others[:5])}"] if others else []
        what = f"{full}/{asked} expected tools called" if self.order == "any" else f"ordered: {full}/{asked} matched"
        called = ", ".join(call.name for call in done) or "(nothing)"
        detail = f"{what}: {'; '.join(reasons[:3])}" if reasons else what
        return Score.of(value, places, detail, {"called": called} if reasons else None)

    def _unknown_arguments(self, done: Sequence[Call]) -> str:
        wanted = {expected.tool for expected in self.calls if expected.args is not None and expected.match != "ignore"}
        return next((call.name for call in done if call.args is None and call.name in wanted), "")

    def _reasons(self, done: Sequence[Call], pairs: Sequence[int | None], end: float) -> list[str]:
        """What keeps each expected call from being matched in full."""
        out = []
        for i, (expected, j) in enumerate(zip(self.calls, pairs, strict=True)):
            if j is not None:
                _, why = expected.agreement(done[j], end)
                out += [f"{expected.tool}: {why}"] if why else []
            elif self.order == "exact":
                out.append(f"call {i + 1} is {done[i].name if i < len(done) else 'not there'}, not {expected.tool}")
            else:
                there = any(call.name == expected.tool for call in done)
                out.append(f"missing {expected.tool}" + (" in its place" if there and self.order != "any" else ""))
        return out


@dataclass(frozen=True, slots=True)
class ForbiddenTools:
    """Tools that must not be called."""

    tools: tuple[str, ...]
    scope: str = "all"
    label: str = "forbidden_tools"

    def score(self, prompt: str, trajectory: Trajectory) -> Score:  # noqa: ARG002
        """Look for them."""
        called = [call.name for call in in_scope(trajectory.calls, self.scope) if call.name in self.tools]
        if called:
            return Score.of(0, 1, f"called: {', '.join(dict.fromkeys(called))} ({_calls(len(called))})")
        return Score.of(1, 1, f"none of {', '.join(self.tools)} called")


@dataclass(frozen=True, slots=True)
class MaxCalls:
    """The most tool calls that are allowed."""

    most: int
    scope: str = "all"
    label: str = "max_calls"

    def score(self, prompt: str, trajectory: Trajectory) -> Score:  # noqa: ARG002
        """Count."""
        count = len(in_scope(trajectory.calls, self.scope))
        held = count <= self.most
        return Score.of(int(held), 1, f"{_calls(count)} {'<=' if held else '>'} {self.most}")
