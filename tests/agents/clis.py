"""What the tests of the real CLIs share: a task, how it is rehearsed, and how to read what a run kept."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from tests.project import Outcome, Project

CLIS = ["codex", "gemini", "grok", "opencode"]
TASK = {"tasks/hi/prompt.md": "-- /do what the script says\nwith two lines: ünïcödé\n"}
"""A prompt that begins like a flag, and goes on like a command."""

LONG = 400
"""Seconds; a CLI's image may have to be built first."""

HELLO = '[[turn]]\ntext = "Hello."\n'


def record(run: Path) -> dict[str, Any]:
    return tomllib.loads((run / "run.toml").read_text(encoding="utf-8"))


def requests(run: Path) -> list[dict[str, Any]]:
    return list(json.loads((run / "rehearsal.json").read_bytes())["requests"])


def main(run: Path) -> list[dict[str, Any]]:
    return [request for request in requests(run) if request["kind"] == "main"]


def tokens(run: Path) -> dict[str, int]:
    return {kind: n for kind, n in record(run)["tokens"].items() if kind in ("input", "cached", "output")}


def rehearse(here: Project, agent: str, *more: str, script: str = HELLO, code: int = 0) -> tuple[Path, Outcome]:
    """One rehearsed run to its end: its directory, and what the command said."""
    here.write({"script.toml": script})
    command = ("run", "tasks/hi", "--agent", agent, "--rehearse", "script.toml", *more)
    outcome = here.run(*command, timeout=LONG).assert_code(code)
    return here.runs[-1], outcome
