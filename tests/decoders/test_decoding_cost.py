"""What is kept of Claude's stream while it is decoded, and one line that is far too long."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterable, Iterator

from assay.decoders import claude
from tests.decoders.facts_table import STREAMS


def recorded(name: str) -> list[bytes]:
    return (STREAMS / "claude" / f"{name}.jsonl").read_bytes().splitlines()


def decode(lines: Iterable[bytes]) -> None:
    for _ in claude.decode(lines):
        pass


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
