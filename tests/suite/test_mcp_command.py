"""`assay mcp` on the faulty server: scores, tables, exit codes."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.suite.conftest import Run, faulty_line

Write = Callable[..., Path]


def test_the_table(assay: Run, suite_file: Write) -> None:
    file = suite_file(
        """
threshold: 0.5
checks:
  - {type: tools_list, expect_tools: [a, b, c]}
  - {type: tool_call, tool: a, args: {x: 1}, expect_no_error: true, result_contains: [ok, "no"], max_latency: 5s}
  - {name: third, type: tool_call, tool: fail, expect: tool_error}
"""
    )
    outcome = assay("mcp", "--server", faulty_line(), "--suite", file)
    assert outcome.out == (
        "CASE              SCORE  RESULT\n"
        "tools_list        0.33   ~\n"
        "  tools_list      0.33   1/3 expected tools exposed: missing b, c\n"
        "tool_call:a       0.75   ~\n"
        "  tool_call:a     0.75   3/4 assertions passed: the text does not contain 'no', got 'ok {\"x\": 1}'\n"
        "third             1.00   ✓\n"
        "  tool_call:fail  1.00   1/1 assertions passed\n"
        "\n"
        "SUITE SCORE: 0.69   threshold 0.50   PASS\n"
    )
    assert outcome.code == 0
    assert assay("mcp", "--server", faulty_line(), "--suite", file, "--threshold", "0.7").code == 1


def test_the_readme_suite_of_the_go_harness(assay: Run, suite_file: Write) -> None:
    """As that harness prints it, but for the cases' names: the suite's own instead of the check's kind."""
    file = suite_file(
        """
# checks.yaml
threshold: 1.0
checks:
  - name: lists_all_tools
    type: tools_list
    expect_tools: [get_visa_bulletin, check_priority_date, explain_term]
  - name: explain_term_works
    type: tool_call
    tool: explain_term
    args: { term: "priority date" }
    expect_no_error: true
    max_latency: 10s
"""
    )
    outcome = assay("mcp", "--server", faulty_line("visa"), "--suite", file)
    assert outcome.out == (
        "CASE                      SCORE  RESULT\n"
        "lists_all_tools           1.00   ✓\n"
        "  tools_list              1.00   3/3 expected tools exposed\n"
        "explain_term_works        1.00   ✓\n"
        "  tool_call:explain_term  1.00   2/2 assertions passed\n"
        "\n"
        "SUITE SCORE: 1.00   threshold 1.00   PASS\n"
    )
    assert outcome.code == 0


def test_a_malformed_answer_is_a_failure_with_evidence(assay: Run, suite_file: Write) -> None:
    file = suite_file("checks: [{type: tool_call, tool: badlist}]\n")
    outcome = assay("mcp", "--server", faulty_line(), "--suite", file)
    assert outcome.code == 1
    assert 'tools/call badlist: malformed result: content is "no list", not a list' in outcome.out
    assert "stderr: stderr of fine" in outcome.out


EXPECTED: dict[str, tuple[str, str, float]] = {
    "ok": ("{tool: a, expect: ok}", "passed", 1),
    "ok on error": ("{tool: fail, expect: ok}", "failed", 0),
    "error is tool error": ("{tool: fail, expect: error}", "passed", 1),
    "error is protocol error": ("{tool: refuse, expect: error}", "passed", 1),
    "tool error only": ("{tool: refuse, expect: tool_error}", "failed", 0),
    "protocol error": ("{tool: refuse, expect: protocol_error, result_contains: [Unknown tool]}", "passed", 1),
    "protocol error only": ("{tool: fail, expect: protocol_error}", "failed", 0),
    "refused": ("{tool: refuse, result_contains: [Unknown tool]}", "failed", 0),
    "nothing asked": ("{tool: fail}", "passed", 1),
    "equals": ("{tool: fail, result_equals: ' tool failed '}", "passed", 1),
    "equals not": ("{tool: fail, result_equals: tool}", "failed", 0),
    "regex": ("{tool: a, args: {n: 42}, result_regex: ['n.: \\d+', '^no']}", "failed", 0.5),
    "types": ("{tool: mixed, result_types: [text, image, text, resource]}", "passed", 1),
    "types not": ("{tool: mixed, result_types: [text]}", "failed", 0),
    "flattened": ("{tool: mixed, result_equals: AB}", "passed", 1),
    "no JSON": ("{tool: fail, result_json: {a: 1}}", "failed", 0),
    "malformed": ("{tool: badlist}", "failed", 0),
    "nothing": ("{tool: nothing}", "failed", 0),
    "too slow": ("{tool: sleep, args: {s: 0.2}, max_latency: 100ms}", "failed", 0),
    "fast enough": ("{tool: a, max_latency: 5s}", "passed", 1),
    "sub-millisecond": ("{tool: sleep, args: {s: 0.01}, max_latency: 500us}", "failed", 0),
    "crash": ("{tool: die}", "error", 0),
    "hang": ("{tool: sleep, timeout: 0.3}", "error", 0),
    "no declared schema": ("{tool: a, schema: declared}", "failed", 0),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_expectations(name: str, assay: Run, suite_file: Write) -> None:
    check, state, value = EXPECTED[name]
    file = suite_file(f"checks: [{check.replace('{', '{type: tool_call, ', 1)}]\n")
    outcome = assay("mcp", "--server", faulty_line(), "--suite", file, "--json")
    case = json.loads(outcome.out)["cases"][0]
    assert (case["state"], case["score"]) == (state, value)
    assert outcome.code == {"passed": 0, "failed": 1, "error": 3}[state]


STRUCTURED = [
    ("result_json: {x: one}", 1),
    ("result_json: {x: 1}", 0),
    ("result_json: {y: one}", 0),
    ("schema: {type: object, required: [x]}", 1),
    ("schema: {type: object, required: [y]}", 0),
    ("schema: declared", 0),
]


@pytest.mark.parametrize(("keys", "value"), STRUCTURED)
def test_structured_content(keys: str, value: float, assay: Run, suite_file: Write) -> None:
    file = suite_file(f"checks: [{{type: tool_call, tool: a, {keys}}}]\n")
    outcome = assay("mcp", "--server", faulty_line("breaks_schema"), "--suite", file, "--json")
    assert json.loads(outcome.out)["score"] == value


def test_an_error_is_no_score_and_the_next_check_gets_a_new_server(assay: Run, suite_file: Write) -> None:
    file = suite_file(
        "checks: [{type: tool_call, tool: die}, {type: tool_call, tool: a, expect: ok},"
        " {type: tool_call, tool: sleep, timeout: 300ms}, {type: tool_call, tool: a, args: {again: 1}, expect: ok}]\n"
    )
    outcome = assay("mcp", "--server", faulty_line(), "--suite", file)
    assert outcome.code == 3
    assert "tool_call:die      0.00   ERROR" in outcome.out
    assert "tools/call die: the server exited with code 7" in outcome.out
    for evidence in ("command: ", "exit: code 7", "stderr: stderr of fine"):
        assert evidence in outcome.out
    assert "SUITE SCORE: 0.50   threshold 1.00   ERROR (2 of 4 could not be measured)" in outcome.out
    report = json.loads(assay("mcp", "--server", faulty_line(), "--suite", file, "--json").out)
    assert report["about"]["starts"] == 3
    assert report["cases"][0]["details"]["tool_call:die"]["score"] is None


def test_errors_may_count_as_failures(assay: Run, suite_file: Write) -> None:
    for threshold, code in ((0.4, 0), (0.6, 1)):
        file = suite_file(
            f"on_error: fail\nthreshold: {threshold}\n"
            "checks: [{type: tool_call, tool: die}, {type: tool_call, tool: a, expect: ok}]\n"
        )
        assert assay("mcp", "--server", faulty_line(), "--suite", file).code == code


def test_a_server_that_does_not_start(assay: Run, suite_file: Write) -> None:
    file = suite_file("checks: [{type: clean_stdout}, {type: valid_schemas}]\n")
    outcome = assay("mcp", "--server", faulty_line("exit"), "--suite", file)
    assert outcome.code == 3
    assert outcome.out.startswith("ERROR: initialize: the server exited with code 1\n")
    assert "stderr: stderr of exit" in outcome.out
    report = json.loads(assay("mcp", "--server", faulty_line("exit"), "--suite", file, "--json").out)
    assert (report["passed"], report["measured"]) == (False, False)
    assert [case["state"] for case in report["cases"]] == ["skipped", "skipped"]


@pytest.mark.parametrize(
    ("mode", "check", "value", "words"),
    [
        ("garbage", "clean_stdout", 0, "2 stray lines, first: Welcome"),
        ("fine", "clean_stdout", 1, "nothing but messages"),
        ("fine", "valid_schemas", 1, "19/19 tools well-formed"),
        ("one_bad_tool", "valid_schemas", 1 / 3, "1/3 tools well-formed: entry 1 (a): has no inputSchema"),
        ("bad_schema", "valid_schemas", 0, "type 'int' is none of"),
        ("twice", "valid_schemas", 3 / 4, "a is listed more than once"),
        ("endless", "tools_list, expect_tools: [t]", 1 / 2, "page 2 repeats the cursor 'same': the list never ends"),
        ("pages", "tools_list, exact_tools: [t0, t1, t2]", 1, "1/1"),
        ("pages", "tools_list, exact_tools: [t0, t1, t3]", 0, "missing t3; not expected t2"),
        ("twice", "tools_list, exact_tools: [a, b]", 0, "not expected a"),
        ("pages", "tools_list, forbid_tools: [t1, x]", 1 / 2, "t1 is offered"),
        ("pages", "tools_list", 1, "no tools expected"),
        ("pages", "tools_list, schemas: {t0: {type: object}}", 1, "1/1"),
        ("pages", "tools_list, schemas: {t0: {type: object, required: [x]}}", 0, "its input schema changed"),
        ("pages", "tools_list, schemas: {t0: 'sha256:00'}", 0, "its schemas changed (now sha256:"),
        ("no_tools_key", "tools_list, expect_tools: [a]", 0, "malformed result: tools is missing"),
        ("fine", "resources_list", 0, "list failed: -32601 Method not found"),
        ("fine", "prompts_list", 0, "list failed: -32601 Method not found"),
        ("fine", "resource_read, uri: 'x://1'", 0, "call failed: -32601 Method not found"),
        ("fine", "prompt_get, prompt: p, expect: error", 1, "1/1"),
    ],
)
def test_other_checks(mode: str, check: str, value: float, words: str, assay: Run, suite_file: Write) -> None:
    file = suite_file(f"checks: [{{type: {check}}}]\n")
    outcome = assay("mcp", "--server", faulty_line(mode), "--suite", file, "--json")
    report = json.loads(outcome.out)
    assert report["score"] == pytest.approx(value)
    assert words in next(iter(report["cases"][0]["details"].values()))["detail"]


def test_what_no_check_asked_for_is_noted(assay: Run, suite_file: Write) -> None:
    file = suite_file("checks: [{name: vain, type: tool_call, tool: noise}]\n")
    out = assay("mcp", "--server", faulty_line("garbage"), "--suite", file).out
    assert "note: asserts nothing but that an answer comes: vain" in out
    assert "note: 3 lines on the server's standard output are no messages, first: Welcome to my server v1!" in out


def test_isolated_checks_have_a_server_each(assay: Run, suite_file: Write) -> None:
    file = suite_file("checks: [{type: tool_call, tool: a}, {type: tool_call, tool: b}, {type: clean_stdout}]\n")
    starts = [
        json.loads(assay("mcp", "--server", faulty_line(), "--suite", file, "--json", *more).out)["about"]["starts"]
        for more in ((), ("--isolate",))
    ]
    assert starts == [1, 2]


def test_the_suite_as_a_whole_has_a_clock(assay: Run, suite_file: Write) -> None:
    file = suite_file("timeout: 700ms\nchecks: [{type: tool_call, tool: sleep}, {type: tool_call, tool: a}]\n")
    outcome = assay("mcp", "--server", faulty_line(), "--suite", file)
    assert outcome.code == 3
    assert "tools/call sleep: no answer within 0." in outcome.out
    assert "not made: the suite's 0.7 s were over" in outcome.out


def test_junit(assay: Run, suite_file: Write, tmp_path: Path) -> None:
    file = suite_file(
        "checks: [{type: tool_call, tool: a, expect: ok}, {type: tool_call, tool: fail, expect: ok},"
        " {type: tool_call, tool: die}]\n"
    )
    assay("mcp", "--server", faulty_line(), "--suite", file, "--junit", tmp_path / "out.xml")
    suite = ET.parse(tmp_path / "out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    error = suite.findall("testcase")[2].find("error")
    assert error is not None
    assert "stderr of fine" in (error.text or "")


def test_nothing_from_a_server_acts_on_the_terminal(assay: Run, suite_file: Write) -> None:
    file = suite_file(
        'checks: [{name: "tab\\tand\\nline\\e[31m", type: tool_call, tool: a, args: {x: "\\e[2J"}, result_equals: x}]\n'
    )
    out = assay("mcp", "--server", faulty_line("binary"), "--suite", file).out
    assert "\x1b" not in out
    assert "\t" not in out
    assert "tab\\tand\\nline\\x1b[31m" in out
