"""A stage under way: the planner's decisions carried out, and what happens told to whoever looks on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from assay.model.errors import AssayError
from assay.model.outcome import RUNG_PASSED
from assay.model.task import Task
from assay.run.job import Job
from assay.stage.earlier import Earlier
from assay.stage.executor import Asked, Ended, Executor, Happening, Prepare, Ready, Start, Unready
from assay.stage.plan import Decision, Outcome, Place, Plan, Result, Slot, State, Step, decide, exit_code
from assay.stage.results import outcome_of


@dataclass(frozen=True, slots=True)
class Climb:
    """What is to be done.

    Attributes:
        stage: Its name; None for runs of one agent outside any stage.
        tasks: One ladder each, in this order.
        jobs: The job of each rung of each ladder, validated, its images not yet built.
    """

    stage: str | None
    tasks: tuple[Task, ...]
    plan: Plan
    jobs: Mapping[Step, Job]

    def job(self, step: Step) -> Job:
        """The job of a rung."""
        return self.jobs[step]


@dataclass(slots=True)
class Climbed:
    """What came of it.

    Attributes:
        runs: Every run that counts or was started, by slot, as plain data (`RunRecord.to_toml`).
        kept: Slots of earlier runs among them.
        errors: Why a run or a rung could not be measured.
    """

    state: State = field(default_factory=State)
    places: tuple[Place, ...] = ()
    runs: dict[Slot, Mapping[str, Any]] = field(default_factory=dict)
    kept: set[Slot] = field(default_factory=set)
    errors: dict[Slot | Step, BaseException] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """What the program exits with."""
        return exit_code(self.state, self.places)


class View(Protocol):
    """Whoever looks on; called from one thread."""

    def happened(self, happening: Happening) -> None:
        """Something happened."""
        ...

    def decided(self, climbed: Climbed) -> None:
        """The planner decided, and what it wants started is among the running; `climbed` is what is known by now."""
        ...


def climb(what: Climb, executor: Executor, earlier: Earlier, view: View) -> Climbed:
    """Climb every ladder to its end.

    A run or a rung that could not be measured is among the errors; anything that is a bug is raised once everything
    else was stopped.
    """
    ready: dict[Step, Job] = {}
    climbed = Climbed()
    happenings = executor.events()
    bug: BaseException | None = None
    while True:
        decision = decide(what.plan, climbed.state)
        climbed.places = decision.places
        _carry_out(what, executor, climbed.state, decision, ready)
        view.decided(climbed)
        if decision.over:
            break
        changed = False
        while not changed:
            happening = next(happenings)
            changed = _take_in(climbed, happening, ready, earlier)
            view.happened(happening)
        error = happening.error if isinstance(happening, Ended | Unready) else None
        if error is not None and not isinstance(error, AssayError | OSError) and bug is None:
            bug = error
            executor.stop(None, "a bug stopped the command")
    if bug is not None:
        raise bug
    return climbed


def _carry_out(what: Climb, executor: Executor, state: State, decision: Decision, ready: Mapping[Step, Job]) -> None:
    for slot in decision.stop:
        state.stopping.add(slot)
        executor.stop(slot, RUNG_PASSED)
    for step in decision.prepare:
        state.preparing.add(step)
        executor.submit(Prepare(step, what.job(step)))
    for slot in decision.start:
        state.running.add(slot)
        executor.submit(Start(slot, replace(ready[slot.step], attempt=slot.attempt)))


def _take_in(climbed: Climbed, happening: Happening, ready: dict[Step, Job], earlier: Earlier) -> bool:
    """What happened, as the planner sees it; False if that is nothing new to it."""
    state = climbed.state
    if isinstance(happening, Ready):
        state.preparing.discard(happening.step)
        ready[happening.step] = happening.job
        found = earlier.runs(happening.job)
        state.kept[happening.step] = {attempt: outcome_of(run) for attempt, run in found.items()}
        for attempt, run in found.items():
            slot = Slot(*happening.step, attempt)
            climbed.runs[slot] = run
            climbed.kept.add(slot)
    elif isinstance(happening, Unready):
        state.preparing.discard(happening.step)
        state.broken.add(happening.step)
        climbed.errors[happening.step] = happening.error
    elif isinstance(happening, Ended):
        state.running.discard(happening.slot)
        outcome = Outcome(Result.UNMEASURED)
        if happening.record is not None:
            climbed.runs[happening.slot] = run = happening.record.to_toml()
            outcome = outcome_of(run) if happening.error is None else Outcome(Result.UNMEASURED, outcome_of(run).cost)
        if happening.error is not None:
            climbed.errors[happening.slot] = happening.error
        state.ended[happening.slot] = outcome
    elif isinstance(happening, Asked):
        state.closed = True
    else:
        return False
    return True
