"""`assay agent` on objects, commands and recordings; the judge; `assay.main`; from Python."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import assay as library
from assay.model.errors import UsageError
from assay.suite.judging.judge import FakeJudge, NoGrade, read_grade
from tests.suite.conftest import FAULTY, Run, faulty

Write = Callable[..., Path]
README_SUITE = """
threshold: 0.80
cases:
  - name: search_recent_papers
    input: "Find recent papers on retrieval-augmented generation"
    expect_tools: [TopicSearchAgent]
    output_contains: ["RAG"]
    max_latency: 60s
"""
MODULE = """
import asyncio, time

def papers(prompt):
    return {"output": "About RAG", "calls": [{"name": "TopicSearchAgent"}], "seconds": 17.527}

async def slowly(prompt):
    await asyncio.sleep(0.01)
    return "RAG"

def boom(prompt):
    raise RuntimeError("boom: " + prompt)

def hang(prompt):
    time.sleep(30)

def nothing(prompt):
    return None

class Counting:
    def __init__(self):
        self.asked = 0
    def run(self, prompt):
        self.asked += 1
        return f"RAG {self.asked}"

counting = Counting()
flaky_count = [0]

def flaky(prompt):
    flaky_count[0] += 1
    return "RAG" if flaky_count[0] % 5 else "no"
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agents_of_test.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    sys.modules.pop("agents_of_test", None)


def test_the_readme_table_of_the_go_harness(assay: Run, suite_file: Write) -> None:
    outcome = assay("agent", "--suite", suite_file(README_SUITE), "--object", "agents_of_test:papers")
    assert outcome.out == (
        "CASE                  SCORE  RESULT\n"
        "search_recent_papers  1.00   ✓\n"
        "  tool_correctness    1.00   1/1 expected tools called\n"
        "  output_contains     1.00   1/1 substrings present\n"
        "  max_latency         1.00   17527ms <= 60000ms\n"
        "\n"
        "SUITE SCORE: 1.00   threshold 0.80   PASS\n"
    )
    assert outcome.code == 0


RAG = "cases: [{name: c, input: hello, output_contains: [RAG]}]\n"


@pytest.mark.parametrize(
    ("attribute", "code", "words"),
    [
        ("slowly", 0, "1/1 substrings present"),
        ("Counting", 0, "1/1 substrings present"),
        ("counting", 0, "1/1 substrings present"),
        ("boom", 3, "RuntimeError: boom: hello"),
        ("nothing", 3, "an agent returns a text, a trajectory or chat messages, not NoneType"),
    ],
)
def test_objects(attribute: str, code: int, words: str, assay: Run, suite_file: Write) -> None:
    outcome = assay("agent", "--suite", suite_file(RAG), "--object", f"agents_of_test:{attribute}")
    assert (outcome.code, words in outcome.out) == (code, True), outcome.out


def test_a_class_is_new_for_every_prompt_and_an_object_is_not(assay: Run, suite_file: Write) -> None:
    file = suite_file("cases: [{name: a, input: x, output_regex: ['1$']}, {name: b, input: x, output_regex: ['1$']}]\n")
    scores = [
        json.loads(assay("agent", "--suite", file, "--object", f"agents_of_test:{name}", "--json").out)["score"]
        for name in ("Counting", "counting")
    ]
    assert scores == [1.0, 0.5]


def test_an_agent_that_hangs_is_given_up(assay: Run, suite_file: Write) -> None:
    file = suite_file("cases: [{name: c, input: x, timeout: 0.3}, {name: d, input: x, timeout: 300ms}]\n")
    begin = time.monotonic()
    outcome = assay("agent", "--suite", file, "--object", "agents_of_test:hang")
    assert time.monotonic() - begin < 2
    assert (outcome.code, outcome.out.count("no answer within 0.3 s")) == (3, 2)


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("sed s/hello/RAG/", 0, "1/1 substrings present"),
        ("sh -c 'echo RAG; sleep 60 & exit 0'", 0, "1/1 substrings present"),
        ("sh -c 'echo why >&2; exit 4'", 3, "exited with code 4 (stderr: why)"),
        ("sh -c 'kill -9 $$'", 3, "was killed by SIGKILL"),
        ("no-such-program", 3, "cannot be started: no such file or directory"),
        ("sleep 60", 3, "did not end within 2 s"),
    ],
)
def test_commands(command: str, code: int, words: str, assay: Run, suite_file: Write) -> None:
    outcome = assay("agent", "--suite", suite_file("agent: {timeout: 2s}\n" + RAG), "--command", command)
    assert (outcome.code, words in outcome.out) == (code, True), outcome.out


def test_a_command_may_tell_its_calls(assay: Run, suite_file: Write, tmp_path: Path) -> None:
    answer = {"output": "RAG", "calls": [{"name": "s", "args": {"q": 1}}], "tokens": {"input": 5, "output": 2}}
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    file = suite_file(
        "agent: {command: [cat, answer.json], format: json}\n"
        "cases: [{name: c, input: x, calls: [{tool: s, args: {q: 1}}], max_tokens: 7}]\n"
    )
    assert assay("agent", "--suite", file).code == 0
    assert assay("agent", "--suite", file, "--recorded", "answer.json").code == 0
    assert assay("agent", "--suite", file, "--command", "echo x").code == 3


def test_repetitions_and_their_rate(assay: Run, suite_file: Write) -> None:
    for rate, code, score in (("", 1, "4/5"), ("pass_rate: 0.8, ", 0, "1"), ("pass_rate: 1, ", 1, "4/5")):
        sys.modules.pop("agents_of_test", None)
        file = suite_file(f"cases: [{{name: c, input: x, repeat: 5, {rate}output_contains: [RAG]}}]\n")
        outcome = assay("agent", "--suite", file, "--object", "agents_of_test:flaky", "--json")
        report = json.loads(outcome.out)
        assert (outcome.code, report["exact"]) == (code, score)
        assert report["cases"][0]["scores"] == {"output_contains": 0.8}


JUDGED = """
judge: {command: "%s", votes: 1}
cases:
  - {name: c, input: "what?", output_contains: [RAG], judge: "Is it about RAG?"}
"""


def judge_script(tmp_path: Path, *replies: str) -> str:
    """A judge that gives the replies in turn and keeps what it was asked."""
    script = tmp_path / "judge.py"
    script.write_text(
        "import pathlib, sys\n"
        f"replies, log = {list(replies)!r}, pathlib.Path('asked')\n"
        "asked = log.read_text().splitlines() if log.exists() else []\n"
        "log.write_text('\\n'.join([*asked, sys.stdin.read()]))\n"
        "print(replies[min(len(asked), len(replies) - 1)])\n"
    )
    return f"{sys.executable} {script}"


@pytest.mark.parametrize(
    ("replies", "code", "words", "asked"),
    [
        (['{"score": 1, "reason": "it is"}'], 0, "it is", 1),
        (['{"score": 0.5, "reason": "half"}'], 1, "0.50   half", 1),
        (["good, I think", '{"score": 1, "reason": "again"}'], 0, "again", 2),
        (["0.9", "still 0.9"], 3, "the judge's reply has no score from 0 to 1: still 0.9", 2),
        (['{"score": 2}', '{"score": true}'], 3, "has no score from 0 to 1", 2),
    ],
)
def test_a_judge(
    replies: list[str], code: int, words: str, asked: int, assay: Run, suite_file: Write, tmp_path: Path
) -> None:
    file = suite_file(JUDGED % judge_script(tmp_path, *replies))
    outcome = assay("agent", "--suite", file, "--object", "agents_of_test:papers")
    assert (outcome.code, words in outcome.out) == (code, True), outcome.out
    questions = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    assert len(questions) == asked
    assert questions[0]["rubric"] == "Is it about RAG?"
    assert questions[0]["output"] == "About RAG"
    assert "reminder" not in questions[0]
    assert all("reminder" in question for question in questions[1:])


def test_a_judge_that_fails(assay: Run, suite_file: Write) -> None:
    outcome = assay("agent", "--suite", suite_file(JUDGED % "sh -c 'exit 1'"), "--object", "agents_of_test:papers")
    assert (outcome.code, "exited with code 1" in outcome.out) == (3, True)


def test_votes_and_least(suite_file: Write) -> None:
    text = "cases: [{name: c, input: q, judge: {rubric: r, command: [j], votes: 3%s}}]\n"
    replies = ['{"score": 0.2}', '{"score": 0.9}', '{"score": 0.7, "reason": "middle"}']
    for more, score in (("", "7/10"), (", least: 0.7", "1"), (", least: 0.71", "0")):
        judge = FakeJudge(*replies)
        report = library.run_suite(suite_file(text % more), agent=lambda _: "x", judge=judge)
        assert str(report.value) == score
        evidence = report.cases[0].scores["judge"].evidence
        assert (evidence["votes"], evidence["reason"]) == ("0.2, 0.9, 0.7", "middle")
        assert "It is data" in judge.questions[0].words()


@pytest.mark.parametrize("reply", ["", "0.5", "null", "[]", '{"score": "1"}', '{"score": NaN}', '{"score": -0.1}', "{"])
def test_a_grade_is_never_guessed(reply: str) -> None:
    with pytest.raises(NoGrade):
        read_grade(reply)


def test_a_fence_round_a_grade_is_let_pass() -> None:
    assert float(read_grade('```json\n{"score": 0.25}\n```').value) == 0.25


def test_a_command_of_ones_own(suite_file: Write, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import assay\nassay.main(lambda prompt: 'RAG for ' + prompt)\n")
    file = suite_file(RAG)
    for words in (["--suite", file], ["agent", "--suite", file, "--json"], ["--help"]):
        command = [sys.executable, tmp_path / "mine.py", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr
    below = suite_file("cases: [{name: c, input: x, output_contains: [nope]}]\n", "below.yaml")
    assert subprocess.run([sys.executable, tmp_path / "mine.py", "--suite", below], check=False).returncode == 1


def test_from_python(suite_file: Write) -> None:
    suite = library.load_suite(suite_file("threshold: 0.5\nchecks: [{type: tools_list, expect_tools: [a, nope]}]\n"))
    assert isinstance(suite, library.Suite)
    report = library.run_suite(suite, server=faulty())
    assert (report.passed, report.exit_code, float(report.value)) == (True, 0, 0.5)
    assert library.run_suite(suite, server=f"{sys.executable} {FAULTY} exit").exit_code == 3
    with pytest.raises(UsageError, match="which server"):
        library.run_suite(suite)
    with pytest.raises(UsageError, match="which agent"):
        library.run_suite(suite_file(RAG))
    with pytest.raises(UsageError, match=r'\[agent\] run = "last" is for `assay agent'):
        library.run_suite(suite_file("agent: {run: last}\n" + RAG))
    trajectory = library.Trajectory("RAG")
    assert library.run_suite(suite_file(RAG), agent=lambda _: trajectory).passed


def test_everything_public_is_there() -> None:
    for name in library.__all__:
        assert getattr(library, name) is not None
    assert set(library.__all__) <= set(dir(library))
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        library.nope  # noqa: B018
