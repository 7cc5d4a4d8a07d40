"""Ctrl-C and its kin, turned into a stop that keeps what was done."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}


class Stoppable(Protocol):
    """What can be asked to stop: an executor, or anything like it."""

    def stop(self, slot: None, reason: str, *, hard: bool = False) -> None:
        """Stop everything."""
        ...


@contextmanager
def stopped_by_signals(executor: Stoppable) -> Iterator[None]:
    """While this holds, a first signal stops every run gently and a second gives up snapshots and grading as well."""
    asked: list[int] = []

    def handle(number: int, _frame: Any) -> None:
        asked.append(number)
        name = SIGNALS[signal.Signals(number)]
        executor.stop(None, f"stopped by {name}", hard=len(asked) > 1)

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
