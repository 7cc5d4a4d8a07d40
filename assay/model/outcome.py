"""Ending and verdict: two facts of a run, never one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Ending(StrEnum):
    """How the agent stopped."""

    FINISHED = "finished"
    GAVE_UP = "gave-up"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    SESSION_LIMIT = "session-limit"
    API_ERROR = "api-error"
    INTERRUPTED = "interrupted"
    CRASHED = "crashed"

    @property
    def graded(self) -> bool:
        """Whether what was left is graded: the agent had its full say."""
        return self in (Ending.FINISHED, Ending.GAVE_UP, Ending.TIMEOUT)

    @property
    def resumable(self) -> bool:
        """Whether the agent was cut short through no doing of its own (a crash also needs its session file)."""
        return not self.graded


RUNG_PASSED = "rung passed"
"""The reason of a run that was interrupted because nobody needs its answer any more: no snapshot is taken of it."""


class Verdict(StrEnum):
    """What the checker says of the files left."""

    PASS = "pass"
    FAIL = "fail"
    CHECKER_ERROR = "checker-error"
    NONE = "none"


class ExitCode:
    """The one table of exit codes. Where several hold: 130, 2, 4, 3, 1, 0."""

    DONE = 0
    NOTHING_PASSED = 1
    REFUSED = 2
    UNMEASURED = 3
    RESUMABLE = 4
    INTERRUPTED = 130

    PRECEDENCE = (130, 2, 4, 3, 1, 0)

    @classmethod
    def worst(cls, codes: list[int]) -> int:
        """The code that holds where several do; 0 for none."""
        return next((code for code in cls.PRECEDENCE if code in codes), 0)


@dataclass(slots=True)
class Tokens:
    """Tokens of one run alone, in disjoint kinds; unknown is None, never 0.

    Never changed; not frozen all the same, since decoders add up thousands of them, and that would triple the cost.

    Attributes:
        input: Prompt tokens that were neither read from nor written to a cache.
        cached: Prompt tokens read from a cache.
        cache_write: Prompt tokens written to a cache.
        output: Tokens produced, reasoning included.
        reasoning: The part of `output` that was reasoning.
    """

    input: int | None = None
    cached: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None

    def __add__(self, other: Tokens) -> Tokens:
        """Sum kind by kind; a kind known on one side only keeps that side's number."""
        return Tokens(
            _both(self.input, other.input),
            _both(self.cached, other.cached),
            _both(self.cache_write, other.cache_write),
            _both(self.output, other.output),
            _both(self.reasoning, other.reasoning),
        )

    @property
    def total(self) -> int | None:
        """All tokens in and out; None when none is known."""
        known = [n for n in (self.input, self.cached, self.cache_write, self.output) if n is not None]
        return sum(known) if known else None

    def as_dict(self) -> dict[str, int]:
        """The known kinds only."""
        kinds = ("input", "cached", "cache_write", "output", "reasoning")
        return {kind: n for kind in kinds if (n := getattr(self, kind)) is not None}


def _both(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b
