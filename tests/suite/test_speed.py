"""What testing a server costs beside the server itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.suite.conftest import OpenFaulty, faulty_line

Write = Callable[..., Path]
SUITE = "checks: [{type: tools_list, expect_tools: [a]}, {type: tool_call, tool: a, args: {x: 1}, expect: ok}]\n"
NEVER = ("mcp", "pydantic", "docker", "anyio", "requests", "structlog", "rich", "cryptography", "urllib3", "asyncio")


def test_ten_megabytes(open_faulty: OpenFaulty) -> None:
    session = open_faulty(call_timeout=30.0)
    begin = time.monotonic()
    assert len(session.call("big").text) == 10_000_000
    assert time.monotonic() - begin < 1.5


def test_three_thousand_calls_a_second(open_faulty: OpenFaulty) -> None:
    session = open_faulty()
    best = 0.0
    for _ in range(5):  # the machine may be busy with other things
        begin = time.monotonic()
        for number in range(1000):
            session.call("a", {"x": number})
        best = max(best, 1000 / (time.monotonic() - begin))
        if best >= 3000:
            break
    assert best >= 3000


def test_own_cpu_time(suite_file: Write) -> None:
    """A child that has ended counts as a child's; what is measured here is the program alone."""
    file = suite_file(SUITE)
    program = (
        "import atexit, resource, sys\n"
        "def tell():\n"
        "    used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    print(used.ru_utime + used.ru_stime, file=sys.stderr)\n"
        "atexit.register(tell)\n"
        f"from assay.cli import main\nmain(['mcp', '--server', {faulty_line()!r}, '--suite', {str(file)!r}])\n"
    )
    used = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stdout
        used.append(float(done.stderr))
        if min(used) <= 0.25:
            break
    assert min(used) <= 0.25


def test_what_is_never_imported(suite_file: Write) -> None:
    file = suite_file(SUITE)
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "assay",
        "mcp",
        "--server",
        faulty_line(),
        "--suite",
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "assay.suite.wire.stdio" in imported
    assert {name for name in imported if re.match(rf"({'|'.join(NEVER)})(\.|$)", name)} == set()


def test_importing_the_package_costs_nothing() -> None:
    program = "import sys; before = set(sys.modules); import assay; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(done.stdout.replace("'", '"')) == ["__future__", "assay"]
