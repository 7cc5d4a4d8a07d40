"""The planner: whatever happens, in whatever order, its promises hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.model.outcome import ExitCode
from assay.stage.plan import (
    Decision,
    Outcome,
    Place,
    Plan,
    Result,
    Rung,
    Slot,
    Standing,
    State,
    Step,
    decide,
    exit_code,
)

MEASURED = [Result.PASSED, Result.FAILED]
UNMEASURED = [Result.CUT, Result.UNMEASURED]

outcomes = st.builds(
    Outcome, st.sampled_from([*MEASURED, *UNMEASURED]), st.one_of(st.none(), st.floats(0, 3, allow_nan=False))
)
rungs = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(
    lambda counts: tuple(Rung(number, runs) for number, runs in enumerate(counts, 1))
)
plans = st.builds(
    Plan,
    ladders=st.integers(1, 3),
    rungs=rungs,
    jobs=st.integers(1, 6),
    stop_on_pass=st.booleans(),
    budget=st.one_of(st.none(), st.floats(0.1, 6)),
)


@dataclass
class World:
    """Carries decisions out and checks the promises at each step."""

    plan: Plan
    choose: Callable[[int], int]
    outcome: Callable[[], Outcome]
    kept: Callable[[Step], dict[int, Outcome]]
    state: State = field(default_factory=State)
    started: list[Slot] = field(default_factory=list)

    def run(self, steps: int = 1000) -> Decision:
        for _ in range(steps):
            decision = decide(self.plan, self.state)
            self.check(decision)
            if decision.over:
                return decision
            self.state.preparing |= set(decision.prepare)
            self.state.running |= set(decision.start)
            self.started += decision.start
            self.state.stopping |= set(decision.stop)
            self.happen()
        msg = "the stage never ends"
        raise AssertionError(msg)

    def check(self, decision: Decision) -> None:
        state, plan = self.state, self.plan
        assert len(state.running) + len(decision.start) <= plan.jobs
        assert len({*self.started, *decision.start}) == len(self.started) + len(decision.start), "a slot starts twice"
        for slot in decision.start:
            assert slot.step in state.kept, "not ready"
            passed = [s for s in state.kept if s.ladder == slot.ladder and self.passed(s)]
            assert not (plan.stop_on_pass and passed), "started although the ladder has its pass"
            for rung in plan.rungs:
                if rung.number < slot.rung:
                    results = [o.result for o in state.outcomes(Step(slot.ladder, rung.number))]
                    assert sum(r.measured for r in results) >= rung.runs, "climbed over an unmeasured rung"
            if plan.budget is not None:
                assert state.spent < plan.budget
                assert not state.cost_unknown
            assert not state.closed
        for slot in decision.stop:
            assert slot in state.running
            assert slot not in state.stopping, "asked twice"
            assert plan.stop_on_pass
            assert self.passed(slot.step)

    def passed(self, step: Step) -> bool:
        return Result.PASSED in [outcome.result for outcome in self.state.outcomes(step)]

    def happen(self) -> None:
        """One of the things that can happen next."""
        state = self.state
        waiting: list[Step | Slot] = [*sorted(state.preparing), *sorted(state.running)]
        assert waiting, "nothing is going on, and yet the stage is not over"
        thing = waiting[self.choose(len(waiting))]
        if isinstance(thing, Slot):
            state.running.discard(thing)
            outcome = self.outcome()
            if thing in state.stopping:
                outcome = Outcome(Result.SPARED, outcome.cost)
            elif state.closed:
                outcome = Outcome(Result.STOPPED, outcome.cost)
            state.ended[thing] = outcome
        else:
            state.preparing.discard(thing)
            state.kept[thing] = self.kept(thing)


def world(plan: Plan, data: st.DataObject) -> World:
    return World(
        plan,
        choose=lambda n: data.draw(st.integers(0, n - 1)),
        outcome=lambda: data.draw(outcomes),
        kept=lambda _: data.draw(st.dictionaries(st.integers(1, 5), outcomes, max_size=3)),
    )


@given(plans, st.data())
@settings(deadline=None, max_examples=300)
def test_promises_hold_whatever_happens(plan: Plan, data: st.DataObject) -> None:
    here = world(plan, data)
    decision = here.run()
    runs = {rung.number: rung.runs for rung in plan.rungs}
    for step, count in Counter(slot.step for slot in here.started).items():
        assert count <= runs[step.rung], "more runs than planned"
    for ladder, place in enumerate(decision.places):
        step = Step(ladder, place.rung)
        if place.standing is Standing.PASSED:
            assert here.passed(step)
            assert not [slot for slot in here.started if slot.ladder == ladder and slot.rung > place.rung]
        elif place.standing is Standing.DONE:
            for rung in plan.rungs:
                results = [o.result for o in here.state.outcomes(Step(ladder, rung.number))]
                assert sum(r.measured for r in results) >= rung.runs
        elif place.standing is Standing.HELD:
            assert {o.result for o in here.state.outcomes(step)} & {Result.CUT, Result.UNMEASURED}
        else:
            assert place.standing is Standing.BUDGET
            assert plan.budget is not None


@given(plans, st.integers(0, 12), st.data())
@settings(deadline=None, max_examples=200)
def test_nothing_starts_after_a_stop(plan: Plan, after: int, data: st.DataObject) -> None:
    here = world(plan, data)
    for _ in range(after):
        decision = decide(plan, here.state)
        if decision.over:
            return
        here.state.preparing |= set(decision.prepare)
        here.state.running |= set(decision.start)
        here.happen()
    here.state.closed = True
    running = len(here.state.running)
    decision = here.run()
    assert here.started == []
    stopped = [o for o in here.state.ended.values() if o.result is Result.STOPPED]
    assert len(stopped) <= running
    if stopped:
        assert exit_code(here.state, decision.places) == ExitCode.INTERRUPTED


@given(plans, st.data())
@settings(deadline=None, max_examples=100)
def test_the_same_again_goes_on_where_it_stopped(plan: Plan, data: st.DataObject) -> None:
    """Runs that were measured are never run again; with every run measured the second time, the ladder ends."""
    plan = Plan(plan.ladders, plan.rungs, plan.jobs, plan.stop_on_pass)
    first = world(plan, data)
    first.kept = lambda _: {}
    first.run()
    measured = {slot: o for slot, o in first.state.ended.items() if o.result.measured}

    second = world(plan, data)
    second.kept = lambda step: {slot.attempt: o for slot, o in first.state.ended.items() if slot.step == step}
    second.outcome = lambda: Outcome(Result.FAILED, 0.0)
    decision = second.run()
    assert not set(second.started) & set(measured)
    assert all(place.standing in (Standing.PASSED, Standing.DONE) for place in decision.places)
    runs = {rung.number: rung.runs for rung in plan.rungs}
    for step, count in Counter(slot.step for slot in second.started).items():
        assert count == runs[step.rung] - sum(slot.step == step for slot in measured)

    third = world(plan, data)
    both = {**first.state.ended, **second.state.ended}
    third.kept = lambda step: {slot.attempt: o for slot, o in both.items() if slot.step == step}
    third.run()
    assert third.started == []


# -- single decisions -----------------------------------------------------------------------------------------------


def ladder(*runs: int, **more: object) -> Plan:
    return Plan(1, tuple(Rung(n, count) for n, count in enumerate(runs, 1)), **more)  # type: ignore[arg-type]


def ended(**results: Result) -> State:
    """`r1_2=FAILED`: the second run of rung 1."""
    state = State()
    for name, result in results.items():
        rung, attempt = (int(part) for part in name[1:].split("_"))
        state.kept.setdefault(Step(0, rung), {})
        state.ended[Slot(0, rung, attempt)] = Outcome(result, 0.01)
    return state


def test_a_pass_stops_its_siblings() -> None:
    state = ended(r1_1=Result.PASSED)
    state.running = {Slot(0, 1, 2), Slot(0, 1, 3)}
    decision = decide(ladder(3, 1, jobs=3, stop_on_pass=True), state)
    assert decision.stop == (Slot(0, 1, 2), Slot(0, 1, 3))
    assert not decision.start
    assert not decision.over


def test_without_stop_on_pass_every_rung_runs() -> None:
    decision = decide(ladder(1, 1), ended(r1_1=Result.PASSED))
    assert decision.prepare == (Step(0, 2),)


def test_the_cheapest_rung_of_any_task_goes_first() -> None:
    plan = Plan(2, (Rung(1, 2), Rung(2, 2)), jobs=2)
    state = State(kept={Step(0, 1): {}, Step(0, 2): {}, Step(1, 1): {}})
    state.ended = {Slot(0, 1, n): Outcome(Result.FAILED, 0.0) for n in (1, 2)}
    assert decide(plan, state).start == (Slot(1, 1, 1), Slot(1, 1, 2))


def test_attempts_go_on_counting() -> None:
    state = State(kept={Step(0, 1): {1: Outcome(Result.FAILED, 0.0), 2: Outcome(Result.CUT, 0.0)}})
    assert decide(ladder(3, jobs=4), state).start == (Slot(0, 1, 3), Slot(0, 1, 4))


def test_a_rung_that_cannot_be_made_ready_ends_the_ladder() -> None:
    state = ended(r1_1=Result.FAILED)
    state.broken = {Step(0, 2)}
    decision = decide(ladder(1, 1, 1), state)
    assert decision.places == (Place(Standing.BROKEN, 2),)
    assert exit_code(state, decision.places) == ExitCode.UNMEASURED


@pytest.mark.parametrize(("spent", "starts"), [(0.0, True), (0.99, True), (1.0, False), (1.5, False), (None, False)])
def test_the_budget_stops_scheduling(spent: float | None, starts: bool) -> None:
    state = State(kept={Step(0, 1): {}})
    state.ended = {Slot(0, 1, 1): Outcome(Result.FAILED, spent)}
    decision = decide(ladder(2, budget=1.0), state)
    assert bool(decision.start) is starts
    if not starts:
        assert decision.places == (Place(Standing.BUDGET, 1),)
        assert exit_code(state, decision.places) == ExitCode.RESUMABLE


@pytest.mark.parametrize(
    ("results", "stop_on_pass", "code"),
    [
        ([Result.PASSED], True, 0),
        ([Result.FAILED], True, 1),
        ([Result.UNJUDGED], False, 0),
        ([Result.FAILED, Result.PASSED], False, 0),
        ([Result.CUT], True, 4),
        ([Result.UNMEASURED], True, 3),
        ([Result.UNMEASURED, Result.CUT], True, 4),
        ([Result.PASSED, Result.CUT], True, 0),
        ([Result.PASSED, Result.UNMEASURED], True, 0),
        ([Result.PASSED, Result.CUT], False, 4),
        ([Result.PASSED, Result.UNMEASURED], False, 3),
        ([Result.FAILED, Result.UNMEASURED], False, 3),
    ],
)
def test_exit_codes(results: list[Result], stop_on_pass: bool, code: int) -> None:
    plan = ladder(len(results), stop_on_pass=stop_on_pass)
    state = ended(**{f"r1_{n}": result for n, result in enumerate(results, 1)})
    decision = decide(plan, state)
    assert decision.over
    assert exit_code(state, decision.places) == code


def test_one_task_that_passed_makes_the_command_pass() -> None:
    plan = Plan(2, (Rung(1, 1),), stop_on_pass=True)
    state = State(kept={Step(0, 1): {}, Step(1, 1): {}})
    state.ended = {Slot(0, 1, 1): Outcome(Result.PASSED, 0.0), Slot(1, 1, 1): Outcome(Result.FAILED, 0.0)}
    assert exit_code(state, decide(plan, state).places) == ExitCode.DONE
    state.ended[Slot(1, 1, 1)] = Outcome(Result.CUT, 0.0)
    assert exit_code(state, decide(plan, state).places) == ExitCode.RESUMABLE
