"""Regular expressions are RE2's, and none of them, nor any schema, takes longer than it may."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.model.score import State
from assay.model.trajectory import Call, Trajectory
from assay.suite.agent_runner import score_trajectory
from assay.suite.patterns import BadPattern, Pattern, Undecided
from assay.suite.suite import read_suite
from assay.suite.wire.answers import Listing, read_page
from assay.suite.wire.faults import BadAnswer
from tests.suite.conftest import Run, faulty_line

HEAVY, EVIL = "^(?=a)(a+)+$", "a" * 40 + "!"
SLACK = 20.0
"""Seconds for what would otherwise take years; the machine may be busy."""


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("[[:digit:]]+", "no 1", True),
        ("[[:digit:]]+", "none", False),
        (r"\pL\pN", "é1", True),
        ("(?U)o.*k", "ook", True),
        (r"k\z", "ok", True),
        ("k$", "ok\n", False),
        (r"\d", "٣", False),
        ("(?i)OK", "all ok", True),
        ("(?=a)a", "ba", True),
        ("^(?!.*error)", "an error", False),
        (r"(a)\1", "aa", True),
        ("a", "\ud800a", True),
        ("^(a+)+$", EVIL, False),
    ],
)
def test_what_is_found(pattern: str, text: str, found: bool) -> None:
    assert Pattern(pattern).search(text) is found


@pytest.mark.parametrize("pattern", ["(", "[", r"\p", "a**?+", "(" * 3000, "(?" + "x" * 20_000])
def test_what_is_none(pattern: str) -> None:
    with pytest.raises(BadPattern) as caught:
        Pattern(pattern)
    assert 0 < len(str(caught.value)) < 300


def test_the_clock_of_what_knows_no_bound() -> None:
    begin = time.monotonic()
    with pytest.raises(Undecided, match=r"matching '\^\(\?=a\).* took longer than 0\.5 s"):
        Pattern(HEAVY).search(EVIL, begin + 0.5)
    assert time.monotonic() - begin < SLACK


def test_the_clock_of_a_large_pattern_on_a_long_text() -> None:
    text = "".join(random.Random(1).choices("ab", k=4_000_000))
    with pytest.raises(Undecided, match="took longer"):
        Pattern("a[ab]{900}c").search(text, time.monotonic() + 0.3)


def test_a_long_text_is_searched() -> None:
    assert Pattern("z[ab]{30}c?$").search("ab" * 2_000_000 + "z" + "ab" * 15, time.monotonic() + 60)


UNASKED = "checks: [{type: tools_list, expect_tools: [a]}, {type: tool_call, tool: a, expect: ok}]"
ASKED = "server: {call_timeout: 2s}\nchecks: [{type: tool_call, tool: a, expect: ok, schema: declared}]"
REFUSED = "structuredContent breaks the tool's output schema: x does not match '^(a+)+$'"


@pytest.mark.parametrize("mode", ["slow_pattern", "endless_pattern", "endless_schema"])
def test_a_servers_schema_that_nothing_asks_for(assay: Run, suite_file: Callable[..., Path], mode: str) -> None:
    begin = time.monotonic()
    done = assay("mcp", "--server", faulty_line(mode), "--suite", str(suite_file(UNASKED)))
    assert time.monotonic() - begin < SLACK
    assert (done.code, "SUITE SCORE: 1.00" in done.out) == (0, True), done.out + done.err


@pytest.mark.parametrize(
    ("mode", "code", "told"),
    [
        ("slow_pattern", 1, REFUSED),
        ("endless_pattern", 3, "matching '^(?=a)(a+)+$' took longer than"),
        ("endless_schema", 3, "comparing the answer with its schema took too long, so there is no score"),
    ],
)
def test_a_servers_schema_that_is_asked_for(
    assay: Run, suite_file: Callable[..., Path], mode: str, code: int, told: str
) -> None:
    begin = time.monotonic()
    done = assay("mcp", "--server", faulty_line(mode), "--suite", str(suite_file(ASKED)))
    assert time.monotonic() - begin < SLACK
    assert (done.code, told in done.out) == (code, True), done.out + done.err


def test_the_suites_own_pattern(assay: Run, suite_file: Callable[..., Path]) -> None:
    text = f"server: {{call_timeout: 1s}}\nchecks: [{{type: tool_call, tool: a, args: {{x: {EVIL}}}, result_regex: "
    for pattern, code, words in (("(a+)+$", 1, "nothing matches"), ("(a+)+(?=b)", 3, "took longer than")):
        file = suite_file(f"{text}['{pattern}']}}]")
        done = assay("mcp", "--server", faulty_line(), "--suite", str(file))
        assert (done.code, words in done.out) == (code, True), done.out + done.err


def test_what_an_agent_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("output", "tools"):
        monkeypatch.setattr(f"assay.suite.metrics.{module}.MATCH_SECONDS", 0.5)
    asked = {"output_regex": ["(a+)+(?=b)"], "calls": [{"tool": "t", "args": {"q": HEAVY}, "args_match": "regex"}]}
    suite = read_suite({"cases": [{"name": "x", **asked, "max_calls": 1}]}, Path("x.yaml"))
    trajectory = Trajectory(output=EVIL, calls=(Call(name="t", args={"q": EVIL}),))
    scores = score_trajectory(suite.cases[0], trajectory)
    told = {label: (score.state, "took longer than" in score.detail) for label, score in scores.items()}
    assert told == {
        "tool_correctness": (State.ERROR, True),
        "output_regex": (State.ERROR, True),
        "max_calls": (State.PASSED, False),
    }


def test_schemas_that_there_is_no_time_to_look_at() -> None:
    def blame(why: str) -> BadAnswer:
        return BadAnswer("tools/list", why)

    listing, page = Listing(), {"tools": [{"name": "a", "inputSchema": {"type": "object", "properties": {}}}]}
    assert read_page(listing, page, "tools", blame, time.monotonic() - 1) is None
    assert listing.names() == ["a"]
    assert listing.problems == ["entry 1 (a): inputSchema takes too long to look at"]
