"""What next? The pure half of a stage: ladders of rungs, what has ended, and what follows from it.

    decision = decide(plan, state)

Nothing here starts, waits or reads a clock. A rung is first made ready (its image built, earlier runs looked up), then
its runs are started; the next rung follows only when every planned run of this one was measured and none ended the
ladder. A run that could not be measured is not tried again by the same command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from assay.model.outcome import ExitCode


class Result(StrEnum):
    """What a run means for its ladder."""

    PASSED = "passed"
    FAILED = "failed"
    UNJUDGED = "unjudged"
    """The agent had its say, and the task has no checker."""
    CUT = "cut"
    """Session limit, API error, stall: can be gone on with."""
    UNMEASURED = "unmeasured"
    """Checker error, engine error, crash."""
    SPARED = "spared"
    """Stopped because a sibling passed."""
    STOPPED = "stopped"
    """Stopped by the user."""

    @property
    def measured(self) -> bool:
        """Whether the run counts among the planned ones of its rung."""
        return self in (Result.PASSED, Result.FAILED, Result.UNJUDGED)


class Standing(StrEnum):
    """Where a ladder is."""

    CLIMBING = "climbing"
    PASSED = "passed"
    """A pass ended it: dearer rungs never start."""
    DONE = "done"
    """Every run of every rung was measured."""
    HELD = "held"
    """A rung ended with a run that was not measured: the ladder does not climb."""
    BUDGET = "budget"
    """The budget is spent, or a run's cost is unknown."""
    STOPPED = "stopped"
    """The user stopped it."""
    BROKEN = "broken"
    """A rung could not be made ready."""


class Step(NamedTuple):
    """A rung of one ladder. `rung` is its number in the stage, from 1."""

    ladder: int
    rung: int


class Slot(NamedTuple):
    """One run of one rung of one ladder."""

    ladder: int
    rung: int
    attempt: int

    @property
    def step(self) -> Step:
        """The rung it belongs to."""
        return Step(self.ladder, self.rung)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run that has ended. `cost` is in US dollars, None where it is unknown."""

    result: Result
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Rung:
    """How many runs a rung has; `number` counts from 1 in the stage."""

    number: int
    runs: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for. Every task climbs a ladder of its own, all of them the same rungs."""

    ladders: int
    rungs: tuple[Rung, ...]
    jobs: int = 1
    stop_on_pass: bool = False
    budget: float | None = None


@dataclass(slots=True)
class State:
    """What has happened.

    Attributes:
        kept: Earlier runs of a rung that count, for each rung that is ready.
        preparing: Rungs that are being made ready.
        broken: Rungs that could not be made ready.
        running: Started and not ended.
        stopping: Those of them that were asked to stop, because a sibling passed.
        ended: Of this command.
        closed: The user asked to stop: nothing new is started.
    """

    kept: dict[Step, Mapping[int, Outcome]] = field(default_factory=dict)
    preparing: set[Step] = field(default_factory=set)
    broken: set[Step] = field(default_factory=set)
    running: set[Slot] = field(default_factory=set)
    stopping: set[Slot] = field(default_factory=set)
    ended: dict[Slot, Outcome] = field(default_factory=dict)
    closed: bool = False

    def outcomes(self, step: Step) -> list[Outcome]:
        """Every run of a rung that has ended, earlier ones included."""
        here = [outcome for slot, outcome in self.ended.items() if slot.step == step]
        return [*self.kept.get(step, {}).values(), *here]

    @property
    def all_outcomes(self) -> Iterator[Outcome]:
        """Every run that has ended, earlier ones included."""
        for kept in self.kept.values():
            yield from kept.values()
        yield from self.ended.values()

    @property
    def spent(self) -> float:
        """Known spend in US dollars."""
        return sum(outcome.cost or 0.0 for outcome in self.all_outcomes)

    @property
    def cost_unknown(self) -> bool:
        """Whether some run's cost is not known."""
        return any(outcome.cost is None for outcome in self.all_outcomes)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one ladder is, and at which rung (the last one it came to)."""

    standing: Standing
    rung: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now.

    Attributes:
        prepare: Rungs to make ready.
        start: Runs to start, cheapest rung first.
        stop: Runs to stop, because a sibling passed.
        places: Of each ladder.
    """

    prepare: tuple[Step, ...]
    start: tuple[Slot, ...]
    stop: tuple[Slot, ...]
    places: tuple[Place, ...]

    @property
    def over(self) -> bool:
        """Whether nothing is left to do or to wait for."""
        return all(place.standing is not Standing.CLIMBING for place in self.places)


def decide(plan: Plan, state: State) -> Decision:
    """What follows from what has happened."""
    spent_up = plan.budget is not None and (state.cost_unknown or state.spent >= plan.budget)
    prepare: list[Step] = []
    wanted: list[Slot] = []
    stop: list[Slot] = []
    places = []
    for ladder in range(plan.ladders):
        wish = _ladder(plan, state, ladder, spent_up)
        places.append(wish.place)
        prepare += wish.prepare
        wanted += wish.start
        stop += wish.stop
    order = {rung.number: index for index, rung in enumerate(plan.rungs)}
    wanted.sort(key=lambda slot: (order[slot.rung], slot.ladder, slot.attempt))
    free = max(0, plan.jobs - len(state.running))
    return Decision(tuple(prepare), tuple(wanted[:free]), tuple(stop), tuple(places))


@dataclass(slots=True)
class _Wish:
    place: Place
    prepare: list[Step] = field(default_factory=list)
    start: list[Slot] = field(default_factory=list)
    stop: list[Slot] = field(default_factory=list)


def _ladder(plan: Plan, state: State, ladder: int, spent_up: bool) -> _Wish:
    for rung in plan.rungs:
        step = Step(ladder, rung.number)
        running = sorted(slot for slot in state.running if slot.step == step)
        climbing = Place(Standing.CLIMBING, rung.number)
        if step in state.broken:
            return _Wish(Place(Standing.BROKEN, rung.number))
        if step not in state.kept:
            if state.closed or spent_up:
                # What is being made ready is not waited for: an image may take minutes.
                return _Wish(Place(Standing.STOPPED if state.closed else Standing.BUDGET, rung.number))
            if step in state.preparing:
                return _Wish(climbing)
            return _Wish(climbing, prepare=[step])
        results = [outcome.result for outcome in state.outcomes(step)]
        if plan.stop_on_pass and Result.PASSED in results:
            stop = [slot for slot in running if slot not in state.stopping]
            return _Wish(climbing if running else Place(Standing.PASSED, rung.number), stop=stop)
        missing = _missing(state, step, rung.runs)
        if missing and not state.closed and not spent_up:
            return _Wish(climbing, start=missing)
        if running:
            return _Wish(climbing)
        if state.closed and (missing or _any_stopped(state, step)):
            return _Wish(Place(Standing.STOPPED, rung.number))
        if missing:
            return _Wish(Place(Standing.BUDGET, rung.number))
        if sum(result.measured for result in results) < rung.runs:
            return _Wish(Place(Standing.HELD, rung.number))
    return _Wish(Place(Standing.DONE, plan.rungs[-1].number))


def _any_stopped(state: State, step: Step) -> bool:
    return any(slot.step == step and outcome.result is Result.STOPPED for slot, outcome in state.ended.items())


def _missing(state: State, step: Step, runs: int) -> list[Slot]:
    """Runs of a rung that were not started yet; their ordinals go on from the earlier runs'."""
    kept = state.kept[step]
    here = [slot.attempt for slot in (*state.ended, *state.running) if slot.step == step]
    count = runs - sum(outcome.result.measured for outcome in kept.values()) - len(here)
    last = max([0, *kept, *here])
    return [Slot(*step, attempt) for attempt in range(last + 1, last + 1 + count)]


def exit_code(state: State, places: tuple[Place, ...]) -> int:
    """What the program exits with: the worst of all ladders, but a pass in a stop_on_pass stage is 0."""
    codes: list[int] = []
    for ladder, place in enumerate(places):
        codes += _codes(state, ladder, place)
    results = {outcome.result for outcome in state.all_outcomes}
    if Result.PASSED in results or results == {Result.UNJUDGED}:
        codes = [code for code in codes if code != ExitCode.NOTHING_PASSED]
    return ExitCode.worst(codes)


def _codes(state: State, ladder: int, place: Place) -> list[int]:
    if place.standing is Standing.PASSED:
        return [ExitCode.DONE]
    codes = [ExitCode.NOTHING_PASSED]
    if state.closed and place.standing is not Standing.DONE:
        codes.append(ExitCode.INTERRUPTED)
    if place.standing is Standing.BUDGET:
        codes.append(ExitCode.RESUMABLE)
    if place.standing is Standing.BROKEN:
        codes.append(ExitCode.UNMEASURED)
    results = {outcome.result for slot, outcome in state.ended.items() if slot.ladder == ladder}
    if Result.CUT in results:
        codes.append(ExitCode.RESUMABLE)
    if Result.UNMEASURED in results:
        codes.append(ExitCode.UNMEASURED)
    if Result.STOPPED in results:
        codes.append(ExitCode.INTERRUPTED)
    return codes
