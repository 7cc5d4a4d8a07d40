"""Claude Code's stream beyond the recordings: endings, hostile lines, and what only the exit tells."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.decoders import claude
from assay.model.events import Event, Exit, Facts, Note, Progress, Started, Text, ToolCall, ToolResult, ToolUse
from assay.model.outcome import Ending, Tokens
from tests.decoders.facts_table import STREAMS, Case, assert_kept, cases, check, read

INIT = {
    "type": "system",
    "subtype": "init",
    "session_id": "s",
    "model": "m",
    "claude_code_version": "2",
    "tools": ["Bash"],
}
SUCCESS = {
    "type": "result", "subtype": "success", "is_error": False, "terminal_reason": "completed", "result": "yes",
    "num_turns": 1, "model_usage_since_last_result": {"m": {"inputTokens": 1, "outputTokens": 2, "costUSD": 0.5}},
}  # fmt: skip


def assistant(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": "msg", "model": "m", "content": list(blocks)}, **more}


def failed(status: int | None, **more: Any) -> dict[str, Any]:
    return {
        **SUCCESS,
        "is_error": True,
        "terminal_reason": "api_error",
        "api_error_status": status,
        "result": "no",
        **more,
    }


def events_of(*stream: dict[str, Any] | bytes) -> tuple[list[Event], Facts]:
    return read("claude", [line if isinstance(line, bytes) else json.dumps(line).encode() for line in stream])


def concluded(*stream: dict[str, Any] | bytes, exit_: Exit | None = None) -> Facts:
    return claude.conclude(events_of(*stream)[1], exit_ or Exit(0))


@pytest.mark.parametrize("case", cases("claude"), ids=str)
def test_facts(case: Case) -> None:
    check(case)


def test_every_recording_is_in_the_table() -> None:
    assert {path.stem for path in (STREAMS / "claude").glob("*.jsonl")} == {case.recording for case in cases("claude")}


@pytest.mark.parametrize(
    ("result", "ending", "kind"),
    [
        (SUCCESS, "finished", ""),
        ({**SUCCESS, "terminal_reason": None}, "finished", ""),
        ({**SUCCESS, "stop_reason": "refusal"}, "gave-up", ""),
        (failed(None, stop_reason="refusal"), "gave-up", ""),
        (failed(None, subtype="error_max_budget_usd", terminal_reason="budget_exhausted"), "gave-up", ""),
        (failed(400, terminal_reason="prompt_too_long"), "gave-up", ""),
        (failed(401), "api-error", "auth"),
        (failed(402), "api-error", "billing"),
        (failed(404), "api-error", "model"),
        (failed(429), "api-error", "rate"),
        (failed(500), "api-error", "server"),
        (failed(418), "api-error", "other"),
        (failed(None, api_error="connection_failed"), "api-error", "network"),
        (failed(429, api_error="usage_limit_reached"), "session-limit", ""),
        (failed(429, result="You've hit your weekly limit · resets Monday"), "session-limit", ""),
        (failed(None, result="Claude AI usage limit reached|1796053229"), "session-limit", ""),
        (failed(None, subtype="error_during_execution", terminal_reason="aborted_streaming"), "interrupted", ""),
        (failed(None, subtype="error_during_execution", terminal_reason=None), "crashed", ""),
        ({**SUCCESS, "num_turns": 0}, "crashed", ""),
        ({**SUCCESS, "terminal_reason": "something_new"}, "crashed", ""),
    ],
)
def test_how_a_result_line_ends_a_run(result: dict[str, Any], ending: str, kind: str) -> None:
    facts = concluded(INIT, result, exit_=Exit(1 if result["is_error"] else 0))
    assert (facts.ending, facts.error_kind) == (ending, kind)


@pytest.mark.parametrize(
    ("code", "stopped", "begun", "ending"),
    [
        (0, True, True, "interrupted"),
        (137, True, True, "interrupted"),
        (1, True, True, "interrupted"),
        (None, True, False, "interrupted"),
        (0, False, True, "interrupted"),
        (143, False, True, "interrupted"),
        (-9, False, True, "interrupted"),
        (1, False, True, "crashed"),
        (1, False, False, "crashed"),
        (0, False, False, "crashed"),
        (137, False, False, "crashed"),
    ],
)
def test_without_a_result_line(code: int | None, stopped: bool, begun: bool, ending: str) -> None:
    stream = [INIT, assistant({"type": "text", "text": "hi"})] if begun else []
    facts = concluded(*stream, exit_=Exit(code, b"Error: oh\n" if code == 1 else b"", stopped=stopped))
    assert facts.ending == ending
    assert facts.reason
    assert (facts.tokens, facts.cost_usd, facts.turns) == (None, None, None)
    if ending == "crashed" and code == 1:
        assert facts.reason == "Error: oh"


def test_a_success_stands_when_the_harness_ended_the_process_after_it() -> None:
    assert concluded(INIT, SUCCESS, exit_=Exit(143, stopped=True)).ending is Ending.FINISHED


def test_a_success_with_a_bad_exit_is_not_believed() -> None:
    facts = concluded(INIT, SUCCESS, exit_=Exit(1, b"Error: disk full"))
    assert facts.ending is Ending.CRASHED
    assert facts.reason == "exit code 1 after a result that says success: Error: disk full"


def test_an_activation_after_the_result_that_was_cut_short() -> None:
    stream = (INIT, SUCCESS, INIT, assistant({"type": "text", "text": "again"}))
    cut = concluded(*stream, exit_=Exit(143, stopped=True))
    assert (cut.ending, cut.text, cut.turns) == (Ending.INTERRUPTED, "again", 1)
    assert concluded(*stream, exit_=Exit(0)).ending is Ending.FINISHED


def test_reset_time_comes_from_the_error_then_the_event_then_the_words() -> None:
    when = datetime(2026, 11, 30, 15, 40, 29, tzinfo=UTC)
    limit = failed(429, api_error="usage_limit_reached")
    event = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1796053229}}
    error = assistant(
        {"type": "text", "text": "limit"},
        is_api_error_message=True,
        api_error_params={"rate_limit_info": {"resetsAt": 1796053229}},
    )
    assert concluded(INIT, error, limit).reset_at == when
    assert concluded(INIT, event, limit).reset_at == when
    assert concluded(INIT, failed(None, result="usage limit reached|1796053229")).reset_at == when
    assert (
        concluded(INIT, {**event, "rate_limit_info": {"status": "rejected", "resetsAt": 1e300}}, limit).reset_at is None
    )


def test_a_throttled_request_is_no_session_limit() -> None:
    event = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"}}
    assert concluded(INIT, event, failed(429)).ending is Ending.API_ERROR


def test_totals_that_go_on_from_a_resumed_session_are_not_this_run_s() -> None:
    old = {k: v for k, v in SUCCESS.items() if k != "model_usage_since_last_result"}
    old |= {"modelUsage": {"m": {"inputTokens": 5}}, "total_cost_usd": 0.1}
    fresh = concluded(INIT, old)
    assert (fresh.tokens and fresh.tokens.input, fresh.cost_usd) == (5, 0.1)
    resumed = concluded(INIT, old, exit_=Exit(0, resumed=True))
    assert (resumed.tokens, resumed.cost_usd) == (None, None)


def test_a_result_without_figures_leaves_them_unknown() -> None:
    facts = concluded(INIT, {"type": "result", "subtype": "success"})
    assert (facts.ending, facts.tokens, facts.cost_usd, facts.turns) == (Ending.FINISHED, None, None, None)


def test_effort_is_what_the_session_file_says() -> None:
    line = json.dumps({**assistant(), "uuid": "u", "perTurnEffort": "max"}).encode()
    facts = concluded(INIT, assistant(uuid="u"), SUCCESS, exit_=Exit(0, session_file=line))
    assert facts.effort == "max"
    assert facts.tokens == Tokens(1, 0, 0, 2, 0)


def kept(id_: str, into: int, out: int, *, at: int, **more: Any) -> bytes:
    """A line of a session file."""
    message = {"id": id_, "model": "m", "usage": {"input_tokens": into, "output_tokens": out}}
    return json.dumps(
        {"type": "assistant", "message": message, "timestamp": f"2026-11-30T17:00:{at:02}Z", **more}
    ).encode()


EARLIER = kept("old", 1, 1, at=1, uuid="o")
OWN, OWN_AGAIN = kept("msg", 100, 10, at=10, uuid="u", perTurnEffort="low"), kept("m2", 1000, 500, at=30)
SIDE = [kept(f"s{n}", 100, 20, at=at, isSidechain=True, perTurnEffort="max") for n, at in enumerate((2, 20))]


@pytest.mark.parametrize(
    ("lines", "resumed", "spent"),
    [
        ([OWN, OWN_AGAIN, SIDE[1]], False, 1100 + 510 + 120),
        ([EARLIER, OWN, OWN_AGAIN, *SIDE], True, 1100 + 510 + 120),
        ([OWN, OWN_AGAIN, b"torn {", SIDE[1], SIDE[1]], False, 1100 + 510 + 120),
        ([OWN, OWN_AGAIN], False, None),
        ([OWN, SIDE[1]], False, None),
        ([EARLIER, *SIDE], True, None),
    ],
)
def test_a_killed_run_has_spent_what_all_its_agents_have(lines: list[bytes], resumed: bool, spent: int | None) -> None:
    """SIGKILL leaves no sum: it is exact from all files or, where a response is in none of them, unknown."""

    def said(id_: str, **more: Any) -> dict[str, Any]:
        return {"type": "assistant", "message": {"id": id_, "model": "m", "content": []}, **more}

    stream = (INIT, said("msg", uuid="u"), said("s1", parent_tool_use_id="t"), said("m2"))
    facts = concluded(*stream, exit_=Exit(137, session_file=b"\n".join(lines), resumed=resumed))
    assert (facts.tokens.total if facts.tokens else None) == spent
    assert facts.cost_usd is None
    assert facts.effort != "max"


def test_an_activation_that_was_killed_after_a_result_has_spent_more_than_the_result_says() -> None:
    stream = (INIT, SUCCESS, INIT, assistant({"type": "text", "text": "again"}))
    facts = concluded(*stream, exit_=Exit(137))
    assert (facts.tokens, facts.cost_usd) == (None, None)


def test_events_of_a_run_with_a_sub_agent() -> None:
    asked, ran = {"description": "look", "prompt": "long"}, {"command": "ls"}
    call = {"type": "tool_use", "id": "a", "name": "Agent", "input": asked}
    inner = {"type": "tool_use", "id": "b", "name": "Bash", "input": ran}
    sub = {"parent_tool_use_id": "a", "subagent_type": "Explore"}
    twin = {"parent_tool_use_id": "c", "subagent_type": "Explore"}
    events, facts = events_of(
        INIT,
        assistant(call, parent_tool_use_id=None),
        {"type": "user", "message": {"content": [{"type": "text", "text": "the sub-agent's prompt"}]}, **sub},
        assistant(inner, **sub),
        {
            "type": "user",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "b", "is_error": True}]},
            **sub,
        },
        assistant({"type": "text", "text": "twin"}, **twin),
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "a", "content": "ok"}]}},
    )
    seen = [event for event in events if not isinstance(event, Progress)]
    assert seen == [
        Started("s", "m", "2", ("Bash",)),
        ToolCall("Agent", "look", "a", asked),
        ToolCall("Bash", "ls", "b", ran, "Explore"),
        ToolResult("", False, "b", "Explore"),
        Text("twin", "Explore 2"),
        ToolResult("ok", True, "a"),
    ]
    assert facts.tool_calls == [ToolUse("Agent", ok=True), ToolUse("Bash", ok=False)]
    assert facts.text == ""


@pytest.mark.parametrize(
    "given", ['{"a":' * 300 + "1" + "}" * 300, '{"a":"\\ud800","b":123456789012345678901234567890}']
)
def test_an_input_that_cannot_be_shown_is_no_failure(given: str) -> None:
    line = '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"X","input":GIVEN}]}}'
    events, _ = events_of(line.replace("GIVEN", given).encode())
    assert isinstance(events[0], ToolCall)
    assert events[0].title == "{…}"


def test_progress_counts_each_response_once_and_ends_with_the_truth() -> None:
    events, _ = read("claude", (STREAMS / "claude" / "b2-partial.jsonl").read_bytes().splitlines())
    totals = [event.tokens.total for event in events if isinstance(event, Progress)]
    assert totals == [10, 35, 45, 70, 80, 105, 115, 192, 192]


def test_the_envelope_does_not_depend_on_the_order_of_keys() -> None:
    lines = (STREAMS / "claude" / "b-rich.jsonl").read_bytes().splitlines()
    backwards = [json.dumps(dict(reversed(json.loads(line).items()))).encode() for line in lines]
    assert read("claude", lines) == read("claude", backwards)


def test_a_stream_cut_at_any_byte_is_read_as_far_as_it_goes() -> None:
    whole = (STREAMS / "claude" / "j-subagent.jsonl").read_bytes()
    for end in range(0, len(whole), 97):
        events, facts = read("claude", whole[:end].splitlines())
        assert sum(isinstance(event, Note) and "unreadable" in event.text for event in events) <= 1
        assert claude.conclude(facts, Exit(143)).ending in (Ending.INTERRUPTED, Ending.CRASHED, Ending.FINISHED)


def test_garbage_between_the_lines_changes_nothing_else() -> None:
    lines = (STREAMS / "claude" / "b-rich.jsonl").read_bytes().splitlines()
    noisy = [part for line in lines for part in (b"warning: \xff\x1b[31m", line, b'{"type":"new_thing"}', b"", b"[]")]
    events, facts = read("claude", noisy)
    kept = [
        event for event in events if not (isinstance(event, Note) and event.text.startswith(("unread", "event of")))
    ]
    assert (kept, facts) == read("claude", lines)


ABSURD = st.sampled_from([10**400, -(10**400), 1 << 63, 1e308, float("nan")])
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | ABSURD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
VARIED = ("b2-partial", "j-subagent", "s3-oauth-session-limit", "l-background-bash", "x-perm-default.default")
RECORDED = [line for name in VARIED for line in (STREAMS / "claude" / f"{name}.jsonl").read_bytes().splitlines()]


def replaced(value: Any, path: list[int], new: Any) -> Any:
    """The value with something deep inside it replaced, along a path of choices."""
    if not path or not isinstance(value, dict | list) or not value:
        return new
    at = path[0] % len(value)
    if isinstance(value, list):
        return [replaced(item, path[1:], new) if n == at else item for n, item in enumerate(value)]
    return {key: replaced(item, path[1:], new) if n == at else item for n, (key, item) in enumerate(value.items())}


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(RECORDED), st.lists(st.integers(0, 50), max_size=5), ANY), max_size=4), ANY)
def test_no_value_of_the_wrong_kind_stops_it(changes: list[tuple[bytes, list[int], Any]], extra: Any) -> None:
    lines = [json.dumps(replaced(json.loads(line), path, new)).encode() for line, path, new in changes]
    lines.append(json.dumps({"type": "result", "is_error": extra, "result": extra, "num_turns": extra}).encode())
    _, facts = read("claude", lines)
    for exit_ in (Exit(0), Exit(1, b"\xff"), Exit(143, session_file=b"\n".join(lines))):
        concluded = claude.conclude(facts, exit_)
        assert concluded.ending is not None
        assert_kept(concluded)
