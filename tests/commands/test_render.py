"""`assay render`, as a user calls it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

STREAMS = Path(__file__).parent.parent / "data" / "streams"
CLAUDE = STREAMS / "claude"


def assay(*args: str | Path, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "assay.cli", "render", *map(str, args)],
        input=stdin, capture_output=True, check=False, env={**os.environ, **env},
    )  # fmt: skip


def test_a_transcript() -> None:
    done = assay("--decoder", "claude", CLAUDE / "b-rich.jsonl")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == (CLAUDE / "b-rich.txt").read_bytes()


def test_from_standard_input() -> None:
    done = assay("--decoder", "claude", "-", stdin=(CLAUDE / "a-success-tool.jsonl").read_bytes())
    assert done.stdout == (CLAUDE / "a-success-tool.txt").read_bytes()


def test_the_facts_as_one_object() -> None:
    done = assay("--decoder", "claude", CLAUDE / "s3-oauth-session-limit.jsonl", "--exit-code", "1", "--json")
    assert json.loads(done.stdout) == {
        "ending": "session-limit",
        "reason": "You've hit your 5-hour limit · resets 3:40pm (UTC)",
        "reset_at": "2026-11-30T15:40:29Z",
        "session": "b94b8e16-4919-4cea-b11b-95e81aca28b0",
        "model": "claude-sonnet-4-5",
        "cli_version": "2.1.332",
        "turns": 1,
        "tool_calls": [],
        "tokens": {"input": 0, "cached": 0, "cache_write": 0, "output": 0, "reasoning": 0},
        "cost_usd": 0.0,
        "text": "",
    }


def test_what_stderr_and_the_session_file_add() -> None:
    refused = CLAUDE / "x-noverbose.badflag"
    done = assay(
        "--decoder", "claude", f"{refused}.jsonl", "--stderr", f"{refused}.stderr", "--exit-code", "1", "--json"
    )
    facts = json.loads(done.stdout)
    assert (facts["ending"], facts["reason"]) == ("crashed", "error: unknown option '--bogus-flag'")
    assert (facts["tokens"], facts["cost_usd"], facts["session"]) == (None, None, None)

    killed, session = CLAUDE / "u-sigterm.2-killed-again.jsonl", CLAUDE / "u-sigterm.session"
    exit_ = ("--exit-code", "143", "--session-file", session, "--resumed")
    facts = json.loads(assay("--decoder", "claude", killed, *exit_, "--json").stdout)
    assert (facts["ending"], facts["cost_usd"], facts["tool_calls"]) == (
        "interrupted", 0.001278, [{"name": "Bash", "ok": True}],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--decoder", "claud", "-"], "did you mean 'claude'"),
        (["--decoder", "claude", "nowhere.jsonl"], "nowhere.jsonl: cannot be read (No such file or directory)"),
        (["--decoder", "claude", "-", "--stderr", "nowhere.log"], "nowhere.log: cannot be read"),
        (["--decoder", "claude", "-", "--session-file", "/"], "/: cannot be read (Is a directory)"),
        (["x.jsonl"], "assay render: missing option --decoder. See assay render --help"),
        (
            ["--decoder", "claude", "-", "--exit-code", "one"],
            "assay render: invalid value for --exit-code: 'one' is not a whole number",
        ),
    ],
)
def test_refusals_are_one_line_and_exit_2(args: list[str], told: str) -> None:
    done = assay(*args)
    assert (done.returncode, done.stdout) == (2, b"")
    assert told in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_colour_on_a_terminal_only_and_never_with_no_color() -> None:
    def on_terminal(**env: str) -> bytes:
        master, slave = pty.openpty()
        stream = str(CLAUDE / "a-success-tool.jsonl")
        command = [sys.executable, "-m", "assay.cli", "render", "--decoder", "claude", stream]
        subprocess.run(command, stdout=slave, stdin=subprocess.DEVNULL, check=True, env={**os.environ, **env})
        os.close(slave)
        written = os.read(master, 65536)
        os.close(master)
        return written

    assert "\x1b[36m→ Bash".encode() in on_terminal(TERM="xterm", NO_COLOR="")
    assert b"\x1b" not in on_terminal(TERM="xterm", NO_COLOR="1")


def test_a_reader_that_goes_away_is_no_failure(tmp_path: Path) -> None:
    long = tmp_path / "long.jsonl"
    long.write_bytes((CLAUDE / "b-rich.jsonl").read_bytes() * 300)
    command = f"{sys.executable} -m assay.cli render --decoder claude {long} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert done.stdout.decode() == "~ The user wants several things.\n0\n"
    assert done.stderr == b""


def test_hostile_bytes_reach_neither_screen_nor_traceback() -> None:
    text = b'{"type":"assistant","message":{"content":[{"type":"text","text":"a\\u001b]0;x\\u0007\\ud800\\u202eb"}]}}'
    done = assay(
        "--decoder", "claude", "-", stdin=b"\x1b[2J\xff\n" + text + b'\n{"type":"assis', PYTHONIOENCODING="ascii"
    )
    assert done.returncode == 0
    assert done.stdout.decode("ascii").splitlines() == [
        "? unreadable line of 5 bytes: ?",
        "a?b",
        "? the line above was not valid JSON in UTF-8 and was repaired",
        '? unreadable line of 14 bytes: {"type":"assis',
    ]


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; sys.argv = ['assay', 'render', '--decoder', 'claude', '/dev/null']\n"
        "from assay import cli\n"
        "try: cli.main()\n"
        "except SystemExit: print({'docker', 'pydantic', 'rich', 'structlog', 'asyncio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"set()\n"
