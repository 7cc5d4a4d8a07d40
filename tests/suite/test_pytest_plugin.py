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
