"""What decoding costs beside parsing, and that memory does not grow with the stream."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterable, Iterator

import orjson
import pytest

from assay.decoders import get
from tests.decoders.cost import measured, parse, round_of
from tests.decoders.facts_table import STREAMS

OUTPUT = "".join(f"{n:4d} some line of a file, as commands print them\n" for n in range(20))
"""A kilobyte, which is little for a command of a real run."""

Turn = Callable[[int], list[dict[str, object]]]


def codex(n: int) -> list[dict[str, object]]:
    item = {"id": f"item_{n}", "type": "command_execution", "command": "/bin/sh -lc 'sed -n 1,20p a.py'"}
    return [
        {"type": "item.completed", "item": {"id": f"a{n}", "type": "agent_message", "text": OUTPUT[:300]}},
        {"type": "item.started", "item": {**item, "aggregated_output": "", "exit_code": None}},
        {
            "type": "item.completed",
            "item": {**item, "aggregated_output": OUTPUT, "exit_code": 0, "status": "completed"},
        },
    ]


def opencode(n: int) -> list[dict[str, object]]:
    state = {
        "status": "completed",
        "input": {"command": "sed -n 1,20p a.py"},
        "output": OUTPUT,
        "metadata": {"exit": 0},
    }
    tokens = {"input": 90, "output": 20, "reasoning": 0, "cache": {"read": 10, "write": 0}}
    parts: list[tuple[str, dict[str, object]]] = [
        ("step_start", {"type": "step-start", "snapshot": "4b825dc642cb6eb9a060e54bf8d69288fbee4904"}),
        ("text", {"type": "text", "text": OUTPUT[:300]}),
        ("tool_use", {"type": "tool", "tool": "bash", "callID": f"call_{n}", "state": state}),
        ("step_finish", {"type": "step-finish", "reason": "tool-calls", "tokens": tokens, "cost": 0.00013}),
    ]
    common = {
        "messageID": f"msg_22c743fe0001YaevhUsK{n}",
        "sessionID": "ses_dd38bcff0ffeGZNR7ifLi8KeEt",
        "id": f"prt_{n}",
    }
    return [
        {"type": t, "timestamp": 1796042153202, "sessionID": common["sessionID"], "part": {**common, **p}}
        for t, p in parts
    ]


def grok(n: int) -> list[dict[str, object]]:
    """Its other stream, which is like Claude's, with results that are JSON in a text."""
    command = {"command": "sed -n 1,20p a.py", "description": "Read"}
    raw = {
        "type": "Bash",
        "output": list(OUTPUT.encode()),
        "output_for_prompt": f"exit: 0\n{OUTPUT}",
        "exit_code": 0,
        "command": command["command"],
    }
    usage = {"input_tokens": 90, "output_tokens": 20, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 0}
    call = {"type": "tool_use", "id": f"call_{n}", "name": "run_terminal_command", "input": command}
    result = {
        "type": "tool_result",
        "tool_use_id": f"call_{n}",
        "content": json.dumps(raw, separators=(",", ":")),
        "is_error": False,
    }
    common = {"parent_tool_use_id": None, "session_id": "01a22c72-59bc-7732-b048-401778162861", "uuid": f"u{n}"}
    said = {"id": f"msg_{n}", "role": "assistant", "model": "grok-4.6", "content": [text(), call], "usage": usage}
    return [
        {"type": "assistant", "message": {**said, "stop_reason": "tool_use"}, **common},
        {"type": "user", "message": {"role": "user", "content": [result]}, **common},
    ]


def text() -> dict[str, object]:
    return {"type": "text", "text": OUTPUT[:300]}


WHOLE: dict[str, Turn] = {"codex": codex, "grok": grok, "opencode": opencode}
DELTAS = {
    "claude": (
        b'{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
        b'"text":"Let me "}},"session_id":"11111111-2222-4333-8444-555555550001","parent_tool_use_id":null,'
        b'"uuid":"2fc1401e-681b-4776-9b2a-c9e7c2d8f11e"}'
    ),
    "grok": b'{"type":"text","data":"I\'ll count "}',
    "gemini": (
        b'{"type":"message","timestamp":"2026-11-30T12:33:16.540Z","role":"assistant",'
        b'"content":"All done.","delta":true}'
    ),
    "antigravity": (
        b'{"event":"step_update","step_update":{"conversation_id":"00000000-0000-4000-8000-00000000c0de",'
        b'"step_index":4,"state":"ACTIVE","step_type":"agent_response","text_delta":"All tests "}}'
    ),
}


def documents(lines: list[bytes]) -> None:
    """Results of this stream are JSON documents in texts: parsing it is parsing them too."""
    for line in lines:
        record = orjson.loads(line)
        if record["type"] == "user":
            for block in record["message"]["content"]:
                orjson.loads(block["content"])


def claude() -> list[bytes]:
    """A run with long results, one with sub-agents, and one with little but calls."""
    names = ("b-rich", "j-subagent", "i-max-turns")
    return [line for name in names for line in (STREAMS / "claude" / f"{name}.jsonl").read_bytes().splitlines()]


def made(turn: Turn) -> list[bytes]:
    return [json.dumps(record).encode() for n in range(400) for record in turn(n)]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["claude", *WHOLE])
def test_a_hundred_megabytes_of_whole_messages_cost_three_times_their_parsing_at_most(name: str) -> None:
    lines = round_of(claude() if name == "claude" else made(WHOLE[name]))
    cost = measured(name, lines, lambda cost: cost.ratio <= 3, documents if name == "grok" else parse)
    assert cost.ratio <= 3, str(cost)
    # The facts hold one small object for each tool call.
    assert cost.grown < 40_000_000


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", DELTAS)
def test_a_hundred_megabytes_of_deltas_cost_two_microseconds_a_line_beyond_their_parsing_at_most(name: str) -> None:
    cost = measured(name, round_of([DELTAS[name]]), lambda cost: cost.beyond <= 2)
    assert cost.beyond <= 2, str(cost)
    # The answer itself is most of it.
    assert cost.grown < 100_000_000


def decode(vendor: str, lines: Iterable[bytes]) -> None:
    for _ in get(vendor).decode(lines):
        pass


RECORDED = {
    "antigravity": "success-tool",
    "claude": "b-rich",
    "codex": "b_commands_gpt55",
    "gemini": "success-tool",
    "grok": "b_multi_acp",
    "opencode": "success-tool",
}


def again(vendor: str, size: int) -> Iterator[bytes]:
    """A recording, over and over."""
    lines = (STREAMS / vendor / f"{RECORDED[vendor]}.jsonl").read_bytes().splitlines()
    total = 0
    while total < size:
        for line in lines:
            total += len(line)
            yield line


@pytest.mark.parametrize("vendor", RECORDED)
def test_memory_stays_flat(vendor: str) -> None:
    """But for the facts: one small object a tool call."""
    peaks = []
    for size in (500_000, 5_000_000):
        tracemalloc.start()
        try:
            decode(vendor, again(vendor, size))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] - peaks[0] < 2_500_000, peaks


@pytest.mark.parametrize("vendor", DELTAS)
def test_one_text_without_an_end_is_handed_on_in_pieces(vendor: str) -> None:
    tracemalloc.start()
    try:
        decode(vendor, (DELTAS[vendor] for _ in range(70_000)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The answer itself, less than a megabyte, and 64 Ki characters of deltas.
    assert peak < 12_000_000
