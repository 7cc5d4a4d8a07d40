"""`assay run`, through the real command and on the real engine."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from typing import Any

import pytest

from assay.commands.stopping import ECHO_SECONDS
from assay.run.record import read_record
from tests.conftest import MakeProject
from tests.project import COMMAND, Outcome, Project

TASK = {
    "tasks/t/prompt.md": "Write ok.",
    "tasks/t/checker/check.sh": "#!/bin/sh\n[ -e ok ] || exit 1\n",
    "tasks/t/solution/solve.sh": "#!/bin/sh\ntouch ok\n",
}
LADDER = """
[stage.up]
stop_on_pass = true
rungs = [{ agent = "nop" }, { agent = "oracle" }]
[stage.all]
rungs = [{ agent = "nop" }, { agent = "oracle" }]
[stage.ask]
kind = "ask"
rungs = [{ agent = "nop" }]
"""


def docker(test: Any) -> Any:
    """A test that starts containers."""
    return pytest.mark.docker(pytest.mark.timeout(180)(test))


def record(here: Project, number: int = -1) -> Any:
    return read_record(here.runs[number])


# -- refusals: one line, exit 2, no engine --------------------------------------------------------------------------

NO_ENGINE = {"DOCKER_HOST": "tcp://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["tasks/nothing", "--agent", "nop"], ["tasks/nothing", "no such task"]),
        (["tasks/t/prompt.md", "--agent", "nop"], ["a task is a folder"]),
        ([], ["which task?"]),
        (["tasks/t"], ["--stage", "up", "--agent", "oracle"]),
        (["tasks/t", "--agent", "nopp"], ["unknown agent 'nopp'", "did you mean 'nop'"]),
        (["tasks/t", "--agent", "claude", "--effort", "hihg"], ["unknown effort 'hihg'", "did you mean 'high'"]),
        (["tasks/t", "--agent", "nop", "--model", "m"], ["nop has no model"]),
        (["tasks/t", "--agent", "claude"], ["no credential", "ANTHROPIC_API_KEY"]),
        (["tasks/t", "--agent", "script"], ["--command"]),
        (["tasks/t", "--agent", "nop", "--command", "true"], ["--command is for the agent script"]),
        (["tasks/t", "--agent", "nop", "--rehearse"], ["nothing to rehearse"]),
        (["tasks/t", "--agent", "claude", "--rehearse", "no.toml"], ["no.toml"]),
        (["tasks/t", "--stage", "upp"], ["unknown stage 'upp'", "did you mean 'up'"]),
        (["tasks/t", "--stage", "up", "--agent", "nop"], ["--agent and --stage"]),
        (["tasks/t", "--stage", "up", "--effort", "high"], ["--effort and --stage"]),
        (["tasks/t", "--stage", "up", "--only", "3"], ["no rung '3'", "1 (nop), 2 (oracle)"]),
        (["tasks/t", "--stage", "up", "--only", "1", "--from", "1"], ["--from and --only"]),
        (["tasks/t", "--agent", "nop", "--only", "1"], ["--stage"]),
        (["tasks/t", "--stage", "ask"], ["assay ask"]),
        (["tasks/t", "./tasks/t", "--agent", "nop"], ["the same task twice", "--runs 2"]),
        (["tasks/t", "--agent", "nop", "--timeout", "soon"], ["--timeout", "not a duration"]),
        (["tasks/open", "--stage", "up"], ["no checker", "stop_on_pass"]),
        (["tasks/t", "--agent", "nop"], ["Docker"]),
    ],
)
def test_refused_before_anything_starts(project: MakeProject, argv: list[str], words: list[str]) -> None:
    here = project({**TASK, "tasks/open/prompt.md": "Say hello.", "assay.toml": LADDER})
    here.run("run", *argv, env=NO_ENGINE).assert_refused(*words)
    assert here.runs == []


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"assay.toml": "[stage.x]\nrungs = [{ agnet = 'nop' }]"}, ["assay.toml", "stage.x.rungs[0].agnet"]),
        ({"assay.toml": "[stage.x\n"}, ["assay.toml", "line 1"]),
        ({"assay.toml": "[stage.x]\nrungs = [{ agent = 'nop' }, { agent = 'nop' }]"}, ["the same as rungs[0]"]),
        ({"assay.toml": "[stage.x]\nrungs = [{ agent = 'claude', effort = 'huge' }]"}, ["unknown effort 'huge'"]),
        ({"tasks/t/task.toml": "timeuot = 3"}, ["tasks/t/task.toml", "timeuot", "did you mean"]),
        ({"tasks/t/prompt.md": " \n"}, ["prompt.md", "empty"]),
        ({"tasks/t/prompt.md": "/clear"}, ["slash command"]),
    ],
)
def test_a_wrong_file_is_refused(project: MakeProject, files: dict[str, str], words: list[str]) -> None:
    here = project({**TASK, "assay.toml": LADDER, **files})
    here.run("run", "tasks/t", "--agent", "oracle", env=NO_ENGINE).assert_refused(*words)


def test_a_missing_credential_on_any_rung_is_refused(project: MakeProject) -> None:
    here = project({**TASK, "assay.toml": "[stage.x]\nrungs = [{ agent = 'nop' }, { agent = 'claude' }]"})
    here.run("run", "tasks/t", "--stage", "x", env=NO_ENGINE).assert_refused("stage 'x', rung 2", "no credential")


# -- dry run --------------------------------------------------------------------------------------------------------


def test_a_rehearsal_without_a_script_of_the_tasks_own_is_told(project: MakeProject) -> None:
    here = project({"tasks/own/prompt.md": "-", "tasks/own/rehearsal.toml": "[[turn]]\ntext = 'Done.'\n"})
    here.write({"tasks/none/prompt.md": "-"})
    rehearse = ("--agent", "claude", "--rehearse", "--dry-run")
    told = here.run("run", "tasks/none", "tasks/own", *rehearse).assert_code(0).err
    assert "note: tasks/none has no rehearsal.toml: the canonical script is played" in told
    assert "tasks/own" not in told
    assert "note:" not in here.run("run", "tasks/none", "--agent", "nop", "--dry-run").assert_code(0).err


def test_a_dry_run_says_what_would_run_and_asks_no_engine(project: MakeProject) -> None:
    budget = "[stage.x]\nbudget_usd = 2.5\njobs = 3\nrungs = [{ agent = 'claude', runs = 2, effort = 'low' }]"
    here = project({**TASK, "assay.toml": budget})
    env = {**NO_ENGINE, "ANTHROPIC_API_KEY": "canary-secret-value"}
    shown = here.run("run", "tasks/t", "--stage", "x", "--dry-run", env=env).assert_code(0)
    shown.assert_says("api.anthropic.com", "ANTHROPIC_API_KEY", "low", "$2.5", "2 runs, 3 at once")
    assert "canary" not in shown.out + shown.err

    plan = here.run("run", "tasks/t", "--stage", "x", "--dry-run", "--json", "--runs", "5", env=env).json()
    assert plan["budget_usd"] == 2.5
    assert plan["rungs"][0]["runs"] == 5
    assert plan["rungs"][0]["credentials"] == ["ANTHROPIC_API_KEY"]

    here.run("run", "tasks/t", "--agent", "claude", "--dry-run", env=env).assert_says("no ceiling")
    here.run("run", "tasks/t", "--agent", "claude", "--rehearse", "--dry-run").assert_says(
        "stand-in", "nothing is spent"
    )
    assert here.runs == []


def test_a_budget_that_cannot_be_kept_is_told_before_anything_starts(project: MakeProject) -> None:
    """One of its CLIs states no cost and has no price: the ladder would stop for good after its first run."""
    rungs = "[{ agent = 'nop' }, { agent = 'codex', model = 'gpt-5.5' }, { agent = 'claude' }]"
    here = project({**TASK, "assay.toml": f"[stage.x]\nbudget_usd = 5\nrungs = {rungs}"})
    env = {**NO_ENGINE, "ANTHROPIC_API_KEY": "dummy-0123456789", "CODEX_API_KEY": "dummy-9876543210"}
    stage = ("run", "tasks/t", "--stage", "x")
    warned = ("warning: budget_usd: the CLI of rung 2 (codex gpt-5.5) states no cost", "usd_per_mtok")
    here.run(*stage, env=env).assert_code(2).assert_says(*warned, "no Docker Engine")
    planned = here.run(*stage, "--dry-run", env=env).assert_code(0).assert_says(*warned)
    assert "$5 are spent, or once a run of rung 2 (codex gpt-5.5) has ended" in planned.out
    plan = here.run(*stage, "--dry-run", "--json", env=env).json()
    assert [rung["cost_known"] for rung in plan["rungs"]] == [True, False, True]

    prices = "usd_per_mtok = { input = 1.25, cached = 0.125, output = 10.0 }"
    here.write({"agents.toml": f'[agents.codex.models]\n"gpt-5.5" = {{ {prices} }}\n'})
    planned = here.run(*stage, "--dry-run", env=env).assert_code(0)
    assert planned.err == ""
    assert "nothing new starts once $5 are spent\n" in planned.out
    here.write({"agents.toml": "", "assay.toml": f"[stage.x]\nrungs = {rungs}"})
    assert here.run(*stage, "--dry-run", env=env).assert_code(0).err == ""


# -- one agent ------------------------------------------------------------------------------------------------------


@docker
def test_one_run_and_its_result_line(project: MakeProject) -> None:
    here = project(TASK)
    passed = here.run("run", "tasks/t", "--agent", "oracle", timeout=120).assert_code(0)
    assert f"✓ pass · finished · {record(here).times.seconds:.1f} s · runs/{here.runs[0].name}" in passed.out
    failed = here.run("run", "tasks/t", "--agent", "nop").assert_code(1).assert_says("✗ fail", "finished")
    assert len(failed.out.splitlines()) == 1
    shell = here.run("run", "tasks/t", "--agent", "script", "--command", "echo I am here; touch ok").assert_code(0)
    assert shell.out.splitlines()[0] == "I am here"
    quiet = here.run("run", "tasks/t", "--agent", "script", "--command", "echo hi; touch ok", "--quiet").assert_code(0)
    assert "hi" not in quiet.out
    assert len(quiet.out.splitlines()) == 1
    timeout = here.run("run", "tasks/t", "--agent", "script", "--command", "touch ok; sleep 60", "--timeout", "2s")
    timeout.assert_code(0).assert_says("✓ pass", "timeout", "time limit of 2 s")


@docker
def test_without_a_checker_there_is_nothing_to_judge(project: MakeProject) -> None:
    here = project({"tasks/open/prompt.md": "Say hello."})
    here.run("run", "tasks/open", "--agent", "nop", timeout=120).assert_code(0).assert_says("no checker")
    assert record(here).verdict == "none"


@docker
@pytest.mark.parametrize("body", ["exit 127", "exit 2", "kill -9 $$"])
def test_a_checker_that_cannot_say_is_no_fail(project: MakeProject, body: str) -> None:
    here = project({**TASK, "tasks/t/checker/check.sh": f"#!/bin/sh\n{body}\n"})
    here.run("run", "tasks/t", "--agent", "nop", timeout=120).assert_code(3).assert_says("checker-error")


@docker
def test_several_runs_of_one_agent(project: MakeProject) -> None:
    here = project(TASK)
    out = here.run("run", "tasks/t", "--agent", "oracle", "--runs", "3", "--jobs", "2", timeout=120).assert_code(0)
    out.assert_says("→ 3 of 3 passed", "1 oracle │", "3 oracle │")
    assert sorted(record(here, n).attempt for n in range(3)) == [1, 2, 3]


@docker
def test_json_is_one_object_a_line_as_things_happen(project: MakeProject) -> None:
    here = project(TASK)
    out = here.run("run", "tasks/t", "--agent", "script", "--command", "echo one", "--json", timeout=120).assert_code(1)
    lines = out.json_lines()
    kinds = [line["what"] for line in lines if line["what"] not in ("preparing", "said")]
    assert kinds == ["ready", "began", "event", "ended", "summary"]
    told = {line["what"]: line for line in lines}
    assert told["event"]["text"] == "one"
    assert told["ended"]["verdict"] == "fail"
    assert told["ended"]["state"] == "committed"
    assert told["summary"]["exit_code"] == 1
    assert told["began"]["id"] == told["ended"]["id"] == here.runs[0].name


@docker
@pytest.mark.parametrize("option", ["", "--json"])
def test_a_reader_that_leaves_does_not_end_the_run(project: MakeProject, option: str) -> None:
    here = project(TASK)
    shell = "for i in $(seq 2000); do echo line $i; done; sleep 1; touch ok"
    piped = f"'{COMMAND}' run tasks/t --agent script --command '{shell}' {option} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", piped], cwd=here.root, env=here.env, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines()[1:] == ["0"]
    assert done.stderr == ""
    assert record(here).verdict == "pass"


@docker
def test_a_terminal_that_is_closed_stops_the_run_and_keeps_it(project: MakeProject) -> None:
    here = project(TASK)
    shell = "touch ok; echo started; sleep 300"
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(here.root)
        argv = [str(COMMAND), "run", "tasks/t", "--agent", "script", "--command", shell]
        os.execve(argv[0], argv, {**here.env, "TERM": "xterm"})
    seen = b""
    while b"started" not in seen:
        seen += os.read(terminal, 4096)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    kept = record(here)
    assert (kept.state, kept.ending, kept.reason) == ("committed", "interrupted", "stopped by SIGHUP")
    assert (here.runs[0] / "left/ok").is_file()


@docker
@pytest.mark.parametrize(("number", "apart"), [(signal.SIGINT, 0.0), (signal.SIGTERM, ECHO_SECONDS + 0.2)])
def test_a_signal_stops_the_run_and_one_that_insists_gives_up_grading(
    project: MakeProject, number: signal.Signals, apart: float
) -> None:
    slow = {"tasks/t/checker/check.sh": "#!/bin/sh\nsleep 300\n"}
    here = project({**TASK, **slow})
    running = here.start("run", "tasks/t", "--agent", "script", "--command", "echo started; sleep 300")
    running.wait_for("started", 120)
    running.signal(number)
    running.finish(30).assert_code(130).assert_says("interrupted", "stopped by")
    running = here.start("run", "tasks/t", "--agent", "nop", "--json")
    running.wait_for('"text": "grading"', 120)
    running.signal(number)
    running.wait_for('"what": "stopping"')
    # What is under test is the time between the two.
    time.sleep(apart)
    running.signal(number)
    running.finish(30).assert_code(130).assert_says("checker-error", "not graded")


# -- a ladder -------------------------------------------------------------------------------------------------------


def results(out: Outcome) -> list[tuple[str, list[str]]]:
    summary = json.loads(out.out.splitlines()[-1])
    return [
        (ladder["standing"], [r for rung in ladder["rungs"] for r in rung["results"]]) for ladder in summary["ladders"]
    ]


@docker
def test_the_first_pass_ends_the_ladder_and_the_same_command_starts_nothing_more(project: MakeProject) -> None:
    here = project({**TASK, "assay.toml": LADDER})
    up = here.run("run", "tasks/t", "--stage", "up", "--runs", "2", timeout=120).assert_code(0)
    up.assert_says("rung 1  nop", "✗ fail", "rung 2  oracle", "✓ pass", "→ rung 2 passed, the last one", "4 runs, $0")
    assert sorted((r.rung, r.attempt) for r in map(read_record, here.runs)) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    same = here.run("run", "tasks/t", "--stage", "up").assert_code(0)
    same.assert_says("(earlier) ✓ pass", "nothing was started", "--again")
    assert len(here.runs) == 4
    here.run("run", "tasks/t", "--stage", "up", "--again", "--only", "nop").assert_code(1)
    assert len(here.runs) == 5
    here.write({"tasks/t/checker/check.sh": "#!/bin/sh\n[ -e ok ] || exit 1 # changed\n"})
    here.run("run", "tasks/t", "--stage", "up", "--from", "2").assert_code(0)
    assert len(here.runs) == 6, "another checker is another task"


@docker
def test_two_tasks_climb_side_by_side(project: MakeProject) -> None:
    other = {name.replace("tasks/t/", "tasks/u/"): text for name, text in TASK.items()}
    hard = {"tasks/u/solution/solve.sh": "#!/bin/sh\ntrue\n"}
    here = project({**TASK, **other, **hard, "assay.toml": LADDER})
    out = here.run("run", "tasks/t", "tasks/u", "--stage", "up", "--json", timeout=120).assert_code(0)
    assert results(out) == [("passed", ["failed", "passed"]), ("done", ["failed", "failed"])]


@docker
def test_without_stop_on_pass_every_rung_runs(project: MakeProject) -> None:
    both = LADDER.replace(
        '[{ agent = "nop" }, { agent = "oracle" }]\n[stage.ask]',
        '[{ agent = "oracle" }, { agent = "nop" }]\n[stage.ask]',
    )
    here = project({**TASK, "assay.toml": both})
    out = here.run("run", "tasks/t", "--stage", "all", "--json", timeout=120).assert_code(0)
    assert results(out) == [("done", ["passed", "failed"])]


@docker
def test_a_checker_error_holds_the_ladder(project: MakeProject) -> None:
    here = project({**TASK, "tasks/t/checker/check.sh": "#!/bin/sh\nexit 9\n", "assay.toml": LADDER})
    out = here.run("run", "tasks/t", "--stage", "up", timeout=120).assert_code(3)
    out.assert_says("could not be measured (checker-error), so the ladder does not climb", "the same command goes on")
    assert len(here.runs) == 1


@docker
def test_the_default_stage_is_climbed(project: MakeProject) -> None:
    here = project({**TASK, "assay.toml": f'[defaults]\nstage = "up"\n{LADDER}'})
    here.run("run", "tasks/t", timeout=120).assert_code(0)
    assert record(here).stage == "up"
