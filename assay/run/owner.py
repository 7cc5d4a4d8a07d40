"""Who owns a run's containers: this process, told apart from any other that had its number."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def started_at(pid: int) -> str | None:
    """When a process of this host started, in a form that is only compared; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except FileNotFoundError:
        return _started_elsewhere(pid)
    except OSError:
        return None
    # The second field is a name in parentheses and may hold anything; the start time is the 20th after it.
    return stat.rpartition(")")[2].split()[19]


def _started_elsewhere(pid: int) -> str | None:
    if Path("/proc/self/stat").exists():
        return None
    import subprocess

    shown = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False
    )
    return "-".join(shown.stdout.split()) or None


def me() -> str:
    """This process as `pid:start:host`."""
    return f"{os.getpid()}:{started_at(os.getpid()) or 0}:{socket.gethostname()}"


def alive(owner: str) -> bool | None:
    """Whether an owner still lives; None if it is on another host, where nobody here can tell."""
    pid, _, rest = owner.partition(":")
    start, _, host = rest.partition(":")
    if host != socket.gethostname():
        return None
    return pid.isdigit() and started_at(int(pid)) == start
