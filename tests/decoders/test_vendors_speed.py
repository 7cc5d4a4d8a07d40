"""What decoding costs beside parsing, and that memory does not grow with the stream."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator

import orjson
import pytest

from assay.decoders import get
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


WHOLE: dict[str, Turn] = {"codex": codex, "opencode": opencode}
DELTAS = {
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


def stream(turn: Turn, size: int) -> list[bytes]:
    lines: list[bytes] = []
    total = n = 0
    while total < size:
        for record in turn(n):
            lines.append(json.dumps(record).encode())
            total += len(lines[-1])
        n += 1
    return lines


def seconds(*works: Callable[[], object]) -> list[float]:
    """CPU time of each, the best of some tries taken in turn: others use this machine as well, and its speed drifts."""
    best = [float("inf")] * len(works)
    for _ in range(12):
        for n, work in enumerate(works):
            begun = time.process_time()
            work()
            best[n] = min(best[n], time.process_time() - begun)
    return best


def parse(lines: Iterable[bytes]) -> None:
    for line in lines:
        orjson.loads(line)


def decode(vendor: str, lines: Iterable[bytes]) -> None:
    for _ in get(vendor).decode(lines):
        pass


@pytest.mark.parametrize("vendor", WHOLE)
def test_whole_messages_cost_at_most_three_times_their_parsing(vendor: str) -> None:
    lines = stream(WHOLE[vendor], 3_000_000)
    parsing, decoding = seconds(lambda: parse(lines), lambda: decode(vendor, lines))
    assert decoding <= 3 * parsing, f"{decoding / parsing:.2f} times {parsing:.3f} s"


@pytest.mark.parametrize("vendor", DELTAS)
def test_a_delta_costs_at_most_two_microseconds_beyond_its_parsing(vendor: str) -> None:
    lines = [DELTAS[vendor]] * 50_000
    parsing, decoding = seconds(lambda: parse(lines), lambda: decode(vendor, lines))
    beyond = (decoding - parsing) / len(lines) * 1e6
    assert beyond <= 2, f"{beyond:.2f} µs a line beyond {parsing / len(lines) * 1e6:.2f} µs"


RECORDED = {
    "antigravity": "success-tool",
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


@pytest.mark.timeout(240)
@pytest.mark.parametrize("vendor", RECORDED)
def test_a_hundred_megabytes_are_decoded(vendor: str) -> None:
    begun = time.process_time()
    decode(vendor, again(vendor, 100_000_000))
    assert time.process_time() - begun < 60


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
