"""Ctrl-C and its kin, turned into a stop that keeps what was done."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}


class Ask(Protocol):
    """What is called with the reason."""

    def __call__(self, reason: str, *, hard: bool) -> None:
        """Stop: gently, or giving up what is not kept yet."""
        ...


@contextmanager
def stop_on_signals(ask: Ask) -> Iterator[None]:
    """While this holds, a first signal asks gently and every further one hard."""
    asked: list[int] = []

    def handle(number: int, _frame: Any) -> None:
        asked.append(number)
        ask(f"stopped by {SIGNALS[signal.Signals(number)]}", hard=len(asked) > 1)

    # Under nohup a closed terminal is to mean nothing.
    heeded = [n for n in SIGNALS if n is not signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
