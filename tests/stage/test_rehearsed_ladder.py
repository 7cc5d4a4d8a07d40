"""A ladder climbed by a real CLI against the stand-in: what is spent, what never starts, what can be gone on with."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest

from assay.model.outcome import Ending
from assay.model.record import RunRecord
from assay.run.record import read_record
from assay.sandbox.engine import Engine
from tests.conftest import MakeProject
from tests.project import Outcome, Project

pytestmark = [pytest.mark.docker, pytest.mark.cli, pytest.mark.timeout(400)]

CHEAP, MIDDLE, DEAR = "claude-haiku-5-5", "claude-sonnet-5-5", "claude-opus-5-5"

PROJECT = {
    "tasks/t/prompt.md": "Write ok.",
    "tasks/t/checker/check.sh": "#!/bin/sh\n[ -e ok ] || exit 1\n",
    f"tasks/t/rehearsal/{CHEAP}.toml": '[[turn]]\ntext = "I give up."\n',
    f"tasks/t/rehearsal/{MIDDLE}.toml": '[[turn]]\nshell = "touch ok"\n[[turn]]\ntext = "Done."\n',
    f"tasks/t/rehearsal/{DEAR}.toml": '[[turn]]\nshell = "touch ok"\n[[turn]]\ntext = "Done."\n',
    "assay.toml": f"""
[stage.up]
rehearse = true
stop_on_pass = true
rungs = [
  {{ agent = "claude", model = "{CHEAP}" }},
  {{ agent = "claude", model = "{MIDDLE}" }},
  {{ agent = "claude", model = "{DEAR}" }},
]
[stage.thrifty]
rehearse = true
budget_usd = 0.00001
rungs = [{{ agent = "claude", model = "{CHEAP}", runs = 3 }}]
jobs = 1
""",
}


def summary(out: Outcome) -> Any:
    return json.loads(out.out.splitlines()[-1])


def records(here: Project) -> list[RunRecord]:
    return [read_record(path) for path in here.runs]


def containers_made(here: Project, since: float) -> set[str]:
    """Ids of this project's runs for which the engine made a container."""
    engine = Engine.connect()
    about = {"type": "container", "event": "create", "label": f"assay.project={here.root}"}
    events = engine.api.events(since=since, until=time.time() + 1, filters=about, decode=True)
    return {event["Actor"]["Attributes"]["assay.run"] for event in events}


def test_the_dearest_rung_never_starts(project: MakeProject) -> None:
    here, began = project(PROJECT), time.time()
    out = here.run("run", "tasks/t", "--stage", "up", "--json", timeout=300).assert_code(0)

    cheap, middle = records(here)
    assert (cheap.rung, cheap.model, cheap.verdict) == (1, CHEAP, "fail")
    assert (middle.rung, middle.model, middle.verdict) == (2, MIDDLE, "pass")
    assert cheap.rehearsal
    assert middle.rehearsal
    assert containers_made(here, began) == {cheap.id, middle.id}
    ladder = summary(out)["ladders"][0]
    assert (ladder["standing"], ladder["rung"]) == ("passed", 2)
    assert ladder["rungs"][2]["runs"] == []
    assert summary(out)["spent_usd"] == pytest.approx((cheap.cost_usd or 0) + (middle.cost_usd or 0))


def test_api_errors_hold_the_ladder_and_the_same_command_goes_on(project: MakeProject) -> None:
    here = project(PROJECT)
    script = f"tasks/t/rehearsal/{MIDDLE}.toml"
    good = PROJECT[script]
    here.write({script: '[[turn]]\nstatus = 400\nerror = "no credit"\ntimes = 20\n'})
    held = here.run("run", "tasks/t", "--stage", "up", timeout=300).assert_code(4)
    held.assert_says(
        "→ rung 2 could not be measured (api-error), so the ladder does not climb; the same command goes on"
    )
    assert [record.ending for record in records(here)] == [Ending.FINISHED, Ending.API_ERROR]

    here.write({script: good})
    here.run("run", "tasks/t", "--stage", "up", timeout=300).assert_code(0)
    assert [(record.rung, record.ending) for record in records(here)[2:]] == [(2, Ending.FINISHED)]


def test_a_session_limit_says_when_it_lifts(project: MakeProject) -> None:
    here = project(
        {**PROJECT, f"tasks/t/rehearsal/{CHEAP}.toml": '[[turn]]\nlimit = { resets_in = "2h" }\ntimes = 20\n'}
    )
    here.run("run", "tasks/t", "--stage", "up", timeout=300).assert_code(4).assert_says("session-limit", "assay resume")
    here.run("ls").assert_says("session-limit, resumable after ")


def test_a_rehearsal_never_satisfies_a_real_stage(project: MakeProject) -> None:
    here = project(PROJECT)
    here.run("run", "tasks/t", "--stage", "up", "--only", "2", timeout=300).assert_code(0)
    here.write({"assay.toml": PROJECT["assay.toml"].replace("rehearse = true\nstop", "rehearse = false\nstop")})
    env = {"ANTHROPIC_API_KEY": "not-a-real-key", "DOCKER_HOST": "tcp://127.0.0.1:1"}
    here.run("run", "tasks/t", "--stage", "up", "--only", "2", env=env).assert_refused("Docker")
    assert len(here.runs) == 1


def test_the_budget_stops_scheduling(project: MakeProject) -> None:
    here = project(PROJECT)
    out = here.run("run", "tasks/t", "--stage", "thrifty", timeout=300).assert_code(4)
    out.assert_says("→ stopped at rung 1: ", "of $1e-05 are spent")
    assert len(here.runs) == 1
    here.run("run", "tasks/t", "--stage", "thrifty").assert_code(4).assert_says("nothing was started")


def test_ctrl_c_keeps_six_runs_for_later(project: MakeProject) -> None:
    hang = '[[turn]]\nshell = "echo first step > step"\n[[turn]]\nhang = "before"\n'
    here = project({**PROJECT, f"tasks/t/rehearsal/{CHEAP}.toml": hang})
    running = here.start("run", "tasks/t", "--stage", "up", "--runs", "6", "--jobs", "6", "--json")
    for number in range(1, 7):
        _until_acted(running, number)
    running.signal(signal.SIGINT)
    out = running.finish(120).assert_code(130)

    assert summary(out)["ladders"][0]["standing"] == "stopped"
    kept = records(here)
    assert len(kept) == 6
    for record in kept:
        assert (record.ending, record.reason) == (Ending.INTERRUPTED, "stopped by Ctrl-C")
        assert record.resumable
        assert record.snapshot
        assert (here.root / "runs" / record.id / "left/step").is_file()
    here.run("ls", "--ending", "interrupted", "--ids").assert_says(*(record.id for record in kept))
    for record in kept:
        Engine.connect().api.remove_image(record.snapshot)


def _until_acted(running: Any, count: int) -> None:
    """Wait until so many tool results were seen."""
    deadline = time.monotonic() + 240
    while running.text("out").count('"kind": "ToolResult"') < count:
        assert time.monotonic() < deadline, running.text("out")[-2000:]
        assert running.process.poll() is None, running.text("err")
        time.sleep(0.1)
