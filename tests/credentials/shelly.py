"""An agent of a vendor that does not exist: it runs its prompt with `sh`, and signs in as the real ones do."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

AGENT = """
[agents.shelly]
title = "Shelly"
version = "1"
decoder = "text"
hosts = []
default_model = "m"

[agents.shelly.install]
run = ['mkdir -p "$OUT/bin"']
check = ["true"]
shows = ""

[agents.shelly.launch]
run = ["sh", "-s"]
resume = ["sh", "-s"]
session = "given"

[[agents.shelly.credentials]]
env = "SHELLY_TOKEN"

[[agents.shelly.credentials]]
file = "~/.shelly/auth.json"
refresh = "copy-back"
account = "tokens.account_id"
needs = ["tokens.access_token", "tokens.refresh_token"]
"""

FILE = ".shelly/auth.json"


def task(script: str, **more: str) -> dict[str, str]:
    """A project whose agent runs a shell script."""
    return {
        "agents.toml": AGENT,
        "tasks/t/prompt.md": script,
        "tasks/t/checker/check.sh": "#!/bin/sh\nexit 0\n",
        **more,
    }


def sign_in(name: str = "one", refreshed: str = "2026-11-30T12:00:00Z", account: str = "acct") -> dict[str, Any]:
    """The content of a sign-in file; tokens that no other sign-in has."""
    at = time.time_ns()
    tokens = {"access_token": f"access-{name}-{at}", "refresh_token": f"refresh-{name}-{at}", "account_id": account}
    return {"tokens": tokens, "last_refresh": refreshed}


def put(home: Path, content: dict[str, Any]) -> Path:
    """Sign the user in."""
    path = home / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    path.chmod(0o644)
    return path
