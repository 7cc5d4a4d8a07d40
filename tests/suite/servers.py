"""Real software from the package registries, installed on demand into a folder beside the virtual environment.

The first test that needs a thing installs it (needs pip, and npm for the Node server); later ones find it there.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

HOME = Path(os.environ.get("ASSAY_TEST_SERVERS", Path(sys.prefix) / "test-servers"))
TIME, EVERYTHING = "mcp-server-time==2026.10.19", "@modelcontextprotocol/server-everything@2026.8.31"
FRAMEWORKS = {"google-adk": "google-adk==2.13.0", "langchain": "langchain==1.5.2"}
OURS = ("click>=8.1", "pyyaml>=6.0", "orjson>=3.10")


def time_server() -> tuple[str, ...]:
    """Command of the reference time server (Python)."""
    home = _installed(TIME, lambda folder: _pip(folder, TIME))
    return (str(home / "bin" / "mcp-server-time"), "--local-timezone", "UTC")


def everything_server() -> tuple[str, ...]:
    """Command of the reference server that has everything (Node); add sse or streamableHttp for HTTP."""
    home = _installed(EVERYTHING, lambda folder: _run("npm", "install", "--no-audit", "--prefix", folder, EVERYTHING))
    return ("node", str(home / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"))


def framework_python(name: str) -> str:
    """A Python that has an agent framework and what Assay's suites import."""
    home = _installed(FRAMEWORKS[name], lambda folder: _pip(folder, FRAMEWORKS[name], *OURS))
    return str(home / "bin" / "python")


def _installed(what: str, install: Callable[[Path], None]) -> Path:
    folder = HOME / what.replace("/", "_")
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (done := folder / ".installed").exists():
            install(folder)
            done.touch()
    return folder


def _pip(folder: Path, *packages: str) -> None:
    # With the pip that is here: putting one into each takes longer than most packages do.
    _run(sys.executable, "-m", "venv", "--without-pip", folder)
    _run(sys.executable, "-m", "pip", "--python", folder, "install", "--quiet", "--no-compile", *packages)


def _run(*command: str | Path) -> None:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    except FileNotFoundError:
        msg = f"{words[0]} is needed to install {words[-1]} for the tests, and is not on the PATH"
        raise RuntimeError(msg) from None
    if done.returncode:
        said = done.stdout[-2000:] + done.stderr[-2000:]
        msg = f"{' '.join(words)} failed, so the tests that need it cannot run:\n{said}"
        raise RuntimeError(msg)
