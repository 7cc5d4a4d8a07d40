"""The local executor on the real engine: runs side by side, a pass that stops its siblings, stops of every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assay.model.outcome import RUNG_PASSED, Ending, Verdict
from assay.model.project import find_project
from assay.model.record import State
from assay.model.registry import Choice
from assay.model.task import load_task
from assay.run import prepare
from assay.run.record import read_record
from assay.sandbox.engine import Engine
from assay.stage.climb import Climb, Climbed, climb
from assay.stage.earlier import Earlier
from assay.stage.executor import Acted, Began, Happening, LocalExecutor, Start, Work
from assay.stage.plan import Plan, Rung, Slot, Step
from tests.conftest import MakeProject

pytestmark = [pytest.mark.docker, pytest.mark.timeout(180)]

SLEEP = "echo started; sleep 300"


class PerAttempt(LocalExecutor):
    """Each run of a rung has a command of its own."""

    commands: dict[int, str]
    running: list[Slot]

    def submit(self, work: Work) -> None:
        if isinstance(work, Start):
            self.running.append(work.slot)
            work = replace(work, job=replace(work.job, command=self.commands[work.slot.attempt]))
        super().submit(work)


class Onlooker:
    """Calls a function with each happening."""

    def __init__(self, on: Callable[[Happening], None] = lambda _: None) -> None:
        self.happened = on

    def decided(self, climbed: Climbed) -> None:
        """Nothing to see."""


@pytest.fixture
def stage(project: MakeProject) -> Iterator[Callable[..., tuple[Climb, PerAttempt, Path]]]:
    made: list[PerAttempt] = []

    def make(commands: dict[int, str], *, rungs: int = 1, jobs: int = 4) -> tuple[Climb, PerAttempt, Path]:
        here = project({"tasks/t/prompt.md": "Do.", "tasks/t/checker/check.sh": "#!/bin/sh\n[ -e ok ] || exit 1\n"})
        found, task = find_project(here.root), load_task(here.root / "tasks/t")
        executor = PerAttempt(Engine.connect(), found, jobs)
        executor.commands, executor.running = commands, []
        made.append(executor)
        job = replace(prepare.check(found, task, Choice("script"), command="true"), stage="s")
        plan = Plan(1, tuple(Rung(n, len(commands)) for n in range(1, rungs + 1)), jobs, stop_on_pass=True)
        steps = {Step(0, rung.number): replace(job, rung=rung.number) for rung in plan.rungs}
        return Climb("s", (task,), plan, steps), executor, here.root / "runs"

    yield make
    for executor in made:
        executor.stop(None, "the test is over", hard=True)
        executor.close()


MakeStage = Callable[..., tuple[Climb, PerAttempt, Path]]


def test_a_pass_stops_its_siblings_within_seconds(stage: MakeStage) -> None:
    started: set[Slot] = set()
    what, executor, runs = stage({1: SLEEP, 2: "touch ok", 3: SLEEP}, rungs=2)

    climbed = climb(
        what, executor, Earlier(), Onlooker(lambda h: started.add(h.slot) if isinstance(h, Began) else None)
    )

    assert climbed.exit_code == 0
    assert {slot.rung for slot in started} == {1}, "a dearer rung started"
    records = {slot: read_record(runs / run["id"]) for slot, run in climbed.runs.items()}
    assert all(record.state is State.COMMITTED for record in records.values())
    passed = records.pop(Slot(0, 1, 2))
    assert passed.verdict is Verdict.PASS
    assert passed.times.committed is not None
    for record in records.values():
        assert (record.ending, record.reason, record.verdict) == (Ending.INTERRUPTED, RUNG_PASSED, None)
        assert not record.resumable
        assert record.left == "complete", "files of a stopped run are kept"
        assert record.times.ended is not None
        assert (record.times.ended - passed.times.committed).total_seconds() < 3


def test_a_stop_interrupts_all_that_runs_and_starts_nothing(stage: MakeStage) -> None:
    what, executor, runs = stage(dict.fromkeys(range(1, 7), SLEEP), jobs=3)
    acted: set[Slot] = set()

    def stop_when_three_work(happening: Happening) -> None:
        if isinstance(happening, Acted):
            acted.add(happening.slot)
            if len(acted) == 3:
                executor.stop(None, "enough")

    climbed = climb(what, executor, Earlier(), Onlooker(stop_when_three_work))

    assert climbed.exit_code == 130
    assert len(executor.running) == 3
    assert {read_record(path).reason for path in runs.iterdir() if path.is_dir()} == {"enough"}


def test_what_was_measured_is_not_run_again(stage: MakeStage) -> None:
    from assay.run.find import all_runs

    what, executor, runs = stage({1: "true", 2: "true"})
    first = climb(what, executor, Earlier(), Onlooker())
    assert first.exit_code == 1
    assert len(executor.running) == 2

    executor.running.clear()
    again = climb(what, executor, Earlier(list(all_runs(runs)), "s"), Onlooker())
    assert executor.running == []
    assert again.exit_code == 1
    assert {run["id"] for run in again.runs.values()} == {run["id"] for run in first.runs.values()}


class Absent:
    """An engine that fails in a way that nobody foresaw."""

    def __getattr__(self, name: str) -> object:
        raise ZeroDivisionError(name)


@pytest.mark.timeout(30)
def test_whatever_goes_wrong_in_a_thread_is_told(stage: MakeStage) -> None:
    what, executor, _ = stage({1: "true"})
    executor._engine = Absent()  # type: ignore[assignment]
    with pytest.raises(ZeroDivisionError):
        climb(what, executor, Earlier(), Onlooker())
