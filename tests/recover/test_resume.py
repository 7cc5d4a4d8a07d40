"""`assay resume`: what it goes on with, what it refuses and why, and that one of two wins."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import tomli_w

from assay.model.outcome import Tokens
from assay.model.record import RunRecord, Times
from assay.model.units import show_moment
from assay.run.chain import total
from tests.project import Project
from tests.recover.conftest import MakeDrip
from tests.recover.drip import AGENT, RUN, assert_nothing_left, eventually, record, steps_of

pytestmark = pytest.mark.docker


def interrupted(here: Project, steps: int = 2) -> Path:
    running = here.start(*RUN)
    eventually(lambda: here.runs and len(steps_of(here.runs[-1])) >= steps)
    running.signal(signal.SIGINT)
    running.finish().assert_code(130)
    return here.runs[-1]


def rewritten(run: Path, **values: object) -> None:
    """Another record in the place of a run's own."""
    data = {k: v for k, v in {**record(run), **values}.items() if v is not None}
    times = data.pop("times")
    tokens = {"tokens": data.pop("tokens")} if "tokens" in data else {}
    (run / "run.toml").write_text(tomli_w.dumps({**data, **tokens, "times": times}))


@pytest.mark.timeout(150)
def test_one_of_two_wins(drip: MakeDrip) -> None:
    here = drip("steps=15\ndelay=0.1\n")
    run = interrupted(here)
    both = [here.start("resume", str(run), "-q") for _ in range(2)]
    ended = sorted((one.finish() for one in both), key=lambda outcome: outcome.code)
    ended[0].assert_code(0).assert_says("pass")
    assert ended[1].code in (2, 3)
    ended[1].assert_says("was resumed already", "resume that one")
    assert len(here.runs) == 2
    assert_nothing_left(here)

    here.run("resume", str(run)).assert_refused("resumed already", here.runs[1].name)
    here.run("resume", "last").assert_refused("ended as finished", "is a result")


@pytest.mark.timeout(150)
def test_what_it_is_told_and_how_often(drip: MakeDrip) -> None:
    """Stopped twice: the chain is one story, its figures add up, and no snapshot outlives it."""
    here = drip("steps=20\ndelay=0.1\n")
    first = interrupted(here)
    running = here.start("resume", "last", "--prompt", "The API is back.", "-q")
    eventually(lambda: len(here.runs) == 2 and len(steps_of(here.runs[1])) >= 2)
    running.signal(signal.SIGINT)
    running.finish().assert_code(130)
    assert (here.runs[1] / "prompt.md").read_text() == "The API is back."
    newest = here.run("ls", "--snapshots", "--json").json()[-1]
    assert (newest["run"], newest["needed"]) == (here.runs[1].name, True)
    here.run("resume", "last", "-q").assert_code(0).assert_says("in all", "3 runs")
    assert (here.runs[2] / "prompt.md").read_text() == "Continue the task."
    assert [n for run in here.runs for n in steps_of(run)] == list(range(1, 21))
    here.run("ls", "--snapshots").assert_says("no snapshot")

    shown = here.run("show", "last", "--json").json()
    assert shown["chain"] == [run.name for run in here.runs]
    assert shown["total"]["seconds"] == pytest.approx(sum(record(run)["times"]["seconds"] for run in here.runs))
    here.run("show", "last").assert_says("resumed from", here.runs[1].name, "spent before", "in all")
    here.run("show", first.name).assert_says("resumed by", here.runs[1].name)


@pytest.mark.timeout(120)
def test_a_cli_that_begins_a_new_session_is_an_error(drip: MakeDrip) -> None:
    here = drip("steps=12\ndelay=0.1\nother=1\n")
    run = interrupted(here)
    here.run("resume", "last", "-q").assert_code(3).assert_says("crashed", "began a new session")
    second = record(here.runs[1])
    assert second["resumable"]
    assert (second["snapshot"], second["session"]) == (record(run)["snapshot"], record(run)["session"])


@pytest.mark.timeout(120)
def test_refusals_say_why(drip: MakeDrip) -> None:
    here = drip("steps=100\ndelay=0.1\n")
    running = here.start(*RUN)
    eventually(lambda: here.runs and len(steps_of(here.runs[-1])) >= 2)
    run = here.runs[0]
    here.run("resume", "last").assert_refused("still running")
    running.signal(signal.SIGINT)
    running.finish().assert_code(130)

    here.run("resume", "last", "--prompt", "/compact").assert_refused("slash command")
    here.run("resume", "last", "--prompt", " ").assert_refused("empty")
    lifts = datetime.now(UTC) + timedelta(hours=1)
    rewritten(run, ending="session-limit", reset_at=lifts)
    here.run("resume", "last").assert_refused(f"session limit lifts at {show_moment(lifts)};", "--force")
    (here.root / "runs" / "index.jsonl").unlink()
    here.run("ls").assert_says(f"resumable after {show_moment(lifts)}")
    rewritten(run, ending="interrupted", reason="rung passed", resumable=False)
    here.run("resume", "last").assert_refused("another run of its rung had passed")
    rewritten(run, ending="crashed", reason="exit code 1", resumable=False)
    here.run("resume", "last").assert_refused("no session to go on with")
    rewritten(run, ending="interrupted", reason="stopped by Ctrl-C", resumable=True, reset_at=None)
    del here.env["DRIP_KEY"]
    here.run("resume", "last").assert_refused("DRIP_KEY")
    (here.root / "tasks/drip/prompt.md").write_text("Something else.\n")
    here.run("resume", "last").assert_refused("has changed since")


@pytest.mark.timeout(120)
def test_another_version_of_the_agent_is_refused_before_anything_is_built(drip: MakeDrip) -> None:
    here = drip("steps=12\ndelay=0.1\n")
    run = interrupted(here)
    newer = AGENT.replace('version = "1"', 'version = "2"')
    here.write({"agents.toml": newer})
    refused = here.run("resume", "last").assert_refused(
        "agents.toml pins drip 2 now, and the run was 1", 'version = "1"'
    )
    assert "building" not in refused.out + refused.err
    assert here.runs == [run]
    # As the message says: a project's own entry need not be whole.
    here.write({"agents.toml": AGENT})
    here.run("resume", "last", "-q").assert_code(0).assert_says("pass")
    assert record(here.runs[1])["agent_version"] == record(run)["agent_version"] == "1"


def test_figures_of_a_chain_add_up() -> None:
    at = datetime(2026, 11, 30, tzinfo=UTC)
    known = RunRecord("a", tokens=Tokens(1, 2, None, 4), cost_usd=0.5, times=Times(started=at, seconds=1.5))
    unknown = RunRecord("b", tokens=Tokens(10, None, None, 40), times=Times(started=at, seconds=2.5))
    never = RunRecord("c")
    found = total([known, unknown, never])
    assert found.tokens == Tokens(11, 2, None, 44)
    assert (found.runs, found.seconds, found.cost_usd, found.cost_unknown) == (3, 4.0, 0.5, 1)
    assert total([never]).tokens is None
    assert total([never]).cost_usd is None
