"""Metrics of agents: pairing is optimal, scores are exact, reasons are told."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.model.events import Event, Text, ToolResult
from assay.model.events import ToolCall as CallEvent
from assay.model.outcome import Tokens
from assay.model.score import Score, State
from assay.model.trajectory import Call, Trajectory
from assay.suite.agent_runner import score_trajectory
from assay.suite.metrics.matching import any_order, by_position, in_order
from assay.suite.metrics.tools import in_scope
from assay.suite.suite import read_suite


def score(trajectory: Trajectory, **case: object) -> dict[str, Score]:
    return score_trajectory(read_suite({"cases": [case]}, Path("s.toml")).cases[0], trajectory)


def called(*names: str, **more: object) -> Trajectory:
    return Trajectory("out", tuple(Call(name, {}) for name in names), **more)  # type: ignore[arg-type]


weights = st.integers(0, 5).flatmap(
    lambda columns: st.lists(
        st.lists(
            st.sampled_from([Fraction(0), Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(1)]),
            min_size=columns,
            max_size=columns,
        ),
        max_size=5,
    )
)


def total(table: list[list[Fraction]], pairs: list[int | None]) -> Fraction:
    used = [j for j in pairs if j is not None]
    assert len(used) == len(set(used)), "each is used once"
    return sum((table[i][j] for i, j in enumerate(pairs) if j is not None), Fraction(0))


def best(table: list[list[Fraction]], *, ordered: bool) -> Fraction:
    """The greatest total, by trying everything."""
    columns = len(table[0]) if table else 0
    choices = itertools.product([None, *range(columns)], repeat=len(table))
    found = Fraction(0)
    for choice in choices:
        used = [j for j in choice if j is not None]
        if len(used) == len(set(used)) and (not ordered or used == sorted(used)):
            found = max(found, sum((table[i][j] for i, j in enumerate(choice) if j is not None), Fraction(0)))
    return found


@settings(max_examples=200, deadline=None)
@given(weights)
def test_pairing_is_optimal(table: list[list[Fraction]]) -> None:
    assert total(table, any_order(table)) == best(table, ordered=False)
    pairs = in_order(table)
    assert total(table, pairs) == best(table, ordered=True)
    used = [j for j in pairs if j is not None]
    assert used == sorted(used)
    assert total(table, by_position(table)) <= total(table, any_order(table))


@pytest.mark.parametrize(
    ("case", "names", "value", "detail"),
    [
        ({"expect_tools": ["s", "s", "q"]}, "st", "2/3", "2/3 expected tools called: missing q"),
        ({"expect_tools": ["s"]}, "tss", "1", "1/1 expected tools called"),
        ({"calls": [{"tool": "s"}, {"tool": "s"}]}, "st", "1/2", "1/2 expected tools called: missing s"),
        ({"expect_tools": ["t"], "order": "exact"}, "st", "0", "ordered: 0/1 matched: call 1 is s, not t"),
        ({"expect_tools": ["s", "t"], "order": "exact"}, "st", "1", "ordered: 2/2 matched"),
        ({"expect_tools": ["s", "t", "u"], "order": "exact"}, "st", "2/3", "call 3 is not there, not u"),
        ({"expect_tools": ["s", "u"], "order": "in_order"}, "stu", "1", "ordered: 2/2 matched"),
        ({"expect_tools": ["u", "s"], "order": "in_order"}, "stu", "1/2", "in its place"),
        ({"expect_tools": ["s"], "extra": "deny"}, "stu", "1/3", "not expected: t, u"),
        ({"expect_tools": ["s", "t"], "order": "exact", "extra": "deny"}, "st", "1", "ordered: 2/2 matched"),
    ],
)
def test_tool_correctness(case: dict[str, object], names: str, value: str, detail: str) -> None:
    result = score(called(*names), **case)["tool_correctness"]
    assert result.value == Fraction(value)
    assert detail in result.detail
    assert (result.state is State.PASSED) == (value == "1")


ARGS = {"q": "rag papers", "n": 3, "deep": {"a": 1, "b": [1, 2]}}


@pytest.mark.parametrize(
    ("match", "args", "value", "reason"),
    [
        ("exact", ARGS, "1", ""),
        ("exact", {"q": "rag papers", "n": 3}, "3/4", "deep is not expected"),
        ("exact", {**ARGS, "n": 4}, "3/4", "n = 3 is not 4"),
        ("exact", {**ARGS, "more": 1}, "4/5", "more is missing"),
        ("subset", {"deep": {"a": 1}}, "1", ""),
        ("subset", {"deep": {"a": 2}}, "1/2", "deep ="),
        ("subset", {"deep": {"b": [1]}}, "1/2", "deep ="),
        ("regex", {"q": "^rag", "n": 3}, "1", ""),
        ("regex", {"q": "^papers", "deep": '"b": .1, 2'}, "2/3", 'q = "rag papers" does not match "^papers"'),
        ("ignore", {"q": "anything"}, "1", ""),
    ],
)
def test_arguments(match: str, args: dict[str, object], value: str, reason: str) -> None:
    trajectory = Trajectory(calls=(Call("search", ARGS),))
    result = score(trajectory, calls=[{"tool": "search", "args": args, "args_match": match}])["tool_correctness"]
    assert result.value == Fraction(value)
    assert reason in result.detail


def test_duplicates_are_paired_as_well_as_they_can_be() -> None:
    expected = [{"tool": "s", "args": {"q": "a"}, "args_match": "subset"}, {"tool": "s"}]
    for order in itertools.permutations([{"q": "a"}, {"q": "b"}]):
        trajectory = Trajectory(calls=tuple(Call("s", args) for args in order))
        for cases in (expected, expected[::-1]):
            assert score(trajectory, calls=cases)["tool_correctness"].value == 1


def test_true_is_not_one() -> None:
    trajectory = Trajectory(calls=(Call("s", {"x": True}),))
    assert score(trajectory, calls=[{"tool": "s", "args": {"x": 1}}])["tool_correctness"].value == Fraction(1, 2)


def test_unknown_is_an_error_and_never_a_number() -> None:
    result = score(
        Trajectory("x", (Call("s"),)),
        calls=[{"tool": "s", "args": {"x": 1}}],
        max_latency="1s",
        max_tokens=5,
        max_cost_usd=1,
    )
    assert all(s.state is State.ERROR and s.value is None for s in result.values())
    assert score(Trajectory(error="boom"), output_contains=["x"])["answer"].state is State.ERROR


def test_ceilings() -> None:
    trajectory = called("a", "b", seconds=8.0009, tokens=Tokens(input=10, cached=5, output=7), cost_usd=0.3)
    good = score(trajectory, max_latency="9s", max_tokens=22, max_cost_usd=0.3, max_calls=2, forbid_tools=["c"])
    assert [s.value for s in good.values()] == [1] * 5
    bad = score(trajectory, max_latency="8s", max_tokens=21, max_cost_usd=0.29, max_calls=1, forbid_tools=["b", "c"])
    assert [s.value for s in bad.values()] == [0] * 5
    assert bad["max_latency"].detail == "8000.9ms > 8000ms (too slow)"


def test_output() -> None:
    result = score(Trajectory("About RAG"), output_contains=["RAG", "rag"], output_regex=["^About", "x$"])
    assert result["output_contains"].detail == "1/2 substrings present: not 'rag'"
    assert result["output_regex"].value == Fraction(1, 2)


def test_only_what_is_asked_for_counts() -> None:
    assert list(score(Trajectory("x"), output_contains=["y"])) == ["output_contains"]
    assert score(Trajectory("x"))["answered"].detail == "no expectations"


NESTED: list[Event] = [
    CallEvent("Task", title="look around", id="1", input={"kind": "scout"}),
    CallEvent("Task", title="write", id="2", input={"kind": "writer"}),
    CallEvent("Read", id="3", actor="writer"),
    ToolResult("text", True, "3", "writer"),
    CallEvent("Grep", id="4", actor="scout"),
    CallEvent("Read", id="5", actor="writer"),
    ToolResult("nothing", False, "4", "scout"),
    ToolResult("done", True, "1"),
    Text("sub words", "writer"),
    ToolResult("done", True, "2"),
    Text("the end"),
]


def test_nested_calls() -> None:
    trajectory = Trajectory.from_events(NESTED)
    assert trajectory.output == "the end"
    assert [(call.id, call.parent, call.actor) for call in trajectory.calls] == [
        ("1", "", ""),
        ("2", "", ""),
        ("3", "2", "writer"),
        ("4", "1", "scout"),
        ("5", "2", "writer"),
    ]
    assert [call.is_error for call in trajectory.calls] == [False, False, False, True, None]
    found = {
        scope: [c.id for c in in_scope(trajectory.calls, scope)] for scope in ("all", "root", "leaf", "actor:scout")
    }
    assert found == {
        "all": ["1", "2", "3", "4", "5"],
        "root": ["1", "2"],
        "leaf": ["3", "4", "5"],
        "actor:scout": ["4"],
    }
    assert score(trajectory, expect_tools=["Read"], scope="root")["tool_correctness"].value == 0
    assert score(trajectory, expect_tools=["Read"], scope="leaf", max_calls=3)["max_calls"].value == 1


def test_messages() -> None:
    trajectory = Trajectory.from_messages(
        [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": '{"a": 1}'}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "3"},
            {"role": "assistant", "content": [{"type": "text", "text": "It is 3."}]},
        ]
    )
    assert trajectory == Trajectory("It is 3.", (Call("add", {"a": 1}, "c1", result="3"),))


@pytest.mark.parametrize(
    "data",
    [
        {"outptu": "x"},
        {"output": 5},
        {"calls": "x"},
        {"calls": [{}]},
        {"calls": [{"name": "x", "args": []}]},
        {"tokens": {"in": 1}},
        {"seconds": "1"},
    ],
)
def test_a_wrong_trajectory_is_refused(data: Mapping[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Trajectory.from_dict(data)


@pytest.mark.parametrize("messages", [["x"], [{"role": "assistant", "tool_calls": ["x"]}]])
def test_wrong_messages_are_refused(messages: list[object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Trajectory.from_messages(messages)


def test_a_trajectory_survives_json() -> None:
    data = {"output": "x", "calls": [{"name": "s", "args": {"q": 1}}], "seconds": 1.5, "tokens": {"input": 3}}
    trajectory = Trajectory.from_dict(json.loads(json.dumps(data)))
    assert trajectory.calls == (Call("s", {"q": 1}),)
    assert trajectory.tokens == Tokens(input=3)
