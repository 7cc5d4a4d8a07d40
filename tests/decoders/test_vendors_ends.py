"""What only the exit, stderr and the session file tell, where no recording shows it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from assay.decoders import antigravity, codex, gemini, grok, opencode
from assay.decoders.ends import error_kind, last_words
from assay.model.events import Decoder, Exit, Facts, Note, Text
from assay.model.outcome import Tokens
from tests.decoders.facts_table import STREAMS, read

ENDED = datetime(2026, 11, 30, 13, 42, 8, tzinfo=UTC)


def facts_of(vendor: str, *stream: dict[str, Any]) -> Facts:
    return read(vendor, [json.dumps(line).encode() for line in stream])[1]


def recorded(vendor: str, name: str) -> Facts:
    return read(vendor, (STREAMS / vendor / f"{name}.jsonl").read_bytes().splitlines())[1]


# -- codex

THREAD = {"type": "thread.started", "thread_id": "t"}
BEGUN = {"type": "turn.started"}
USAGE = {"input_tokens": 10, "cached_input_tokens": 4, "cache_write_input_tokens": 1, "output_tokens": 5}
COMPLETED = {"type": "turn.completed", "usage": {**USAGE, "reasoning_output_tokens": 2}}


def failed(message: str) -> dict[str, Any]:
    return {"type": "turn.failed", "error": {"message": message}}


def meta(thread: str) -> dict[str, Any]:
    return {"type": "session_meta", "payload": {"id": thread, "cli_version": "9"}}


def event(kind: str, turn: str, root: str, **more: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": kind, "turn_id": turn, "root_turn_id": root, **more}}


def spent(root: str, response: str, tokens: int) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "cached_input_tokens": 0, "output_tokens": 1}
    return {"type": "token_usage_record", "payload": {"root_turn_id": root, "response_id": response, "usage": usage}}


def rollout(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def test_codex_success_needs_the_event_and_the_exit_code() -> None:
    facts = facts_of("codex", THREAD, BEGUN, COMPLETED)
    assert facts.tokens == Tokens(5, 4, 1, 5, 2)
    assert codex.conclude(facts, Exit(0)).ending == "finished"
    assert codex.conclude(facts, Exit(143, stopped=True)).ending == "finished"
    crashed = codex.conclude(facts, Exit(1, b"Error: the disk is full\n"))
    assert (crashed.ending, crashed.reason) == ("crashed", "Error: the disk is full")


@pytest.mark.parametrize(
    ("words", "moment"),
    [
        ("or try again at 5:33 PM.", datetime(2026, 11, 30, 17, 33, tzinfo=UTC)),
        ("or try again at 12:05 AM.", datetime(2026, 11, 30, 0, 5, tzinfo=UTC)),
        ("or try again at 12:05 PM.", datetime(2026, 11, 30, 12, 5, tzinfo=UTC)),
        ("Try again at Dec 3rd, 2026 9:01 AM.", datetime(2026, 12, 3, 9, 1, tzinfo=UTC)),
        ("try again later.", None),
        ("try again at Foo 3rd, 2026 9:01 AM.", None),
        ("try again at 77:99 PM.", None),
    ],
)
def test_codex_says_when_its_limit_lifts(words: str, moment: datetime | None) -> None:
    facts = facts_of("codex", THREAD, BEGUN, failed(f"You\u2019ve hit your usage limit. Upgrade, {words}"))
    concluded = codex.conclude(facts, Exit(1, ended_at=ENDED))
    assert (concluded.ending, concluded.reset_at) == ("session-limit", moment)
    if moment is not None and "2026" not in words:
        assert codex.conclude(facts, Exit(1)).reset_at is None, "no date, no moment"


def test_codex_tells_a_limit_by_its_own_word_for_it_whatever_it_prints() -> None:
    facts = facts_of("codex", THREAD, BEGUN, failed("Come back tomorrow."))
    kept = rollout(
        meta("t"),
        event("task_started", "1", "1"),
        event("task_complete", "1", "1", error={"codex_error_info": "usage_limit_exceeded"}),
    )
    assert codex.conclude(facts, Exit(1, session_file=kept)).ending == "session-limit"


def test_codex_counts_each_response_of_this_turn_once_its_sub_agents_included() -> None:
    kept = rollout(
        meta("t"),
        event("task_started", "1", "1"),
        spent("1", "old", 1000),
        event("task_complete", "1", "1"),
        event("task_started", "2", "2"),
        spent("2", "a", 100),
        spent("2", "a", 100),
        spent("2", "b", 20),
        event("task_complete", "2", "2"),
        meta("sub-agent"),
        event("task_started", "3", "2"),
        spent("2", "c", 3),
        meta("somebody else"),
        event("task_started", "9", "9"),
        spent("9", "d", 5000),
    )
    facts = facts_of("codex", THREAD, BEGUN, COMPLETED)
    tokens = codex.conclude(facts, Exit(0, session_file=kept, resumed=True)).tokens
    assert tokens is not None
    assert (tokens.input, tokens.output) == (123, 3)


def test_codex_does_not_take_an_earlier_turn_for_this_one() -> None:
    """The process ended before its own turn was written."""
    complete = rollout(meta("t"), event("task_started", "1", "1"), spent("1", "a", 9), event("task_complete", "1", "1"))
    open_ = rollout(meta("t"), event("task_started", "1", "1"), spent("1", "a", 9))
    for kept, stream in ((complete, [THREAD, BEGUN]), (open_, [THREAD]), (complete, [THREAD])):
        facts = facts_of("codex", *stream)
        assert codex.conclude(facts, Exit(1, session_file=kept, resumed=True)).tokens is None


@pytest.mark.parametrize(
    ("shown", "written"),
    [
        ("/bin/sh -lc 'ls -la'", "ls -la"),
        ('/bin/sh -lc "printf \'a\' > \\"b\\"; echo \\$HOME \\`id\\`"', "printf 'a' > \"b\"; echo $HOME `id`"),
        ("/bin/bash -lc ls", "ls"),
        ("/bin/sh -lc 'it'\"'\"'s'", "it's"),
        ("/bin/sh -lc 'unclosed", "/bin/sh -lc 'unclosed"),
        ("/bin/sh -lc ", "/bin/sh -lc "),
        ("/bin/sh -lc '", "/bin/sh -lc '"),
        ("ls", "ls"),
        ("", ""),
    ],
)
def test_codex_commands_are_shown_as_the_model_wrote_them(shown: str, written: str) -> None:
    item = {"id": "i", "type": "command_execution", "command": shown, "aggregated_output": "", "exit_code": 0}
    events, _ = read("codex", [json.dumps({"type": "item.completed", "item": item}).encode()])
    assert next(getattr(event, "title", None) for event in events) == written


def test_codex_items_that_no_recording_has() -> None:
    items: list[dict[str, Any]] = [
        {"id": "1", "type": "mcp_tool_call", "server": "s", "tool": "t", "arguments": {"a": 1}, "status": "completed",
         "result": {"content": [{"type": "text", "text": "out"}]}},
        {"id": "2", "type": "mcp_tool_call", "server": "s", "tool": "t", "status": "failed", "error": {}},
        {"id": "3", "type": "collab_tool_call", "tool": "spawn_agent", "prompt": "go", "status": "completed"},
        {"id": "4", "type": "todo_list", "items": [{"text": "one", "completed": True}, {"text": "two"}]},
        {"id": "5", "type": "brand_new", "x": 1},
    ]  # fmt: skip
    lines = [json.dumps({"type": "item.completed", "item": item}).encode() for item in items]
    events, facts = read("codex", lines)
    assert [(use.name, use.ok) for use in facts.tool_calls] == [("s.t", True), ("s.t", False), ("spawn_agent", True)]
    assert [event.text for event in events if isinstance(event, Note)] == [
        "plan: [x] one; [ ] two",
        'item brand_new: {"id": "5", "type": "brand_new", "x": 1}',
    ]


# -- gemini

KEPT = rollout(
    {"sessionId": "s", "startTime": "2026-11-30T15:00:00.000Z", "kind": "main"},
    {"id": "0", "timestamp": "2026-11-30T15:00:01.000Z", "type": "gemini", "tokens": {"input": 9000, "output": 9}},
    {"id": "a", "timestamp": "2026-11-30T15:24:33.950Z", "type": "gemini", "content": "Looking.",
     "tokens": {"input": 150, "output": 10, "cached": 50, "thoughts": 3, "tool": 0, "total": 163}},
    {"$set": {"lastUpdated": "2026-11-30T15:24:33.950Z"}},
    {"id": "a", "timestamp": "2026-11-30T15:24:33.950Z", "type": "gemini", "toolCalls": [{}],
     "tokens": {"input": 150, "output": 10, "cached": 50, "thoughts": 3, "tool": 0, "total": 163}},
    {"id": "u", "timestamp": "2026-11-30T15:24:34.000Z", "type": "user"},
    {"id": "b", "timestamp": "2026-11-30T15:24:34.011Z", "type": "gemini",
     "tokens": {"input": 35, "output": 7, "cached": 5, "thoughts": 0, "tool": 2, "total": 44}},
)  # fmt: skip
INIT = {"type": "init", "timestamp": "2026-11-30T15:24:33.000Z", "session_id": "s", "model": "m"}


def test_gemini_killed_is_counted_from_its_session_file_this_run_alone() -> None:
    facts = facts_of("gemini", INIT)
    concluded = gemini.conclude(facts, Exit(0, session_file=KEPT, stopped=True, resumed=True))
    assert (concluded.ending, concluded.tokens) == ("interrupted", Tokens(132, 55, None, 20, 3))
    assert gemini.conclude(facts, Exit(0, stopped=True)).tokens is None


def test_gemini_that_came_to_its_end_is_counted_from_the_stream() -> None:
    facts = recorded("gemini", "success-tool")
    assert gemini.conclude(facts, Exit(0, session_file=KEPT)).tokens == Tokens(180, 20, None, 50, 10)


@pytest.mark.parametrize(
    ("code", "stderr", "ending", "kind"),
    [
        (41, b"Invalid auth method selected.\n", "api-error", "auth"),
        (42, b"Error resuming session: not found\n", "crashed", ""),
        (52, b"bad config\n", "crashed", ""),
        (53, b"Reached max session turns\n", "gave-up", ""),
        (55, b"not a trusted directory\n", "crashed", ""),
        (173, b"", "session-limit", ""),
    ],
)
def test_gemini_speaks_through_its_exit_codes(code: int, stderr: bytes, ending: str, kind: str) -> None:
    concluded = gemini.conclude(Facts(), Exit(code, stderr))
    assert (concluded.ending, concluded.error_kind) == (ending, kind)
    if stderr:
        assert concluded.reason == stderr.decode().strip()


# -- antigravity


def result(**more: Any) -> dict[str, Any]:
    return {"event": "result", "result": {"conversation_id": "c", "num_turns": 1, **more}}


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Resets in 34m13s.", 2053),
        ("Resets in 146h14m2s.", 526442),
        ("Resets in 19h40m.", 70800),
        ("Resets in 1.5s", 1.5),
    ],
)
def test_antigravity_says_how_long_a_quota_lasts(words: str, seconds: float) -> None:
    facts = facts_of("antigravity", result(status="ERROR", error=f"Individual quota reached. {words}"))
    concluded = antigravity.conclude(facts, Exit(3, ended_at=ENDED))
    assert concluded.ending == "session-limit"
    assert concluded.reset_at is not None
    assert (concluded.reset_at - ENDED).total_seconds() == seconds


def test_antigravity_calls_a_short_rate_limit_exhausted_too() -> None:
    facts = facts_of("antigravity", result(status="ERROR", error="Resource has been exhausted (e.g. check quota)."))
    concluded = antigravity.conclude(facts, Exit(3))
    assert (concluded.ending, concluded.error_kind) == ("api-error", "rate")


def test_antigravity_that_gave_up_on_a_quota_behind_a_success() -> None:
    error = b'AGY_ERROR: {"status":"RESOURCE_EXHAUSTED"}\nerror: Individual quota reached. Resets in 2m0s.\n'
    concluded = antigravity.conclude(facts_of("antigravity", result(status="ERROR")), Exit(0, error))
    assert concluded.ending == "session-limit"


def call(state: str, **more: Any) -> dict[str, Any]:
    return {"event": "step_update", "step_update": {"step_type": "agent_response", "state": state, **more}}


DONE = call("DONE", usage={"input_tokens": 100, "output_tokens": 10})
ACTIVE = call("ACTIVE", text_delta="I am ")
RETRY = {"event": "step_update", "step_update": {"step_type": "error_message", "state": "DONE"}}
TOOL = {"event": "step_update", "step_update": {"step_type": "tool", "state": "ACTIVE", "tool_name": "run_command"}}


@pytest.mark.parametrize(
    ("stream", "spent"),
    [
        ([ACTIVE, DONE, TOOL], 110),
        ([DONE, ACTIVE], None),
        ([DONE, call("DONE", usage={"input_tokens": 0, "output_tokens": 0})], None),
        ([DONE, ACTIVE, RETRY, ACTIVE, DONE], None),
        ([DONE, RETRY, ACTIVE, DONE], 220),
        ([DONE, ACTIVE, result(status="ERROR", error="interrupted", usage={"input_tokens": 0})], None),
        ([DONE, ACTIVE, result(status="ERROR", error="interrupted", usage={"input_tokens": 500})], 500),
    ],
)
def test_antigravity_counts_every_model_call_or_none(stream: list[dict[str, Any]], spent: int | None) -> None:
    """A call that breaks off has spent what is told nowhere; the result's own sum is of the whole conversation."""
    facts = facts_of("antigravity", *stream)
    new, again = (antigravity.conclude(facts, Exit(143, stopped=True, resumed=resumed)) for resumed in (False, True))
    assert (new.tokens.total if new.tokens else None) == spent
    assert (again.tokens.total if again.tokens else None) == (None if spent == 500 else spent)


# -- grok


@pytest.mark.parametrize(
    ("message", "ending", "kind"),
    [
        ("Internal error: \"Unauthorized (401) from x: bad\"", "api-error", "auth"),
        ('Internal error: {\n "message": "API error (status 503)",\n "http_status": 503\n}', "api-error", "server"),
        ('Internal error: {"message": "reached its monthly spending limit", "http_status": 403}', "session-limit", ""),
        ('Internal error: {\n "message": "no region",\n "http_status": 403\n}', "api-error", "auth"),
        ("You've used all the included free usage for model grok-4.6 for now.", "session-limit", ""),
        ('{"message": "response truncated by max_tokens", "error_kind": "max_tokens_truncation"}', "gave-up", ""),
        ('{"message": "This model\'s maximum prompt length is 131072", "http_status": 400}', "gave-up", ""),
        ("--effort/--reasoning-effort: unknown effort level 'max'; use one of: xhigh, high", "crashed", ""),
    ],
)  # fmt: skip
def test_grok_tells_its_errors_apart_by_their_words(message: str, ending: str, kind: str) -> None:
    concluded = grok.conclude(facts_of("grok", {"type": "error", "message": message}), Exit(1))
    assert (concluded.ending, concluded.error_kind) == (ending, kind)


def test_grok_text_in_pieces_is_one_text_whatever_it_says_in_between() -> None:
    commands = {"type": "available_commands", "tools": ["a"], "commands": []}
    pieces = [{"type": "text", "data": "one "}, commands, {"type": "text", "data": "text"}]
    events, facts = read("grok", [json.dumps(line).encode() for line in pieces])
    assert [event.text for event in events if isinstance(event, Text)] == ["one text"]
    assert (facts.text, facts.tools_offered) == ("one text", ("a",))


# -- opencode


def step(reason: str) -> dict[str, Any]:
    return {"type": "step_finish", "sessionID": "s", "part": {"reason": reason, "tokens": {"input": 1, "output": 1}}}


def problem(name: str, **data: Any) -> dict[str, Any]:
    return {"type": "error", "sessionID": "s", "error": {"name": name, "data": data}}


@pytest.mark.parametrize(
    ("stream", "code", "ending", "kind"),
    [
        ([step("tool-calls"), step("stop")], 0, "finished", ""),
        ([step("stop")], 1, "crashed", ""),
        ([step("tool-calls")], 0, "crashed", ""),
        ([step("length")], 0, "gave-up", ""),
        ([step("content-filter")], 0, "gave-up", ""),
        ([problem("ContextOverflowError", message="too long")], 1, "gave-up", ""),
        ([problem("MessageAbortedError")], 1, "interrupted", ""),
        ([problem("ProviderAuthError", message="no key")], 1, "api-error", "auth"),
        ([problem("APIError", message="slow down", statusCode=429)], 1, "api-error", "rate"),
        (
            [problem("APIError", message="x", statusCode=429, responseBody="insufficient_quota")],
            1,
            "api-error",
            "billing",
        ),
        ([problem("APIError", message="overloaded", statusCode=529)], 1, "api-error", "server"),
        ([problem("UnknownError", message="fetch failed")], 1, "api-error", "network"),
        (
            [problem("APIError", message="once", statusCode=500), {"type": "step_start"}, step("stop")],
            0,
            "finished",
            "",
        ),
        ([], 1, "crashed", ""),
    ],
)
def test_opencode_ends_with_its_last_step(stream: list[dict[str, Any]], code: int, ending: str, kind: str) -> None:
    concluded = opencode.conclude(facts_of("opencode", *stream), Exit(code))
    assert (concluded.ending, concluded.error_kind) == (ending, kind)
    assert bool(concluded.reason) == (ending not in ("finished", "interrupted"))


def test_opencode_costs_nothing_that_anybody_knows_without_prices() -> None:
    assert facts_of("opencode", step("stop")).cost_usd is None


def test_opencode_that_stops_in_a_step_does_not_know_what_it_has_spent() -> None:
    """A step tells its tokens at its end: what went before would be less than the run's."""
    paid = {"type": "step_finish", "part": {"reason": "tool-calls", "tokens": {"input": 9, "output": 1}, "cost": 0.1}}
    begun = {"type": "step_start", "part": {}}
    whole, broken = facts_of("opencode", begun, paid), facts_of("opencode", begun, paid, begun)
    assert whole.tokens is not None
    assert (whole.tokens.total, whole.cost_usd) == (10, 0.1)
    for facts in (broken, opencode.conclude(broken, Exit(143, stopped=True))):
        assert (facts.tokens, facts.cost_usd) == (None, None)


# -- all


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        (b"", ""),
        (b"first\nlast\n\n", "last"),
        (b"noise\nError: what happened\nlater\n", "Error: what happened"),
        (b"error in:\n  file.toml\n", "error in: file.toml"),
        (b"\xff\xfe\x1b[31mbroken", "\ufffd\ufffd\x1b[31mbroken"),
        (b"boring: yes\n", ""),
    ],
)
def test_last_words(stderr: bytes, words: str) -> None:
    assert last_words(stderr, ("boring",)) == words


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("unexpected status 401 Unauthorized", "auth"),
        ("Please log in", "auth"),
        ("Quota exceeded. Check your plan and billing details.", "billing"),
        ("last status: 429 Too Many Requests", "rate"),
        ("The model `x` does not exist", "model"),
        ("503 Service Unavailable", "server"),
        ("Connection failed", "network"),
        ("something else", "other"),
    ],
)
def test_kinds_of_api_errors(message: str, kind: str) -> None:
    assert error_kind(message) == kind


@pytest.mark.parametrize("decoder", [codex, grok, gemini, opencode])
def test_a_signal_is_told_before_what_was_said_of_something_else(decoder: Decoder) -> None:
    said = b"ERROR failed to connect to a websocket\n"
    killed = decoder.conclude(Facts(), Exit(137, said))
    assert killed.ending == "crashed"
    assert killed.reason.startswith("ended by SIGKILL; the last it said: ERROR failed"), killed.reason
    assert decoder.conclude(Facts(), Exit(1, said)).reason.startswith("ERROR failed")
