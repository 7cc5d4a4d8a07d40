"""A score: an exact fraction, and whether it could be measured at all."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction


class State(StrEnum):
    """Whether a check could be evaluated. An error is never a number."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Score:
    """What a check or a hidden checker says.

    Attributes:
        state: passed, failed, error (could not be measured) or skipped.
        value: In [0, 1]; None when state is error or skipped.
        detail: One line for the reader.
    """

    state: State
    value: Fraction | None = None
    detail: str = ""
