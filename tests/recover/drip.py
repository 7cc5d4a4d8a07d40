"""A project whose agent is `drip.sh`: quick, with a session that can be resumed, and a key that must leak nowhere."""

from __future__ import annotations

import base64
import json
import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import docker

from tests.project import Project

KEY = "drip-canary-7Qm2xV9sLk4TzW"
SCRIPT = base64.b64encode((Path(__file__).parent / "drip.sh").read_bytes()).decode()
CHECK = "#!/bin/sh\n[ -e done.txt ] || exit 1\n"

AGENT = f"""
[agents.drip]
title = "Drip"
version = "1"
decoder = "claude"
hosts = []
default_model = "drip-1"
state = ["~/.drip"]
session_file = "~/.drip/{{session}}.jsonl"

[agents.drip.install]
run = ['mkdir -p "$OUT/bin"', 'echo {SCRIPT} | base64 -d > "$OUT/bin/drip"', 'chmod 755 "$OUT/bin/drip"']
check = ["drip", "--version"]
shows = "drip {{version}}"

[agents.drip.launch]
run = ["drip", "run", "{{session}}"]
resume = ["drip", "resume", "{{session}}"]
session = "given"
stall_seconds = 60

[agents.drip.models]
drip-1 = {{}}

[[agents.drip.credentials]]
env = "DRIP_KEY"
"""


def drip_files(settings: str = "steps=10\ndelay=0.05\n", **more: str) -> dict[str, str]:
    """Files of a project with one task, `drip`, for that agent."""
    return {
        "agents.toml": AGENT,
        "tasks/drip/prompt.md": f"Say what you do.\n{settings}",
        "tasks/drip/checker/check.sh": CHECK,
        **more,
    }


def with_key(project: Project) -> Project:
    """The project, its agent's key in the environment of every command."""
    project.env["DRIP_KEY"] = KEY
    return project


RUN = ("run", "tasks/drip", "--agent", "drip", "-q")


def record(run: Path) -> dict[str, Any]:
    """run.toml as it is; it must parse whenever it is looked at."""
    return tomllib.loads((run / "run.toml").read_text("utf-8"))


def steps_of(run: Path) -> list[int]:
    """The numbers that a run's events hold, in order; every line of them must be whole."""
    data = (run / "events.jsonl").read_bytes() if (run / "events.jsonl").exists() else b""
    assert not data or data.endswith(b"\n"), f"{run}: the last line is torn: {data[-80:]!r}"
    return [event["n"] for event in map(json.loads, data.splitlines()) if "n" in event]


def assert_each_once(run: Path) -> None:
    """No event was lost or doubled: the numbers follow each other."""
    numbers = steps_of(run)
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True, f"{run}: {numbers}"


def eventually(what: Callable[[], object], seconds: float = 50, pause: float = 0.02) -> None:
    """Block until something holds that another process brings about; looking costs processor time, so not often."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not come about in time"
        time.sleep(pause)


def on_engine(project: Project, **labels: str) -> list[Mapping[str, Any]]:
    """The project's containers on the engine."""
    wanted = [f"assay.project={project.root}", *(f"assay.{key}={value}" for key, value in labels.items())]
    api = docker.APIClient(version="auto", timeout=60)
    try:
        return list(api.containers(all=True, filters={"label": wanted}))
    finally:
        api.close()


def assert_nothing_left(project: Project) -> None:
    """No container of the project is left; networks it makes none of its own, and volumes go with their containers."""
    assert not (left := on_engine(project)), [c["Names"] for c in left]
