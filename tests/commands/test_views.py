"""What is shown of runs while they go on."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from assay.commands.views import LiveView, label_of, progress
from assay.model.events import Text
from assay.model.outcome import Ending, Verdict
from assay.model.project import find_project
from assay.model.record import RunRecord
from assay.stage.climb import Climb, Climbed
from assay.stage.executor import Acted, Began, Ended, Told
from assay.stage.layout import Wanted, lay_out
from assay.stage.plan import Outcome, Result, Slot, State, Step, decide

STAGE = """
[stage.up]
stop_on_pass = true
budget_usd = 2
rungs = [{ agent = "nop" }, { agent = "oracle" }]
"""


@pytest.fixture
def tasks(tmp_path: Path) -> list[Path]:
    (tmp_path / "assay.toml").write_text(STAGE)
    for name in ("one", "two"):
        for file, text in (("prompt.md", "Do."), ("checker/check.sh", "exit 0"), ("solution/solve.sh", "true")):
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return [tmp_path / "one", tmp_path / "two"]


def climb_of(tasks: list[Path], runs: int | None = None) -> Climb:
    return lay_out(find_project(tasks[0].parent), Wanted(tasks, stage="up", runs=runs))


def shown(what: Climb, slot: Slot) -> list[str]:
    out = io.StringIO()
    view = LiveView(what, out)
    record = RunRecord(id="id", agent=what.jobs[slot.step].choice.agent)
    view.happened(Told(slot.step, "cli 1.0: building image"))
    view.happened(Told(slot.step, "cli 1.0: Step 3/8 : RUN something long"))
    view.happened(Began(slot, record))
    view.happened(Acted(slot, record, Text("working")))
    view.happened(Ended(slot, replace(record, ending=Ending.FINISHED, verdict=Verdict.FAIL)))
    view.close()
    return out.getvalue().splitlines()


def test_one_run_after_the_other_needs_no_labels(tasks: list[Path]) -> None:
    assert shown(climb_of(tasks[:1]), Slot(0, 2, 1)) == [
        "▪ cli 1.0: building image",
        "▪ rung 2, run 1: oracle",
        "working",
        "■ finished · fail",
    ]


def test_runs_side_by_side_are_told_apart(tasks: list[Path]) -> None:
    assert shown(climb_of(tasks[:1], runs=2), Slot(0, 1, 2)) == [
        " │ ▪ cli 1.0: building image",
        "1.2 nop │ working",
        "1.2 nop │ ■ finished · fail",
    ]
    assert label_of(climb_of(tasks), Slot(1, 2, 1)) == "two 2.1 oracle"


def test_the_ladders_are_told_in_one_line(tasks: list[Path]) -> None:
    what = climb_of(tasks[:1])
    state = State(kept={Step(0, 1): {1: Outcome(Result.FAILED, 0.5)}, Step(0, 2): {}}, running={Slot(0, 2, 1)})
    climbed = Climbed(state, decide(what.plan, state).places)
    assert progress(what, climbed) == "up · rung 2 of 2 · 1 at work · 0 done · 0 passed · $0.5000 of $2.00"
    both = climb_of(tasks)
    state = State(kept={Step(0, 1): {}}, ended={Slot(0, 1, 1): Outcome(Result.PASSED, 0.0)}, preparing={Step(1, 1)})
    assert progress(both, Climbed(state, decide(both.plan, state).places)).startswith(
        "up · 1 of 2 tasks done · 0 at work"
    )
