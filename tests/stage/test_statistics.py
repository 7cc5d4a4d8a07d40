"""The interval, against values worked out elsewhere and at its edges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.stage.statistics import wilson


@pytest.mark.parametrize(
    ("passes", "runs", "low", "high"),
    [
        (0, 1, 0.0, 0.7935),
        (1, 1, 0.2065, 1.0),
        (0, 10, 0.0, 0.2775),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_known_intervals(passes: int, runs: int, low: float, high: float) -> None:
    assert wilson(passes, runs) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_rate_lies_within(counts: tuple[int, int]) -> None:
    passes, runs = counts
    interval = wilson(passes, runs)
    assert interval is not None
    assert 0 <= interval[0] <= passes / runs <= interval[1] <= 1


def test_nothing_was_judged() -> None:
    assert wilson(0, 0) is None
