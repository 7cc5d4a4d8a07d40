"""Real CLIs whose credential stays outside: the gate puts it in, and nothing that is left has ever seen it.

What answers at the vendor's address is a stand-in, which tells of a credential only how long it was.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from assay.model.outcome import Ending
from assay.model.project import find_project
from assay.model.registry import load_registry
from assay.model.task import load_task
from assay.rehearsal.script import CANONICAL
from assay.run.prepare import check
from assay.run.record import read_record
from assay.sandbox import credentials
from tests.agents.clis import LONG, TASK, main, record, requests, tokens
from tests.conftest import MakeProject
from tests.credentials.test_real_clis import perform, prepared
from tests.credentials.traces import Sampler, in_files, on_the_engine, written

pytestmark = [pytest.mark.docker, pytest.mark.cli, pytest.mark.timeout(600)]

ENTRIES = load_registry().agents
CLIS = [name for name, entry in ENTRIES.items() if any(way.inject for way in entry.credentials)]
INJECT = {**TASK, "assay.toml": 'fence.mode = "inject"\n'}
LIVE = len("placeholder-for-rehearsals")

WRONG = 'inject = { headers = ["x-no-such-key"], paths = ["/v1/"] }\n'

LOOK_AROUND = """
[[turn]]
shell = "env >env.txt; cat /proc/*/environ >>env.txt 2>/dev/null; cp -r ~/.[a-z]* . ; cat env.txt; echo looked"
expect = "looked"
usage = { input = 10, cached = 20, output = 5 }

"""
WORK, TURN, END = (files("assay.rehearsal") / CANONICAL).read_text("utf-8").rpartition("[[turn]]")
CANONICAL_AND_A_LOOK_AROUND = WORK + LOOK_AROUND + TURN + END


def credential_of(run: Path) -> set[str]:
    """How the stand-in saw the credential of each request."""
    headers = [request["headers"] for request in requests(run)]
    return {said.get("authorization") or said.get("x-api-key") or said.get("x-goog-api-key") or "" for said in headers}


def test_every_cli_that_can_be_rehearsed_is_here() -> None:
    rehearsable = [name for name, entry in ENTRIES.items() if entry.rehearsal and entry.rehearsal.api != "none"]
    assert sorted(CLIS) == sorted(rehearsable)


@pytest.mark.parametrize("agent", CLIS)
def test_the_credential_was_never_inside(project: MakeProject, agent: str) -> None:
    """The model's commands look into every environment and copy the whole home; nothing had to be struck out.

    All else is as ever: the canonical script is played, and its tokens are told.
    """
    here = project(INJECT)
    (here.root / "tasks" / "hi").rename(here.root / "tasks" / "t")
    entry, canary = ENTRIES[agent], f"live-canary-{uuid.uuid4().hex}"
    way = next(way for way in entry.credentials if way.env and way.inject)
    held = credentials.choose(agent, entry, {way.env or "": canary}, Path(here.env["HOME"]))
    job = prepared(here, agent, held, CANONICAL_AND_A_LOOK_AROUND)
    needles = written([canary])
    sampler = Sampler(needles, here.root)
    sampler.start()
    done, said = perform(replace(job, settings=replace(job.settings, timeout=300)))
    sampler.stop()
    (run,) = here.runs
    assert (done.ending, done.fence) == (Ending.FINISHED, "inject"), done.reason
    assert json.loads((run / "rehearsal.json").read_bytes())["problems"] == []
    assert tokens(run) == {"input": 1700 + 10, "cached": 6650 + 20, "output": 235 + 5}
    assert len(main(run)) >= 7
    assert credential_of(run) <= {f"<{len(canary)} characters>", f"Bearer <{len(canary)} characters>"}
    fence = json.loads((run / "fence.json").read_bytes())
    assert fence["requests_injected"] == len(requests(run))
    # A connection that is made warm, of the one CLI that makes one.
    assert set(fence["requests_refused"]) <= {"api.x.ai/: not below a path of the entry"}
    assert way.inject is not None
    assert f"{way.env}={way.inject.placeholder}" in (run / "left" / "env.txt").read_text(errors="replace")
    assert done.secrets_redacted is None
    assert sampler.launched
    assert sampler.seen == []
    assert canary not in repr(said)
    assert in_files(needles, here.root) == []
    assert list(on_the_engine(needles, sampler.containers)) == []


@pytest.mark.parametrize("agent", CLIS)
def test_a_rehearsal_holds_what_it_has_in_place_of_a_key(project: MakeProject, agent: str) -> None:
    """And of that the gate finds a way in, as of a key; that it does so in a run, Codex shows below."""
    here = project(INJECT)
    entry = ENTRIES[agent]
    assert entry.rehearsal is not None
    found = find_project(here.root)
    job = check(found, load_task(here.root / "tasks/hi"), found.registry.validate_choice(agent, None), rehearse="")
    assert job.fence_mode == "inject"
    assert job.held.env == entry.rehearsal.env
    assert [len(value) for value in job.held.env.values()] == [LIVE]
    assert {way.env for way in entry.credentials if way.inject} >= set(job.held.env)


def test_a_cli_that_never_sends_its_placeholder_is_told_of(project: MakeProject) -> None:
    """An entry that names the wrong header: every request is refused, and the run says why."""
    wrong = {"agents.toml": '[[agents.codex.credentials]]\nenv = "CODEX_API_KEY"\n' + WRONG}
    here = project({**INJECT, **wrong, "script.toml": '[[turn]]\ntext = "Hello."\n'})
    out = here.run("run", "tasks/hi", "--agent", "codex", "--rehearse", "script.toml", "--timeout", "60s", timeout=LONG)
    (run,) = here.runs
    assert read_record(run).ending is not Ending.FINISHED
    assert "no request carried the placeholder of CODEX_API_KEY" in (run / "harness.jsonl").read_text(), str(out)
    fence = json.loads((run / "fence.json").read_bytes())
    assert fence["requests_injected"] == 0
    assert fence["requests_refused"]["api.openai.com/v1/responses: without this run's placeholder"] > 0


def test_an_interrupt_and_the_way_on(project: MakeProject) -> None:
    """A resumed run gets a placeholder of its own, and the credential goes in all the same."""
    script = '[[turn]]\nshell = "echo begun; sleep 300"\n[[turn]]\ntext = "All done."\n'
    here = project({**INJECT, "script.toml": script})
    running = here.start("run", "tasks/hi", "--agent", "codex", "--rehearse", "script.toml")
    running.wait_for("sleep 300", LONG)
    running.signal()
    running.finish(60).assert_code(130)
    here.run("resume", "last", timeout=LONG).assert_code(0).assert_says("All done.")
    for run in here.runs:
        assert read_record(run).fence == "inject"
        assert credential_of(run) == {f"Bearer <{LIVE} characters>"}


def test_a_killed_harness_and_who_takes_over(project: MakeProject) -> None:
    """The gate goes on without the harness, and whoever recovers the run learns what it counted."""
    script = '[[turn]]\nshell = "echo begun; sleep 15"\nexpect = "begun"\n[[turn]]\ntext = "All done."\n'
    here = project({**INJECT, "script.toml": script})
    running = here.start("run", "tasks/hi", "--agent", "codex", "--rehearse", "script.toml")
    running.wait_for("sleep 15", LONG)
    running.kill()
    here.run("recover", timeout=LONG).assert_code(0)
    (run,) = here.runs
    assert (record(run)["ending"], record(run)["fence"]) == ("finished", "inject")
    assert credential_of(run) == {f"Bearer <{LIVE} characters>"}
    assert json.loads((run / "fence.json").read_bytes())["requests_injected"] == len(requests(run)) == 3
