"""What decoding costs beside parsing, measured so that it also holds on a machine that others use."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import orjson

from assay.decoders import get

MEGABYTES = 100
ATTEMPTS = 3

Parse = Callable[[list[bytes]], object]


@dataclass(frozen=True)
class Cost:
    """CPU seconds of one round over the same lines, the best of all rounds.

    Attributes:
        lines: How many there are in a round.
        grown: Bytes by which this process has grown while all rounds went through one decoder.
    """

    parsing: float
    decoding: float
    lines: int
    grown: int

    @property
    def ratio(self) -> float:
        """Decoding in terms of parsing."""
        return self.decoding / self.parsing

    @property
    def beyond(self) -> float:
        """Microseconds a line beyond parsing it."""
        return (self.decoding - self.parsing) / self.lines * 1e6

    def __str__(self) -> str:
        return f"{self.ratio:.2f} times its parsing, {self.beyond:.2f} µs a line beyond it"


def parse(lines: list[bytes]) -> None:
    """What any reader of these lines has to do."""
    for line in lines:
        orjson.loads(line)


def round_of(lines: list[bytes], size: int = 1_000_000) -> list[bytes]:
    """These lines over and over, about a megabyte of them."""
    out: list[bytes] = []
    for line in cycle(lines):
        if size <= 0:
            return out
        out.append(line)
        size -= len(line)
    return out


def measured(vendor: str, lines: list[bytes], good: Callable[[Cost], bool], parsing: Parse = parse) -> Cost:
    """The cost of a hundred megabytes in one stream, each megabyte parsed and decoded in turn.

    Whoever shares a core and its caches slows one kind of work down more than another, and for a while: what is not
    `good` is measured again a little later.
    """
    for attempt in range(ATTEMPTS):
        time.sleep(3 * attempt)
        cost = _measured(vendor, lines, parsing)
        if good(cost):
            break
    return cost


def _measured(vendor: str, lines: list[bytes], parsing: Parse) -> Cost:
    rounds = MEGABYTES * 1_000_000 // sum(map(len, lines)) + 1
    parsing_best = decoding_best = float("inf")

    def fed() -> Iterator[bytes]:
        nonlocal parsing_best, decoding_best
        for _ in range(rounds):
            begun = time.process_time()
            parsing(lines)
            parsed = time.process_time()
            yield from lines
            parsing_best = min(parsing_best, parsed - begun)
            decoding_best = min(decoding_best, time.process_time() - parsed)

    before = _resident()
    for _ in get(vendor).decode(fed()):
        pass
    return Cost(parsing_best, decoding_best, len(lines), _resident() - before)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
