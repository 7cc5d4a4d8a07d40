"""What a tool was called with is there to be matched on, whichever CLI called it."""

from __future__ import annotations

import json

import pytest

from assay.decoders import get
from assay.model.events import ToolCall
from assay.model.trajectory import Trajectory
from tests.project import REPOSITORY

STREAMS = REPOSITORY / "tests" / "data" / "streams"
COMMANDS = [
    "pwd",
    "expr 3 + 4",
    r"printf 'first line\nsecond line\n  third, indented\n'",
    "cat does-not-exist.txt",
    r"printf 'Grüße, 世界, ¿qué tal? 🚀\n'",
    r"printf 'rehearsed\n' > rehearsal.txt && cat rehearsal.txt",
]
"""Those of the canonical script."""


@pytest.mark.parametrize("decoder", ["claude", "codex", "gemini", "grok", "opencode"])
def test_the_commands_of_the_canonical_script_are_arguments(decoder: str) -> None:
    with (STREAMS / decoder / "rehearsal.jsonl").open("rb") as stream:
        calls = Trajectory.from_events(get(decoder).decode(stream)).calls
    # opencode tells a call when it is over, and two of them run side by side.
    assert sorted(str((call.args or {}).get("command")) for call in calls) == sorted(COMMANDS)


def test_codex_gives_an_mcp_tools_own_arguments() -> None:
    item = {"id": "1", "type": "mcp_tool_call", "server": "s", "tool": "t", "arguments": {"a": 1}}
    line = json.dumps({"type": "item.started", "item": item}).encode()
    (call,) = get("codex").decode([line])
    assert isinstance(call, ToolCall)
    assert (call.name, call.input) == ("s.t", {"a": 1})
