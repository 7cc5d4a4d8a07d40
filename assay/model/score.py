"""A score: an exact fraction, and whether it could be measured at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction


class State(StrEnum):
    """Whether something could be evaluated, and how it came out. An error is never a number."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"

    @property
    def measured(self) -> bool:
        """Whether there is a value."""
        return self in (State.PASSED, State.FAILED)


@dataclass(frozen=True, slots=True)
class Score:
    """What a check, a metric or a hidden checker says.

    Attributes:
        state: passed, failed, error (could not be measured) or skipped.
        value: In [0, 1]; None when state is error or skipped.
        detail: One line for the reader.
        evidence: What a reader needs to find the cause, label to text (command, stderr, answer); may be empty.
    """

    state: State
    value: Fraction | None = None
    detail: str = ""
    evidence: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.state.measured != (self.value is not None):
            msg = f"a {self.state} score {'needs a' if self.state.measured else 'has no'} value"
            raise ValueError(msg)
        if self.value is not None and not 0 <= self.value <= 1:
            msg = f"a score lies in [0, 1], not {self.value}"
            raise ValueError(msg)

    @classmethod
    def of(cls, good: int | Fraction, total: int, detail: str = "", evidence: Mapping[str, str] | None = None) -> Score:
        """`good` of `total`, passed only when all are good; nothing asked for (`total` 0) is passed."""
        value = Fraction(good) / total if total else Fraction(1)
        return cls(State.PASSED if value == 1 else State.FAILED, value, detail, evidence or {})

    @classmethod
    def error(cls, detail: str, evidence: Mapping[str, str] | None = None) -> Score:
        """Could not be measured."""
        return cls(State.ERROR, None, detail, evidence or {})

    @classmethod
    def skipped(cls, detail: str) -> Score:
        """Was not tried."""
        return cls(State.SKIPPED, None, detail)

    def as_dict(self) -> dict[str, object]:
        """JSON form; `score` is a float (null when there is none) and `exact` the fraction as text."""
        return {
            "state": self.state.value,
            "score": None if self.value is None else float(self.value),
            "exact": None if self.value is None else str(self.value),
            "detail": self.detail,
            **({"evidence": dict(self.evidence)} if self.evidence else {}),
        }


def mean(values: Iterable[Fraction]) -> Fraction:
    """Exact mean; 0 for none."""
    listed = list(values)
    return sum(listed, Fraction(0)) / len(listed) if listed else Fraction(0)


def exact(number: float | str) -> Fraction:
    """The fraction that a number was written as: 0.7 is 7/10, not the nearest binary float.

    Raises:
        ValueError: The text is not a finite number.
    """
    return Fraction(str(number))
