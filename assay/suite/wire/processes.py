"""Nothing that a test starts outlives it.

Children die with their parent, and strays are found by two marks that a process hands down to whatever it starts: a
variable of the environment, and (Linux) an odd limit on realtime CPU time, which a new session, an empty environment
or closed files do not shake off. Escapes only what sets that limit itself, and what another service starts on request.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

if sys.platform == "linux":
    import resource

_VARIABLE = "ASSAY_SERVER"
_LIMIT = "Max realtime timeout"
_PR_SET_PDEATHSIG = 1
_AGAIN = 1.0
"""Seconds in which what is found after the first killing is killed too."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a program under test and everything it starts carry.

    Attributes:
        env: A variable for its environment.
        limit: Microseconds of uninterrupted realtime CPU time, by the ten thousand years: no limit, but a name.
    """

    env: dict[str, str] = field(default_factory=lambda: {_VARIABLE: secrets.token_hex(8)})
    limit: int = field(default_factory=lambda: (1 << 61) + secrets.randbits(60))

    def before_exec(self) -> Callable[[], None] | None:
        """What a child calls before it becomes the program: take the mark, and be killed should this process be killed.

        Only in the main thread (None elsewhere): calls between fork and exec are for it alone, and the kernel sends the
        signal when the *thread* that started the child ends.
        """
        if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
            return None
        import ctypes

        prctl = ctypes.CDLL(None).prctl

        def prepare() -> None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            self.put_on(0)

        return prepare

    def put_on(self, pid: int) -> None:
        """Mark a process that runs already; what it has started by then is not marked. 0 is this one."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError, ValueError):
                hard = resource.prlimit(pid, resource.RLIMIT_RTTIME)[1]
                resource.prlimit(pid, resource.RLIMIT_RTTIME, (self.limit, hard))

    def carried(self, but_not: int) -> dict[int, str]:
        """The live processes that carry it, number to name (Linux)."""
        if sys.platform != "linux":
            return {}
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != but_not:
                with contextlib.suppress(OSError):
                    if self._is_on(folder) and not _is_zombie(folder):
                        found[int(folder.name)] = (folder / "comm").read_text().strip()
        return found

    def _is_on(self, folder: Path) -> bool:
        rows = (folder / "limits").read_text().splitlines()
        if any(row.startswith(_LIMIT) and row.removeprefix(_LIMIT).split()[0] == str(self.limit) for row in rows):
            return True
        wanted = f"{_VARIABLE}={self.env[_VARIABLE]}".encode()
        return wanted in (folder / "environ").read_bytes().split(b"\0")


def _is_zombie(folder: Path) -> bool:
    return (folder / "stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"


def end_left_behind(mark: Mark, but_not: int, patience: float = 0.3) -> list[str]:
    """Kill every process that carries the mark and does not end by itself in time (Linux); say which there were."""
    end = time.monotonic() + patience
    while (found := mark.carried(but_not)) and time.monotonic() < end:
        time.sleep(0.02)
    told = dict(found)
    end = time.monotonic() + _AGAIN
    while found:
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() >= end:
            break
        time.sleep(0.005)
        found = mark.carried(but_not)
        told |= found
    return [f"{name} (process {pid})" for pid, name in told.items()]
