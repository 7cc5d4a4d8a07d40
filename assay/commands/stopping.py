"""Ctrl-C and its kin, turned into a stop that keeps what was done."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}


class Ask(Protocol):
    """What is called with the reason."""

    def __call__(self, reason: str, *, hard: bool) -> None:
        """Stop: gently, or giving up what is not kept yet."""
        ...


@contextmanager
def stop_on_signals(ask: Ask) -> Iterator[None]:
    """While this holds, a first signal asks gently and every further one hard; `ask` is called from another thread.

    A handler of Python's own runs only once the main thread moves, and the kernel may give a signal to any thread: a
    main thread that waits for a quiet agent would hear of it at the agent's end. The interpreter also writes each
    signal to a socket, at once.
    """
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)

    def hear() -> None:
        count = 0
        while numbers := ours.recv(64):
            for number in numbers:
                if number in SIGNALS:
                    count += 1
                    ask(f"stopped by {SIGNALS[signal.Signals(number)]}", hard=count > 1)

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
