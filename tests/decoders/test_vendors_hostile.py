"""No stream can stop a decoder, whatever a CLI or the agent in it wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.decoders import get
from assay.model.events import Event, Exit, Facts, Note, Text, ToolResult
from tests.decoders.facts_table import STREAMS, assert_kept, read

VENDORS = ["antigravity", "codex", "gemini", "grok", "opencode"]
RICH = {
    "antigravity": ["success-tool", "hook-denied-web-tool", "quota-exit3"],
    "codex": ["b_commands_gpt55", "c_401_builtin_apikey", "g_unknown_model_400"],
    "gemini": ["web-search", "web-tool-excluded", "daily-quota-exit173"],
    "grok": ["b_multi_acp", "b_multi_messages", "i_max_turns_acp", "d_402_credits_messages"],
    "opencode": ["success-tool", "webfetch-denied", "api-error-401-exit1"],
}
ROLLOUT = (STREAMS / "codex" / "rollouts" / "f_sigint+resume.jsonl").read_bytes()


def recorded(vendor: str, name: str) -> list[bytes]:
    return (STREAMS / vendor / f"{name}.jsonl").read_bytes().splitlines()


ALL = {vendor: [line for name in names for line in recorded(vendor, name)] for vendor, names in RICH.items()}
EVERY = [(vendor, name) for vendor, names in RICH.items() for name in names]


def is_garbage(event: Event) -> bool:
    return isinstance(event, Note) and event.text.startswith(("unreadable", "event ", "the line above"))


@pytest.mark.parametrize(("vendor", "name"), EVERY)
def test_garbage_between_the_lines_changes_nothing_else(vendor: str, name: str) -> None:
    lines = recorded(vendor, name)
    garbage = [b"warning: \xff\x1b[31mred\x1b[0m", b"", b"[]", b'"text"', b"null", b"{", b'{"type":"', b"\x00" * 5]
    noisy = [part for line in lines for part in (*garbage, line)]
    events, facts = read(vendor, noisy)
    kept = [event for event in events if not is_garbage(event)]
    expected, stated = read(vendor, lines)
    assert _texts_joined(kept) == _texts_joined(expected)
    assert facts == stated


def _texts_joined(events: list[Event]) -> list[Event]:
    """A line of garbage may part two pieces of one text; nothing may be lost by that."""
    joined: list[Event] = []
    for event in events:
        if isinstance(event, Text) and joined and isinstance(joined[-1], Text):
            joined[-1] = Text(joined[-1].text + event.text, event.actor)
        else:
            joined.append(event)
    return joined


@pytest.mark.parametrize("vendor", VENDORS)
def test_unknown_events_pass_through_as_notes(vendor: str) -> None:
    events, facts = read(vendor, [b'{"type":"new_thing","event":"new_thing","x":1}', b'{"other":1}'])
    assert [type(event) for event in events] == [Note, Note]
    assert facts.terminal is None
    assert get(vendor).conclude(facts, Exit(0)).ending == "crashed"


@pytest.mark.parametrize(("vendor", "name"), EVERY)
def test_a_stream_cut_at_any_byte_is_read_as_far_as_it_goes(vendor: str, name: str) -> None:
    whole = (STREAMS / vendor / f"{name}.jsonl").read_bytes()
    for end in range(0, len(whole), 149):
        events, facts = read(vendor, whole[:end].splitlines())
        assert sum(is_garbage(event) for event in events) <= 1
        assert get(vendor).conclude(facts, Exit(143)).ending is not None


LARGE = {
    "antigravity": {
        "event": "step_update",
        "step_update": {
            "step_index": 2,
            "state": "DONE",
            "step_type": "tool",
            "tool_info": {"name": "run_command", "parameters": {}, "output": "BIG"},
        },
    },
    "codex": {
        "type": "item.completed",
        "item": {"id": "i", "type": "command_execution", "command": "c", "aggregated_output": "BIG", "exit_code": 0},
    },
    "gemini": {"type": "tool_result", "tool_id": "t", "status": "success", "output": "BIG"},
    "grok": {
        "type": "tool_call_update",
        "toolCallId": "c",
        "status": "completed",
        "rawOutput": {"type": "ListDir", "Content": {"content": "BIG"}},
    },
    "opencode": {
        "type": "tool_use",
        "sessionID": "s",
        "part": {"tool": "bash", "callID": "c", "state": {"status": "completed", "input": {}, "output": "BIG"}},
    },
}


@pytest.mark.parametrize("size", [400_000, 20_000_000])
@pytest.mark.parametrize("vendor", VENDORS)
def test_a_line_of_any_length_is_one_event(vendor: str, size: int) -> None:
    line = json.dumps(LARGE[vendor]).encode().replace(b"BIG", b"x" * size)
    events, _ = read(vendor, [line])
    assert [len(event.text) for event in events if isinstance(event, ToolResult)] == [size]


@pytest.mark.parametrize("vendor", VENDORS)
def test_awkward_text_arrives_whole(vendor: str) -> None:
    r"""Escapes, line separators that are no line ends, lone surrogates; only the last are replaced."""
    line = (
        json.dumps(LARGE[vendor]).encode().replace(b"BIG", b"\xc2\x85\xe2\x80\xa8\x1b[2J\\ud83d \\u001b[31m &\\u0026")
    )
    events, _ = read(vendor, [line])
    (text,) = [event.text for event in events if isinstance(event, ToolResult)]
    assert text == "\x85\u2028\x1b[2J\ufffd \x1b[31m &&"
    assert text.encode()


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_last_of_a_repeated_key_wins(vendor: str) -> None:
    line = re.sub(r'"(\w+)": "BIG"', r'"\1": "first", "\1": "last"', json.dumps(LARGE[vendor])).encode()
    events, _ = read(vendor, [line])
    assert [event.text for event in events if isinstance(event, ToolResult)] == ["last"]


ABSURD = st.sampled_from([10**400, -(10**400), 1 << 63, 1e308, float("nan")])
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | ABSURD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def replaced(value: Any, path: list[int], new: Any) -> Any:
    """The value with something deep inside it replaced, along a path of choices."""
    if not path or not isinstance(value, dict | list) or not value:
        return new
    at = path[0] % len(value)
    if isinstance(value, list):
        return [replaced(item, path[1:], new) if n == at else item for n, item in enumerate(value)]
    return {key: replaced(item, path[1:], new) if n == at else item for n, (key, item) in enumerate(value.items())}


@pytest.mark.parametrize("vendor", VENDORS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_value_of_the_wrong_kind_stops_it(vendor: str, data: st.DataObject) -> None:
    pairs = st.tuples(st.sampled_from(ALL[vendor]), st.lists(st.integers(0, 50), max_size=6), ANY)
    changes = data.draw(st.lists(pairs, max_size=4))
    lines = [json.dumps(replaced(json.loads(line), path, new)).encode() for line, path, new in changes]
    _concluded(vendor, read(vendor, lines)[1], ROLLOUT)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 31), st.lists(st.integers(0, 20), max_size=4), ANY), max_size=4))
def test_no_rollout_stops_codex(changes: list[tuple[int, list[int], Any]]) -> None:
    lines = ROLLOUT.splitlines()
    for at, path, new in changes:
        lines[at] = json.dumps(replaced(json.loads(lines[at]), path, new)).encode()
    _, facts = read("codex", recorded("codex", "f_sigint_resume"))
    _concluded("codex", facts, b"\n".join(lines))


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_stderr_and_no_session_file_stops_it(stderr: bytes, session: bytes) -> None:
    for vendor in VENDORS:
        _, facts = read(vendor, ALL[vendor][:1])
        for code in (None, 0, 1, 137):
            assert get(vendor).conclude(facts, Exit(code, stderr, session)).ending is not None


def _concluded(vendor: str, facts: Facts, session: bytes) -> None:
    for exit_ in (Exit(0), Exit(1, b"\xff"), Exit(143, session_file=session), Exit(130, stopped=True, resumed=True)):
        concluded = get(vendor).conclude(facts, exit_)
        assert concluded.ending is not None
        assert_kept(concluded)


def test_all_rich_recordings_exist() -> None:
    assert all((STREAMS / vendor / f"{name}.jsonl").exists() for vendor, name in EVERY)
    assert {Path(vendor).name for vendor in VENDORS} == set(RICH)
