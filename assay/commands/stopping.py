"""Ctrl-C and its kin, turned into a stop that keeps what was done."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}

ECHO_SECONDS = 2.0
"""How long after the first signal another SIGTERM may still be the same event.

`timeout` sends one to its command and one to its process group; a service manager may as well.
"""


class Ask(Protocol):
    """What is called with the reason."""

    def __call__(self, reason: str, *, hard: bool) -> None:
        """Stop: gently, or giving up what is not kept yet."""
        ...


class Insistence:
    """Which signals only say once more what was said, and which mean that nobody waits for what is not kept yet.

    One event often arrives as several signals: of a closed terminal both the kernel and the shell send a SIGHUP. Only
    a key that is pressed twice is sure to be somebody who insists.
    """

    def __init__(self) -> None:
        self._first: float | None = None
        self._interrupts = 0

    def heard(self, number: signal.Signals, at: float) -> bool | None:
        """Take a signal: False for a gentle stop, True for a hard one, None if it changes nothing.

        Args:
            number: One of `SIGNALS`.
            at: When, on the monotonic clock.
        """
        self._interrupts += number == signal.SIGINT
        if self._first is None:
            self._first = at
            return False
        late = at - self._first >= ECHO_SECONDS
        hard = number != signal.SIGHUP and (late or (number == signal.SIGINT and self._interrupts > 1))
        return True if hard else None


@contextmanager
def stop_on_signals(ask: Ask) -> Iterator[None]:
    """While this holds, a first signal asks gently and one that insists hard; `ask` is called from another thread.

    A handler of Python's own runs only once the main thread moves, and the kernel may give a signal to any thread: a
    main thread that waits for a quiet agent would hear of it at the agent's end. The interpreter also writes each
    signal to a socket, at once.
    """
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)

    def hear() -> None:
        insistence = Insistence()
        while numbers := ours.recv(64):
            for number in (signal.Signals(n) for n in numbers if n in SIGNALS):
                if (hard := insistence.heard(number, time.monotonic())) is not None:
                    ask(f"stopped by {SIGNALS[number]}", hard=hard)

    hearing = threading.Thread(target=hear, name="signals", daemon=True)
    hearing.start()
    # Under nohup a closed terminal is to mean nothing.
    heeded = [n for n in SIGNALS if n is not signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
    waker = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda _number, _frame: None) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(waker)
        theirs.close()
        hearing.join()
        ours.close()
