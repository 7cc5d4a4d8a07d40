"""The entry of Antigravity, with a stand-in for its binary: every word of the launch line, the hook, a resume."""

from __future__ import annotations

import base64
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeProject
from tests.project import Project

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

STANDIN = (Path(__file__).parent / "agy_standin").read_bytes()
ENTRY = f"""
[agents.agy.install]
run = [
    'mkdir -p "$OUT/bin"',
    'echo {base64.b64encode(STANDIN).decode()} | base64 -d >"$OUT/bin/agy"',
    'chmod 0755 "$OUT/bin/agy"',
]

[agents.agy.rehearsal]
api = "openai-chat"
"""
"""Only how the binary gets into the image is replaced, and what answers at its vendor's address: no model is asked."""

SCRIPT = '[[turn]]\ntext = "nobody asks"\n'


def made(project: MakeProject, prompt: str) -> Project:
    return project({"agents.toml": ENTRY, "script.toml": SCRIPT, "tasks/hi/prompt.md": prompt})


def run(here: Project, *more: str, code: int = 0) -> tuple[dict[str, Any], str]:
    command = ("run", "tasks/hi", "--agent", "agy", "--rehearse", "script.toml", *more)
    here.run(*command, timeout=400).assert_code(code)
    path = here.runs[-1]
    return tomllib.loads((path / "run.toml").read_text()), (path / "transcript.txt").read_text()


def test_the_whole_entry(project: MakeProject) -> None:
    here = made(project, '--model "evil" $(touch evil)\nsecond line')
    record, transcript = run(here)
    assert record["ending"] == "finished"
    assert (record["model_used"], record["tool_calls"]) == ("gemini-3.8-flash-low", 2)
    assert record["tokens"] == {"input": 100, "cached": 10, "output": 20, "reasoning": 5}
    assert 'You said: --model "evil" $(touch evil)\nsecond line' in transcript
    assert "→ search_web x\n← ✗ tool call denied with reason: web tools are switched off for this run" in transcript
    assert "← done" in transcript
    assert (here.runs[-1] / "changes.txt").read_text() == "A done.txt\n"


def test_with_internet_the_hook_is_not_there(project: MakeProject) -> None:
    _, transcript = run(made(project, "go"), "--internet")
    assert "← found it" in transcript


@pytest.mark.parametrize(
    ("model", "effort"), [("gemini-3.8-flash", "high"), ("gemini-3.1-pro-high", "high"), ("gemini-3.8-flash-low", None)]
)
def test_an_effort_is_named_once(project: MakeProject, model: str, effort: str | None) -> None:
    record, _ = run(made(project, "go"), "--model", model, *(("--effort", effort) if effort else ()))
    assert record["ending"] == "finished"


def test_a_quota_with_its_reset_time_and_the_way_on(project: MakeProject) -> None:
    here = made(project, "reach the quota")
    record, _ = run(here, code=4)
    assert record["ending"] == "session-limit"
    waits = (record["reset_at"] - record["times"]["ended"]).total_seconds()
    assert waits == pytest.approx(34 * 60 + 13, abs=2)
    here.run("resume", "last", "--force", timeout=400).assert_code(0)
    again = tomllib.loads((here.runs[-1] / "run.toml").read_text())
    assert (again["ending"], again["session"]) == ("finished", record["session"])


def test_a_hook_that_the_cli_did_not_load_stops_the_run_before_the_prompt(project: MakeProject) -> None:
    """A file in the wrong shape is dropped in silence: so the CLI is asked first."""
    here = made(project, "go")
    wrong = '\n[agents.agy.launch.offline_files]\n"~/.gemini/config/hooks.json" = "{}"\n'
    here.write({"agents.toml": ENTRY + wrong})
    record, transcript = run(here, code=3)
    assert record["ending"] == "crashed"
    assert "the hook that refuses web tools is not loaded" in record["reason"]
    assert "You said" not in transcript


def test_a_prompt_may_be_longer_than_an_argument(project: MakeProject) -> None:
    prompt = 'ünïcödé \\ "quoted"\t{prompt_json} {model}\n' * 8000 + "the end"
    record, transcript = run(made(project, prompt))
    assert record["ending"] == "finished"
    assert f"You said: {prompt}" in transcript


UPDATES, TELEMETRY = "antigravity-cli-auto-updater-974169037036.us-central1.run.app", "play.googleapis.com"
SETTINGS = '"~/.gemini/antigravity-cli/settings.json"'


@pytest.mark.parametrize(
    ("override", "asked"),
    [
        ("", set()),
        ('[agents.agy.launch.env]\nAGY_CLI_DISABLE_AUTO_UPDATE = "1"\n', {UPDATES}),
        (f'[agents.agy.launch.offline_files]\n{SETTINGS} = \'{{"trustedWorkspaces": ["/app"]}}\'\n', {TELEMETRY}),
    ],
)
def test_the_switches_of_the_entry_keep_it_from_asking_other_hosts(
    project: MakeProject, override: str, asked: set[str]
) -> None:
    """Without them its stand-in asks, as the CLI does; the fence tells, and the run goes on."""
    here = made(project, "go")
    here.write({"agents.toml": f"{ENTRY}\n{override}"})
    run(here)
    fence = json.loads((here.runs[-1] / "fence.json").read_bytes())
    assert set(fence["names_asked"]) == asked
    assert fence["packets_refused"] == 0
