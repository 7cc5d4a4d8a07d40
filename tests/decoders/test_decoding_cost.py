"""What decoding costs, as a ratio to parsing the same lines in the same moment."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterable, Iterator

import orjson
import pytest

from assay.decoders import claude
from tests.decoders.facts_table import STREAMS


def recorded(name: str) -> list[bytes]:
    return (STREAMS / "claude" / f"{name}.jsonl").read_bytes().splitlines()


def parse(lines: Iterable[bytes]) -> None:
    for line in lines:
        orjson.loads(line)


def decode(lines: Iterable[bytes]) -> None:
    for _ in claude.decode(lines):
        pass


def seconds(lines: list[bytes]) -> tuple[float, float]:
    """Decoding and parsing, the least of several goes taken in turn: others share the processor, whose speed drifts."""
    best = [float("inf"), float("inf")]
    for _ in range(12):
        for n, work in enumerate((decode, parse)):
            start = time.process_time()
            work(lines)
            best[n] = min(best[n], time.process_time() - start)
    return best[0], best[1]


@pytest.mark.parametrize("name", ["b-rich", "j-subagent", "i-max-turns"])
def test_whole_messages_cost_three_times_their_parsing_at_most(name: str) -> None:
    lines = recorded(name)
    lines *= 4_000 // len(lines)
    decoding, parsing = seconds(lines)
    assert decoding <= 3 * parsing


def test_deltas_cost_two_microseconds_beyond_their_parsing_at_most() -> None:
    lines = [line for line in recorded("b2-partial") if b"content_block_delta" in line]
    lines *= 10_000 // len(lines)
    decoding, parsing = seconds(lines)
    assert decoding - parsing <= 2e-6 * len(lines)


def test_memory_stays_flat() -> None:
    calls = [line for line in recorded("i-max-turns") if b'"system"' not in line and b'"result"' not in line]

    def stream(times: int) -> Iterator[bytes]:
        for _ in range(times):
            yield from calls
            yield b'{"type":"user","message":{"content":[{"type":"tool_result","content":"' + b"x" * 100_000 + b'"}]}}'

    def peak(times: int) -> int:
        tracemalloc.start()
        try:
            decode(stream(times))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # One record of each tool call remains, which the facts list.
    assert peak(400) < peak(40) + 360 * len(calls) * 150


def test_a_result_of_twenty_megabytes() -> None:
    line = b'{"type":"user","message":{"content":[{"type":"tool_result","content":"' + b"y" * 20_000_000 + b'"}]}}'
    start = time.process_time()
    decode([line])
    assert time.process_time() - start < 2
