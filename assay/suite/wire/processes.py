"""Nothing that a test starts outlives it.

Children die with their parent, and strays are found by a mark in their environment, even those that left the process
group.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

_MARK = "ASSAY_SERVER"
_PR_SET_PDEATHSIG = 1


def tag() -> dict[str, str]:
    """A variable that marks a server and everything it starts."""
    return {_MARK: secrets.token_hex(8)}


def die_with_parent() -> Callable[[], None] | None:
    """What a child calls before it becomes the server: be killed should this process be killed (Linux).

    The kernel sends the signal when the *thread* that started the child ends, so other threads do without.
    """
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return ask


def end_left_behind(mark: dict[str, str], but_not: int, patience: float = 0.3) -> list[str]:
    """Kill every process that carries the mark and does not end by itself in time (Linux); say which there were."""
    end = time.monotonic() + patience
    while found := _marked(mark, but_not):
        if time.monotonic() >= end:
            break
        time.sleep(0.02)
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue
    return [f"{name} (process {pid})" for pid, name in found.items()]


def _marked(mark: dict[str, str], but_not: int) -> dict[int, str]:
    if sys.platform != "linux":
        return {}
    wanted = f"{_MARK}={mark[_MARK]}".encode()
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == but_not:
            continue
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "comm").read_text().strip()
        except OSError:
            continue
    return found
