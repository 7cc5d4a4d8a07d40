"""Limits that the engine does not hold by itself: the disk; and what to say where memory ran out.

CPUs, memory and processes are the engine's to limit. What a container has written is measured from outside, so seldom
that it costs at most a hundredth of a CPU: whoever writes fast exceeds the limit by what he writes in between.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from assay.model.errors import EngineError
from assay.model.units import show_size
from assay.sandbox.engine import Engine

SHORTEST_SECONDS = 2.0
LONGEST_SECONDS = 30.0
SHARE = 0.01
"""Of a CPU, for measuring."""

ENOUGH_TIMES = 3
"""How often in a row a container may fail to be measured."""


class DiskWatch(threading.Thread):
    """Measures what a running container has written, and says once when it is too much.

    Args:
        engine: Where it runs.
        container: Its id.
        limit: In bytes.
        call: Told with a reason.
    """

    def __init__(self, engine: Engine, container: str, limit: int, call: Callable[[str], None]) -> None:
        super().__init__(name=f"disk {container[:12]}", daemon=True)
        self._engine, self._container, self._limit, self._call = engine, container, limit, call
        self._over = threading.Event()

    def run(self) -> None:
        """Measure until it is too much, or over, or the container is gone."""
        wait, failed = SHORTEST_SECONDS, 0
        while not self._over.wait(wait) and failed < ENOUGH_TIMES:
            began = time.monotonic()
            try:
                size = self._engine.size(self._container)
            except EngineError:
                failed += 1
                continue
            failed, cost = 0, time.monotonic() - began
            if size > self._limit:
                self._call(f"disk limit: {show_size(size >> 20 << 20)} written, {show_size(self._limit)} allowed")
                return
            wait = min(max(SHORTEST_SECONDS, cost / SHARE), LONGEST_SECONDS)

    def stop(self) -> None:
        """No more."""
        self._over.set()


@contextlib.contextmanager
def on_disk(engine: Engine, container: str, limit: int, call: Callable[[str], None]) -> Iterator[None]:
    """Watch what a container writes while the block runs."""
    watch = DiskWatch(engine, container, limit, call)
    watch.start()
    try:
        yield
    finally:
        watch.stop()


def memory_ran_out(engine: Engine, container: str, limit: int | None) -> str | None:
    """What to say if the kernel killed a process of a container for want of memory, whichever it was; else None."""
    try:
        killed = engine.inspect(container)["State"].get("OOMKilled")
    except EngineError:
        return None
    return f"out of memory ({show_size(limit)} allowed)" if killed and limit else "out of memory" if killed else None
