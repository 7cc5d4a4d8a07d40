"""A run already kept is graded with the same metrics, and a suite is made from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import tomli_w

from assay.model.outcome import Ending, Tokens
from assay.model.record import RunRecord, State, Times
from tests.conftest import MakeProject
from tests.suite.conftest import Run

STREAMS = Path(__file__).parents[1] / "data" / "streams"
Write = Callable[..., Path]
RECORD = RunRecord(
    id="20260102T030405Z-hello-claude-00ff",
    state=State.COMMITTED,
    task="hello",
    agent="claude",
    decoder="claude",
    model="m",
    ending=Ending.FINISHED,
    cost_usd=0.02,
    tokens=Tokens(input=100, output=50),
    times=Times(created=datetime(2026, 1, 2, tzinfo=UTC), seconds=12.0),
)


def keep(runs: Path, record: RunRecord, stream: Path | None) -> Path:
    """Write a run directory as a run would have left it."""
    path = runs / record.id
    path.mkdir(parents=True)
    (path / "run.toml").write_text(tomli_w.dumps(record.to_toml()))
    (path / "prompt.md").write_text("Do it.")
    if stream is not None:
        (path / "events.jsonl").write_bytes(stream.read_bytes())
    return path


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return keep(tmp_path / "runs", RECORD, STREAMS / "claude" / "a-success-tool.jsonl")


def test_grading_a_kept_run(kept: Path, assay: Run, suite_file: Write) -> None:
    file = suite_file(
        "cases: [{name: c, input: '', expect_tools: [Bash], max_calls: 5, max_latency: 12s, max_tokens: 150,"
        " max_cost_usd: 0.02, output_regex: ['.']}]\n"
    )
    outcome = assay("agent", "--suite", file, "--run", kept, "--json")
    report = json.loads(outcome.out)
    assert (outcome.code, report["score"]) == (0, 1.0), outcome.out
    assert report["about"]["agent"] == "claude"


def test_a_suite_made_from_a_run_passes_on_it(kept: Path, assay: Run, tmp_path: Path) -> None:
    file = tmp_path / "made.assay.toml"
    assert assay("agent", "init", "--run", kept, "-o", file).code == 0
    text = file.read_text()
    for words in ('tool = "Bash"', 'input = "Do it."', "max_calls", "max_tokens = 225", 'max_latency = "18s"'):
        assert words in text
    outcome = assay("agent", "--suite", file)
    assert outcome.code == 0, outcome.out
    again = assay("agent", "init", "--run", kept, "-o", file)
    assert (again.code, "is there already" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("decoder", "stream", "tools"),
    [
        ("claude", "a-success-tool", "Bash"),
        ("codex", "a_success_gpt55", "command_execution"),
        ("gemini", "success-tool", "run_shell_command"),
        ("grok", "a_success_messages", "run_terminal_command"),
        ("opencode", "success-tool", "bash"),
        ("antigravity", "success-tool", "write_to_file"),
    ],
)
def test_every_vendors_stream_is_a_trajectory(
    decoder: str, stream: str, tools: str, tmp_path: Path, assay: Run, suite_file: Write
) -> None:
    file = suite_file(f"cases: [{{name: c, input: '', expect_tools: [{tools}], output_regex: ['.']}}]\n")
    path = keep(tmp_path / "runs", replace(RECORD, decoder=decoder), STREAMS / decoder / f"{stream}.jsonl")
    outcome = assay("agent", "--suite", file, "--run", path)
    assert outcome.code == 0, outcome.out


def test_a_sub_agents_calls_are_seen_by_scope(tmp_path: Path, assay: Run, suite_file: Write) -> None:
    path = keep(tmp_path / "runs", RECORD, STREAMS / "claude" / "j-subagent.jsonl")
    for scope, tool in (("root", "Agent"), ("leaf", "Bash"), ("actor:general-purpose", "Bash")):
        file = suite_file(
            f"cases: [{{name: c, input: '', scope: '{scope}', expect_tools: [{tool}], extra: deny, max_calls: 1}}]\n"
        )
        outcome = assay("agent", "--suite", file, "--run", path)
        assert outcome.code == 0, outcome.out


@pytest.mark.parametrize(
    ("change", "stream", "code", "words"),
    [
        ({"ending": Ending.SESSION_LIMIT, "reason": "come back"}, True, 3, "the run ended in session-limit: come back"),
        ({"ending": None, "state": State.RUNNING}, True, 2, "is not over yet"),
        ({"decoder": None}, True, 2, "kept no events that a decoder reads"),
        ({}, False, 2, "kept no events"),
    ],
)
def test_runs_that_cannot_be_graded(
    change: dict[str, object], stream: bool, code: int, words: str, tmp_path: Path, assay: Run, suite_file: Write
) -> None:
    events = STREAMS / "claude" / "a-success-tool.jsonl" if stream else None
    path = keep(tmp_path / "runs", replace(RECORD, **change), events)  # type: ignore[arg-type]
    outcome = assay("agent", "--suite", suite_file("cases: [{input: '', max_calls: 9}]\n"), "--run", path)
    assert (outcome.code, words in outcome.out + outcome.err) == (code, True)
    assert assay("agent", "init", "--run", path, "-o", tmp_path / "x.toml").code == 2


CONTAINED = {
    "cases.toml": """
threshold = 0.9
[agent]
name = "claude"
rehearse = "script.toml"
[judge]
agent = "claude"
rehearse = "judge.toml"
[[cases]]
name = "writes a file"
input = "Write hello into hello.txt"
output_contains = ["written"]
max_calls = 1
max_cost_usd = 5
calls = [{ tool = "Bash", args = { command = "echo hello" }, args_match = "regex" }]
judge = "Was it written?"
""",
    "script.toml": '[[turn]]\nshell = "echo hello > hello.txt"\n[[turn]]\ntext = "It is written."\n',
    "judge.toml": '[[turn]]\ntext = \'{"score": 1, "reason": "it was"}\'\n',
}


@pytest.mark.docker
@pytest.mark.cli
@pytest.mark.timeout(400)
def test_a_real_cli_under_test_and_as_judge(project: MakeProject) -> None:
    here = project(CONTAINED)
    outcome = here.run("agent", "--suite", "cases.toml", "--json", timeout=300).assert_code(0)
    report = outcome.json()
    assert report["score"] == 1.0
    assert report["cases"][0]["details"]["judge"]["detail"] == "it was"
    assert report["about"]["rehearsal"] is True
    here.run("agent", "--suite", "cases.toml", "--run", report["about"]["runs"][0], timeout=300).assert_code(0)


def test_a_registry_agent_that_is_not_there(project: MakeProject) -> None:
    here = project(CONTAINED)
    here.run("agent", "--suite", "cases.toml", "--agent", "nobody").assert_refused("nobody")
    here.run("agent", "--suite", "cases.toml", "--agent", "claude", "--effort", "enormous").assert_refused("enormous")
