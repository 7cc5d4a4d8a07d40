"""A climb with runs that take no time: what the executor tells is taken in, whatever it tells."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from assay.commands.views import progress
from assay.model.errors import BuildFailed, EngineError
from assay.model.outcome import RUNG_PASSED, Ending, Verdict
from assay.model.project import find_project
from assay.model.record import RunRecord, State
from assay.model.registry import Choice
from assay.model.task import load_task
from assay.run import prepare
from assay.run.job import Images, Job
from assay.stage.climb import Climb, Climbed, climb
from assay.stage.earlier import Earlier
from assay.stage.executor import Asked, Began, Ended, Happening, Prepare, Ready, Start, Unready, Work
from assay.stage.plan import Plan, Rung, Slot, Standing, Step

Facts = dict[str, object]
MakeClimb = Callable[..., Climb]

PASS: Facts = {"ending": Ending.FINISHED, "verdict": Verdict.PASS}
FAIL: Facts = {"ending": Ending.FINISHED, "verdict": Verdict.FAIL}
LIMIT: Facts = {"ending": Ending.SESSION_LIMIT}


class Scripted:
    """An executor whose runs end at once, as a table says; what is not in it runs on until it is stopped."""

    def __init__(self, ends: Mapping[Slot, Facts | Exception], broken: dict[Step, Exception] | None = None):
        self.ends, self.broken = ends, broken or {}
        self.started: list[Slot] = []
        self.stopped: list[tuple[Slot | None, str]] = []
        self.open: dict[Slot, RunRecord] = {}
        self.happened: deque[Happening] = deque()

    def submit(self, work: Work) -> None:
        if isinstance(work, Prepare):
            error = self.broken.get(work.step)
            self.happened.append(Unready(work.step, error) if error else Ready(work.step, ready(work)))
            return
        slot = work.slot
        self.started.append(slot)
        record = record_of(work)
        self.happened.append(Began(slot, record))
        end = self.ends.get(slot)
        if isinstance(end, Exception):
            self.happened.append(Ended(slot, record, end))
        elif end is not None:
            self.end(slot, record, **end)
        else:
            self.open[slot] = record

    def end(self, slot: Slot, record: RunRecord, **facts: object) -> None:
        self.happened.append(Ended(slot, replace(record, state=State.COMMITTED, **facts)))  # type: ignore[arg-type]

    def stop(self, slot: Slot | None, reason: str, *, hard: bool = False) -> None:
        self.stopped.append((slot, reason))
        if slot is None:
            self.happened.append(Asked(reason, hard))
        for known in [known for known in self.open if slot in (None, known)]:
            self.end(known, self.open.pop(known), ending=Ending.INTERRUPTED, reason=reason)

    def events(self) -> Iterator[Happening]:
        while self.happened:
            yield self.happened.popleft()
        msg = "the climb waits for something that never happens"
        raise AssertionError(msg)


class Onlooker:
    def __init__(self) -> None:
        self.seen: list[Happening] = []

    def happened(self, happening: Happening) -> None:
        self.seen.append(happening)

    def decided(self, climbed: Climbed) -> None:
        assert climbed.places


def ready(work: Prepare) -> Job:
    return replace(work.job, images=Images("task", f"image-{work.job.choice.agent}", "checker", "support"))


def record_of(work: Start) -> RunRecord:
    job = work.job
    return RunRecord(id=f"run-{work.slot}", task=job.task.name, stage=job.stage, agent=job.choice.agent, cost_usd=0.5)


@pytest.fixture
def make(tmp_path: Path) -> MakeClimb:
    (tmp_path / "prompt.md").write_text("Do it.")
    task, project = load_task(tmp_path), find_project(tmp_path)

    def climb_of(*runs: int, jobs: int = 4, stop_on_pass: bool = True) -> Climb:
        rungs = tuple(Rung(number, count) for number, count in enumerate(runs, 1))
        job = replace(prepare.check(project, task, Choice("nop")), stage="s")
        plan = Plan(1, rungs, jobs, stop_on_pass)
        return Climb("s", (task,), plan, {Step(0, rung.number): replace(job, rung=rung.number) for rung in rungs})

    return climb_of


def go(what: Climb, executor: Scripted, earlier: Earlier | None = None) -> Climbed:
    return climb(what, executor, earlier or Earlier(), Onlooker())


def slots(rung: int, *attempts: int) -> list[Slot]:
    return [Slot(0, rung, attempt) for attempt in attempts]


def test_a_pass_stops_siblings_and_dearer_rungs(make: MakeClimb) -> None:
    executor = Scripted({Slot(0, 1, 1): FAIL, Slot(0, 2, 2): PASS})
    climbed = go(make(1, 3, 1), executor)
    assert executor.started == [*slots(1, 1), *slots(2, 1, 2, 3)]
    assert sorted(executor.stopped) == [(Slot(0, 2, 1), RUNG_PASSED), (Slot(0, 2, 3), RUNG_PASSED)]
    assert climbed.places[0].standing is Standing.PASSED
    assert climbed.exit_code == 0


def test_runs_that_begin_are_counted_as_at_work(make: MakeClimb) -> None:
    what, lines = make(3, 1, jobs=2), []

    class Reader(Onlooker):
        line = ""

        def happened(self, happening: Happening) -> None:
            if isinstance(happening, Began):
                lines.append(self.line)

        def decided(self, climbed: Climbed) -> None:
            self.line = progress(what, climbed)

    climb(what, Scripted(dict.fromkeys([*slots(1, 1, 2, 3), *slots(2, 1)], FAIL)), Earlier(), Reader())
    assert [line.partition(" passed")[0] for line in lines] == [
        "s · rung 1 of 2 · 2 at work · 0 done · 0",
        "s · rung 1 of 2 · 2 at work · 1 done · 0",
        "s · rung 1 of 2 · 1 at work · 2 done · 0",
        "s · rung 2 of 2 · 1 at work · 3 done · 0",
    ]


def test_a_session_limit_holds_the_ladder(make: MakeClimb) -> None:
    executor = Scripted({Slot(0, 1, 1): FAIL, Slot(0, 1, 2): LIMIT})
    climbed = go(make(2, 1), executor)
    assert executor.started == slots(1, 1, 2)
    assert climbed.places[0].standing is Standing.HELD
    assert climbed.exit_code == 4


def test_an_engine_error_is_told_and_holds_the_ladder(make: MakeClimb) -> None:
    executor = Scripted({Slot(0, 1, 1): EngineError("gone"), Slot(0, 1, 2): FAIL})
    climbed = go(make(2, 1), executor)
    assert str(climbed.errors[Slot(0, 1, 1)]) == "gone"
    assert climbed.exit_code == 3


def test_a_build_that_fails_ends_the_ladder(make: MakeClimb) -> None:
    executor = Scripted({Slot(0, 1, 1): FAIL}, {Step(0, 2): BuildFailed("cli", "no room")})
    climbed = go(make(1, 1), executor)
    assert climbed.places[0].standing is Standing.BROKEN
    assert climbed.exit_code == 3


def test_a_bug_stops_the_others_and_is_raised(make: MakeClimb) -> None:
    executor = Scripted({Slot(0, 1, 1): ZeroDivisionError("a bug")})
    with pytest.raises(ZeroDivisionError):
        go(make(3), executor)
    assert executor.stopped == [(None, "a bug stopped the command")]
    assert not executor.open


def test_after_a_stop_nothing_starts(make: MakeClimb) -> None:
    executor = Scripted({})

    class Impatient(Onlooker):
        def happened(self, happening: Happening) -> None:
            if isinstance(happening, Began) and happening.slot.attempt == 2:
                executor.stop(None, "enough")

    climbed = climb(make(6, 1, jobs=2), executor, Earlier(), Impatient())
    assert executor.started == slots(1, 1, 2)
    assert climbed.places[0].standing is Standing.STOPPED
    assert climbed.exit_code == 130


def test_a_build_is_not_waited_for_after_a_stop(make: MakeClimb) -> None:
    class Building(Scripted):
        def submit(self, work: Work) -> None:
            assert isinstance(work, Prepare)
            self.stop(None, "no patience")

    executor = Building({})
    climbed = go(make(1), executor)
    assert climbed.places[0].standing is Standing.STOPPED
    assert climbed.exit_code == 130


def test_earlier_runs_count_only_for_the_very_same_thing(make: MakeClimb) -> None:
    what = make(1, 1)
    digest = what.tasks[0].digest
    same = {
        "id": "a",
        "state": "committed",
        "stage": "s",
        "task_digest": digest,
        "image": "image-nop",
        "agent": "nop",
        "fence": "closed",
        "rehearsal": False,
        "ending": "finished",
        "verdict": "fail",
        "times": {},
    }
    for key, other in [
        ("stage", "t"),
        ("task_digest", "x"),
        ("image", "x"),
        ("agent", "x"),
        ("model", "x"),
        ("effort", "high"),
        ("fence", "open"),
        ("rehearsal", True),
        ("state", "running"),
    ]:
        executor = Scripted({Slot(0, 1, 1): FAIL, Slot(0, 2, 1): FAIL})
        go(make(1, 1), executor, Earlier([{**same, key: other}], "s"))
        assert executor.started[0] == Slot(0, 1, 1), f"counted although {key} is another"
    executor = Scripted({})
    climbed = go(make(1, 1), executor, Earlier([same], "s"))
    assert executor.started == []
    assert climbed.exit_code == 1
    assert climbed.kept == {Slot(0, 1, 1), Slot(0, 2, 1)}


def test_a_run_that_was_gone_on_with_takes_the_place_of_the_first(make: MakeClimb) -> None:
    what = make(1)
    about: Facts = {"state": "committed", "stage": "s", "task_digest": what.tasks[0].digest, "image": "image-nop"}
    about |= {"agent": "nop", "fence": "closed", "rehearsal": False, "attempt": 1, "times": {}}
    cut = {**about, "id": "a", "ending": "session-limit", "cost_usd": 1.0}
    done = {**about, "id": "b", "ending": "finished", "verdict": "pass", "cost_usd": 0.25, "resumed_from": "a"}
    executor = Scripted({})
    climbed = go(what, executor, Earlier([cut, done], "s"))
    assert executor.started == []
    assert climbed.exit_code == 0
    assert climbed.state.spent == 1.25
