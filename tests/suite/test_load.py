"""What a suite's file may say, and how what it may not is refused: at load, exit 2, with file, place and remedy."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from assay.model.errors import ConfigError
from assay.suite.checks.calls import ToolCall
from assay.suite.checks.lists import ListCheck
from assay.suite.mcp_runner import case_names
from assay.suite.suite import load_suite
from tests.suite.conftest import Run, faulty_line

Write = Callable[..., Path]
CHECK = "checks: [{type: tools_list, expect_tools: [a]}]\n"

REFUSED: dict[str, tuple[str, str]] = {
    "empty file": ("", "it is empty"),
    "empty checks": ("threshold: 0.5\nchecks: []\n", "an empty suite would always be green"),
    "no checks": ("threshold: 0.5\n", "an empty suite would always be green"),
    "empty cases": ("cases: []\n", "an empty suite would always be green"),
    "both": (CHECK + "cases: [{input: x}]\n", "put them in two files"),
    "unknown key": ("checks: [{type: tools_list, expect_tool: [a]}]\n", "did you mean 'expect_tools'"),
    "unknown key above": (CHECK + "treshold: 1\n", "did you mean 'threshold'"),
    "unknown type": ("checks: [{type: tool_cal, tool: a}]\n", "did you mean 'tool_call'"),
    "no type": ("checks: [{tool: a}]\n", "what type of check is this"),
    "no tool": ("checks: [{type: tool_call}]\n", "which tool is to be called"),
    "wrong check's key": ("checks: [{type: tools_list, result_contains: [a]}]\n", "unknown key"),
    "threshold above": (CHECK + "threshold: 2\n", "must lie between 0 and 1"),
    "threshold below": (CHECK + "threshold: -1\n", "must lie between 0 and 1"),
    "threshold nan": (CHECK + "threshold: .nan\n", "no number that a suite can use"),
    "threshold quoted": (CHECK + "threshold: '0.5'\n", "must be a number"),
    "threshold bool": (CHECK + "threshold: true\n", "must be a number"),
    "scalar for list": ("checks: [{type: tools_list, expect_tools: a}]\n", "must be a list of texts"),
    "no unit": ("checks: [{type: tool_call, tool: a, max_latency: '10'}]\n", "has no unit"),
    "garbage duration": ("checks: [{type: tool_call, tool: a, max_latency: soon}]\n", "is not a duration"),
    "zero duration": ("checks: [{type: tool_call, tool: a, max_latency: 0s}]\n", "longer than nothing"),
    "negative duration": ("checks: [{type: tool_call, tool: a, max_latency: -5ms}]\n", "longer than nothing"),
    "empty text": ("checks: [{type: tool_call, tool: a, result_contains: ['']}]\n", "asserts nothing"),
    "bad pattern": ("checks: [{type: tool_call, tool: a, result_regex: ['(']}]\n", "is no regular expression"),
    "bad path": ("checks: [{type: tool_call, tool: a, result_json: {'a[x]': 1}}]\n", "is no path"),
    "bad schema": ("checks: [{type: tool_call, tool: a, schema: {type: int}}]\n", "is no JSON Schema"),
    "contradiction": ("checks: [{type: tool_call, tool: a, expect_no_error: true, expect: error}]\n", "contradicts"),
    "duplicate name": ("checks: [{name: n, type: clean_stdout}, {name: n, type: valid_schemas}]\n", "given 2 times"),
    "duplicate case": ("cases: [{name: n, input: a}, {name: n, input: b}]\n", "given 2 times"),
    "duplicate key": ("threshold: 1\nthreshold: 1\n" + CHECK, "given twice"),
    "two documents": (CHECK + "---\n" + CHECK, "a second document begins here"),
    "not YAML": ("checks: [\n", "not valid YAML"),
    "a list": ("- a\n", "a suite is a mapping"),
    "tag": ("checks: !!python/object:os.system x\n", "has no meaning"),
    "two servers": (CHECK + "server: {command: [a], url: 'http://x'}\n", "not both"),
    "bad url": (CHECK + "server: {url: 'ftp://x'}\n", "must begin with http"),
    "bad protocol": (CHECK + "server: {protocol: '2025'}\n", "must be one of"),
    "unset variable": (CHECK + "server: {headers: {A: '${NOT_SET_HERE}'}}\n", "the variable NOT_SET_HERE is not set"),
    "bad capability": (CHECK + "server: {capabilities: [rots]}\n", "did you mean 'roots'"),
    "case pattern": ("cases: [{input: a, output_regex: ['(']}]\n", "is no regular expression"),
    "case argument pattern": (
        "cases: [{input: a, calls: [{tool: t, args: {q: '['}, args_match: regex}]}]\n",
        "no regular",
    ),
    "empty pattern": ("checks: [{type: tool_call, tool: a, result_regex: ['']}]\n", "asserts nothing"),
    "case empty pattern": ("cases: [{input: a, output_regex: ['']}]\n", "asserts nothing"),
    "case order": ("cases: [{input: a, order: exact}]\n", "asserts nothing"),
    "case scope": ("cases: [{input: a, scope: root}]\n", "nothing here looks at calls"),
    "case arguments": ("cases: [{input: a, calls: [{tool: t, args_match: exact}]}]\n", "no args are given"),
    "case rate": ("cases: [{input: a, pass_rate: 0.5}]\n", "add repeat"),
    "case judge": ("cases: [{input: a, judge: good}]\n", "who judges"),
    "judge rubric": ("judge: {command: [j]}\ncases: [{input: a, judge: {votes: 3}}]\n", "what is a good answer"),
    "two agents": ("agent: {object: a:b, command: [c]}\ncases: [{input: a}]\n", "one agent is tested"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_refused_at_load(fault: str, suite_file: Write, assay: Run) -> None:
    text, words = REFUSED[fault]
    file = suite_file(text)
    with pytest.raises(ConfigError) as caught:
        load_suite(file)
    assert words in str(caught.value)
    assert str(caught.value).startswith(str(file))
    outcome = assay("mcp", "--server", "never-started", "--suite", file)
    assert outcome.code == 2
    assert outcome.out == ""
    assert words in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_a_fault_names_its_place(suite_file: Write) -> None:
    file = suite_file("checks:\n- {type: clean_stdout}\n- {type: tool_call, tool: a, max_latency: soon}\n")
    with pytest.raises(ConfigError) as caught:
        load_suite(file)
    assert caught.value.path == "checks[1].max_latency"


def test_missing_and_unreadable_files(tmp_path: Path, assay: Run) -> None:
    for file in (tmp_path / "none.yaml", tmp_path):
        outcome = assay("mcp", "--server", "x", "--suite", file)
        assert (outcome.code, "cannot be read" in outcome.err) == (2, True)
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"checks: \xff")
    assert "line 1: not UTF-8" in assay("mcp", "--server", "x", "--suite", binary).err


def test_toml_and_yaml_are_the_same_tree(suite_file: Write) -> None:
    yaml = suite_file(
        "threshold: 0.7\nchecks:\n- {name: n, type: tool_call, tool: t, args: {a: [1, 2.5, {b: true}]},"
        " max_latency: 1m30s}\n"
    )
    toml = suite_file(
        'threshold = 0.7\n[[checks]]\nname = "n"\ntype = "tool_call"\ntool = "t"\nmax_latency = 90\n'
        "args.a = [1, 2.5, {b = true}]\n",
        "suite.toml",
    )
    one, two = load_suite(yaml), load_suite(toml)
    assert one.checks == two.checks
    assert one.threshold == two.threshold == Fraction(7, 10)


def test_yaml_keeps_texts_as_they_are_written(suite_file: Write) -> None:
    suite = load_suite(
        suite_file(
            "checks:\n- type: tool_call\n  tool: t\n"
            "  args: {country: no, on: 2024-01-02, n: 0x10, s: !!str 5, e: 1e3}\n"
            "- {type: tools_list, expect_tools: [1, true, 1.50, yes]}\n"
        )
    )
    call, tools = suite.checks
    assert isinstance(call, ToolCall)
    assert call.args == {"country": "no", "on": "2024-01-02", "n": 16, "s": "5", "e": 1000.0}
    assert isinstance(tools, ListCheck)
    assert tools.expected == ("1", "true", "1.50", "yes")


def test_the_default_threshold_is_all(suite_file: Write) -> None:
    assert load_suite(suite_file(CHECK)).threshold == 1


def test_names_in_reports(suite_file: Write) -> None:
    suite = load_suite(
        suite_file(
            "checks: [{type: tool_call, tool: a}, {type: tool_call, tool: a}, {name: mine, type: tool_call, tool: a}]\n"
        )
    )
    assert case_names(suite.checks) == ["tool_call:a", "tool_call:a#2", "mine"]


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        ("--suite FILE is missing", ["mcp", "--server", "x"]),
        ("which server?", ["mcp", "--suite", "{mcp}"]),
        ("give one of them", ["mcp", "--server", "x", "--url", "http://x", "--suite", "{mcp}"]),
        ("--server is empty", ["mcp", "--server", "  ", "--suite", "{mcp}"]),
        ("cannot be split", ["mcp", "--server", "a 'b", "--suite", "{mcp}"]),
        ("must begin with http", ["mcp", "--url", "x", "--suite", "{mcp}"]),
        ("--threshold is a number from 0 to 1", ["mcp", "--server", "x", "--threshold", "nan", "--suite", "{mcp}"]),
        ("use `assay agent", ["mcp", "--server", "x", "--suite", "{agent}"]),
        ("use `assay mcp", ["agent", "--object", "a:b", "--suite", "{mcp}"]),
        ("which agent?", ["agent", "--suite", "{agent}"]),
        ("name several agents", ["agent", "--object", "a:b", "--command", "c", "--suite", "{agent}"]),
        ("no module 'no_such_module'", ["agent", "--object", "no_such_module:b", "--suite", "{agent}"]),
        ("json has no 'nope'", ["agent", "--object", "json:nope", "--suite", "{agent}"]),
        ("neither callable", ["agent", "--object", "json:__doc__", "--suite", "{agent}"]),
        ("is named module:attribute", ["agent", "--object", "json", "--suite", "{agent}"]),
        ("cannot be read", ["agent", "--recorded", "none.json", "--suite", "{agent}"]),
        ("add --agent NAME", ["agent", "--object", "json:dumps", "--model", "m", "--suite", "{agent}"]),
    ],
)
def test_wrong_command_lines(words: str, argv: list[str], suite_file: Write, assay: Run) -> None:
    files = {"mcp": suite_file(CHECK, "m.yaml"), "agent": suite_file("cases: [{input: x}]\n", "a.yaml")}
    outcome = assay(*(word.format(**files) for word in argv))
    assert outcome.code == 2
    assert words in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_a_junit_file_that_cannot_be_written(suite_file: Write, assay: Run, tmp_path: Path) -> None:
    file = suite_file(CHECK)
    outcome = assay("mcp", "--server", faulty_line(), "--suite", file, "--junit", tmp_path / "no" / "x.xml")
    assert outcome.code == 2
    assert "cannot be written" in outcome.err
