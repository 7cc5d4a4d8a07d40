"""Suites as pytest items, and fixtures for tests of one's own."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.suite.conftest import faulty, faulty_line

pytest_plugins = ["pytester"]
SERVER = f"server: {{command: [{sys.executable}, {faulty()[1]}, fine]}}\n"


def lines(pytester: pytest.Pytester, *argv: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rA", *argv)


def test_one_item_for_each_check(pytester: pytest.Pytester) -> None:
    Path("good.assay.yaml").write_text(
        SERVER + "checks:\n- {name: lists, type: tools_list, expect_tools: [a]}\n"
        "- {type: tool_call, tool: die}\n- {type: tool_call, tool: fail, expect: ok}\n- {type: clean_stdout}\n"
    )
    Path("not-a-suite.yaml").write_text("x: 1\n")
    result = lines(pytester)
    result.assert_outcomes(passed=2, failed=2)
    text = result.stdout.str()
    assert "good.assay.yaml::lists" in text
    assert "tools/call die: the server exited with code 7" in text
    assert "stderr of fine" in text
    assert "Traceback" not in text


def test_agents_and_a_threshold(pytester: pytest.Pytester) -> None:
    agent = "agent: {command: [cat]}\n"
    cases = "cases: [{name: a, input: hi, output_contains: [hi]}, {name: b, input: hi, output_contains: [ho]}]\n"
    Path("half.assay.yml").write_text(agent + "threshold: 0.5\n" + cases)
    Path("more.assay.yml").write_text(agent + "threshold: 0.6\n" + cases)
    result = lines(pytester)
    result.assert_outcomes(passed=3, xfailed=2, failed=1)
    assert "suite score 0.50 is below the threshold 0.60" in result.stdout.str()


def test_a_wrong_suite_is_an_error_of_collection(pytester: pytest.Pytester) -> None:
    Path("bad.assay.toml").write_text("checks = []\n")
    result = lines(pytester)
    result.assert_outcomes(errors=1)
    assert "an empty suite would always be green" in result.stdout.str()


def test_a_suite_that_names_no_server(pytester: pytest.Pytester) -> None:
    Path("x.assay.yaml").write_text("checks: [{type: clean_stdout}]\n")
    result = lines(pytester)
    result.assert_outcomes(failed=1)
    assert "needs a [server] table" in result.stdout.str()


def test_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        def test_server(assay_server):
            session = assay_server({faulty_line()!r})
            assert "a" in session.list_all("tools/list").names()
            assert session.call("a", {{"x": 1}}).text == 'ok {{"x": 1}}'

        def test_good(assay_check):
            assay_check({{"output": "x", "calls": [{{"name": "s"}}]}}, expect_tools=["s"], output_contains=["x"])

        def test_bad(assay_check):
            assay_check("x", output_contains=["x", "y"])
        """
    )
    result = lines(pytester, shlex.quote("-q"))
    result.assert_outcomes(passed=2, failed=1)
    assert "1/2 substrings present: not 'y'" in result.stdout.str()


def test_what_only_the_command_line_takes_up_is_skipped(pytester: pytest.Pytester) -> None:
    cases = "threshold: 0.5\ncases: [{name: a, input: hi, output_contains: [hi]"
    Path("kept.assay.yaml").write_text(f"agent: {{run: last}}\n{cases}}}]\n")
    Path("sealed.assay.yaml").write_text(f"agent: {{name: claude}}\n{cases}}}]\n")
    Path("judged.assay.yaml").write_text(
        f"agent: {{command: [cat]}}\n{cases}}}, {{name: b, input: hi, judge: {{agent: claude, rubric: polite}}}}]\n"
    )
    result = lines(pytester)
    result.assert_outcomes(passed=1, skipped=6)
    result.stdout.re_match_lines_random(
        [
            r'SKIPPED.*\[agent\] run = "last" is for `assay agent --suite kept\.assay\.yaml`',
            r'SKIPPED.*\[agent\] name = "claude" is for `assay agent --suite sealed\.assay\.yaml`',
            r'SKIPPED.*the judge agent = "claude" is for `assay agent --suite judged\.assay\.yaml`',
        ]
    )


def test_the_suites_timeout_is_for_all_its_items(pytester: pytest.Pytester) -> None:
    """The second case alone could be answered in time; there is none left."""
    cases = "cases: [{name: a, input: '60'}, {name: b, input: '0'}]\n"
    Path("slow.assay.yaml").write_text(f"timeout: 1s\nagent: {{command: [xargs, sleep]}}\n{cases}")
    result = lines(pytester)
    result.assert_outcomes(failed=2)
    assert "did not end within" in result.stdout.str()
    assert "not asked: the suite's 1 s were over" in result.stdout.str()


@pytest.mark.parametrize(
    ("on_error", "threshold", "outcomes"),
    [
        ("fail", 0.5, {"passed": 2, "xfailed": 1}),
        ("fail", 0.6, {"passed": 1, "xfailed": 1, "failed": 1}),
        ("fail", 1, {"passed": 1, "failed": 1}),
        ("error", 0.5, {"passed": 1, "failed": 2}),
    ],
)
def test_errors_count_as_the_suite_says(
    pytester: pytest.Pytester, on_error: str, threshold: float, outcomes: dict[str, int]
) -> None:
    """As for `assay mcp`: exit 0, 1, 1, 3."""
    Path("x.assay.yaml").write_text(
        f"{SERVER}on_error: {on_error}\nthreshold: {threshold}\n"
        "checks: [{name: good, type: tool_call, tool: a, expect: ok}, {name: gone, type: tool_call, tool: die}]\n"
    )
    result = lines(pytester)
    result.assert_outcomes(**outcomes)
    told = "not measured: gone" in result.stdout.str()
    assert told is (on_error == "error")


def test_a_server_that_does_not_start_is_never_a_score(pytester: pytest.Pytester) -> None:
    Path("x.assay.yaml").write_text(
        SERVER.replace("fine", "exit") + "on_error: fail\nthreshold: 0\nchecks: [{type: clean_stdout}]\n"
    )
    result = lines(pytester)
    result.assert_outcomes(failed=2)
    assert "the server exited with code 1" in result.stdout.str()
