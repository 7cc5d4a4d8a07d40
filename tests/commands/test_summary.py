"""The last word of a stage: which rung passed, what it cost, what the rest would have been."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.commands.summary import Prices, summary_lines
from assay.model.project import find_project
from assay.rehearsal.script import canonical
from assay.stage.climb import Climb, Climbed
from assay.stage.layout import Wanted, lay_out
from assay.stage.plan import Slot, State, Step, decide
from assay.stage.results import outcome_of

STAGE = """
[stage.up]
stop_on_pass = true
budget_usd = 1
rungs = [
  { agent = "claude", model = "claude-haiku-5-5" },
  { agent = "claude", model = "claude-sonnet-5-5" },
  { agent = "claude", model = "claude-opus-5-5", runs = 2 },
]
"""


@pytest.fixture
def what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Climb:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-real-key")
    (tmp_path / "assay.toml").write_text(STAGE)
    (tmp_path / "t/checker").mkdir(parents=True)
    (tmp_path / "t/prompt.md").write_text("Do.")
    (tmp_path / "t/checker/check.sh").write_text("exit 0")
    return lay_out(find_project(tmp_path), Wanted([tmp_path / "t"], stage="up"))


def run(name: str, ending: str = "finished", verdict: str | None = "fail", **more: Any) -> dict[str, Any]:
    known = {
        "id": name,
        "state": "committed",
        "ending": ending,
        "cost_usd": 0.25,
        "agent": "claude",
        "times": {},
        "tokens": {},
    }
    return {**known, **({"verdict": verdict} if verdict else {}), **more}


def told(what: Climb, runs: dict[Slot, dict[str, Any]], kept: frozenset[Slot] = frozenset()) -> str:
    state = State()
    for slot, facts in runs.items():
        state.kept.setdefault(slot.step, {})
        if slot in kept:
            state.kept[slot.step] = {slot.attempt: outcome_of(facts)}
        else:
            state.ended[slot] = outcome_of(facts)
    climbed = Climbed(state, decide(what.plan, state).places, dict(runs), set(kept))
    history = [run(f"h{cost}", model="claude-opus-5-5", cost_usd=cost) for cost in (1.0, 3.0)]
    return "\n".join(summary_lines(what, climbed, Path("runs"), Prices.of(history)))


def test_what_the_rest_would_have_cost(what: Climb) -> None:
    text = told(what, {Slot(0, 1, 1): run("a"), Slot(0, 2, 1): run("b", verdict="pass")})
    assert "rung 3  claude claude-opus-5-5    never started (2 runs, about $4.00)" in text
    assert "→ rung 2 passed; 1 dearer rung never started" in text
    assert "2 runs, $0.5000" in text


def test_a_rehearsal_would_have_cost_nothing(what: Climb) -> None:
    played = canonical()
    rehearsed = replace(what, jobs={step: replace(job, script=played) for step, job in what.jobs.items()})
    text = told(rehearsed, {Slot(0, 1, 1): run("a", verdict="pass", rehearsal=True)})
    assert [line.split("  ")[-1] for line in text.splitlines() if "never started (" in line] == [
        "never started (1 run)",
        "never started (2 runs)",
    ]


def test_earlier_runs_are_told_as_such_and_not_as_spent(what: Climb) -> None:
    text = told(what, {Slot(0, 1, 1): run("a"), Slot(0, 2, 1): run("b", verdict="pass")}, frozenset([Slot(0, 1, 1)]))
    assert "(earlier) ✗ fail" in text
    assert "1 run, $0.2500; 1 earlier" in text


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (run("b", "session-limit", None, resumable=True), ["could not be measured (session-limit)", "assay resume"]),
        (
            run("b", "finished", "checker-error"),
            ["could not be measured (checker-error), so the ladder does not climb"],
        ),
        (run("b", "finished", "fail", cost_usd=0.75), ["stopped at rung 3: $1.00 of $1 are spent"]),
        (run("b", "finished", "fail", cost_usd=None), ["a run's cost is unknown, so a budget of $1 cannot be kept"]),
    ],
)
def test_why_a_ladder_does_not_climb(what: Climb, last: dict[str, Any], words: list[str]) -> None:
    text = told(what, {Slot(0, 1, 1): run("a"), Slot(0, 2, 1): last})
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("verdict", "cost", "words"),
    [
        ("pass", 0.25, "nothing was started: every run that was asked for is there already; --again starts over"),
        ("fail", 1.5, "nothing was started: the earlier runs have spent the budget of $1; raise it to go on"),
        ("fail", None, "nothing was started: with budget_usd the cost of every earlier run must be known; leave it"),
    ],
)
def test_why_nothing_was_started(what: Climb, verdict: str, cost: float | None, words: str) -> None:
    """Whether everything is there already, or the budget holds it back."""
    slot = Slot(0, 1, 1)
    assert words in told(what, {slot: run("a", verdict=verdict, cost_usd=cost)}, frozenset([slot]))


def test_nothing_started_after_a_stop_claims_nothing(what: Climb) -> None:
    slot, facts = Slot(0, 1, 1), run("a")
    state = State(kept={slot.step: {1: outcome_of(facts)}}, closed=True)
    climbed = Climbed(state, decide(what.plan, state).places, {slot: facts}, {slot})
    assert list(summary_lines(what, climbed, Path("runs"), Prices({})))[-1] == "nothing was started"


def test_a_rung_under_way_is_no_end(what: Climb) -> None:
    state = State(kept={Step(0, 1): {}}, running={Slot(0, 1, 1)})
    assert not decide(what.plan, state).over
