"""Reference servers from the package registries, with the answers they truly give."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assay.suite.wire.connect import connect
from assay.suite.wire.transport import Server
from tests.suite.conftest import Run
from tests.suite.servers import everything_server, time_server

SUITES = Path(__file__).with_name("suites")
pytestmark = pytest.mark.timeout(900)  # the first test of all may have to install a server


def test_time(assay: Run) -> None:
    outcome = assay("mcp", "--server", shlex.join(time_server()), "--suite", SUITES / "time.yaml", "--json")
    report = json.loads(outcome.out)
    assert [case["score"] for case in report["cases"]] == [1.0] * 6
    assert (outcome.code, report["exact"], report["passed"]) == (0, "1", True)
    assert report["about"]["server"]["name"] == "mcp-time"


def test_failing(assay: Run) -> None:
    outcome = assay("mcp", "--server", shlex.join(time_server()), "--suite", SUITES / "failing.yaml", "--json")
    report = json.loads(outcome.out)
    assert [case["exact"] for case in report["cases"]] == ["1/2", "0", "2/3", "0"]
    assert (outcome.code, report["exact"]) == (1, "7/24")
    table = assay("mcp", "--server", shlex.join(time_server()), "--suite", SUITES / "failing.yaml").out
    assert table.endswith("\nSUITE SCORE: 0.29   threshold 0.50   FAIL\n")


def test_everything(assay: Run) -> None:
    server = shlex.join(everything_server())
    outcome = assay("mcp", "--server", server, "--suite", SUITES / "everything.yaml", "--json")
    assert [case["score"] for case in json.loads(outcome.out)["cases"]] == [1.0] * 9
    assert outcome.code == 0


@contextmanager
def listening(kind: str) -> Iterator[str]:
    """The everything server over HTTP; yields its address without a path."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*everything_server(), kind]
    server = subprocess.Popen(
        command, env={**os.environ, "PORT": str(port)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < end, "the server does not listen"
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize(
    ("kind", "path", "told"),
    [("streamableHttp", "/mcp", "StreamableHttp"), ("sse", "/sse", "SseHttp"), ("stdio", "", "")],
)
def test_every_transport(kind: str, path: str, told: str, assay: Run) -> None:
    suite = SUITES / "everything.toml"
    if kind == "stdio":
        outcome = assay("mcp", "--server", shlex.join(everything_server()), "--suite", suite)
        assert outcome.code == 0, outcome.out
        return
    with listening(kind) as url:
        outcome = assay("mcp", "--url", url + path, "--suite", suite)
        with connect(Server(url=url + path)) as session:
            assert type(session.transport).__name__ == told
    assert outcome.code == 0, outcome.out


def test_the_wrong_path_is_told(assay: Run) -> None:
    with listening("streamableHttp") as url:
        outcome = assay("mcp", "--url", f"{url}/nope", "--suite", SUITES / "everything.toml")
    assert outcome.code == 3
    assert "initialize: HTTP 404 Not Found" in outcome.out


@pytest.mark.parametrize(
    ("capabilities", "count"),
    [({}, 13), ({"roots": {}}, 14), ({"roots": {}, "sampling": {}, "elicitation": {}}, 16)],
)
def test_a_server_offers_what_the_client_can_do(capabilities: dict[str, object], count: int) -> None:
    with connect(Server(command=everything_server(), capabilities=capabilities)) as session:
        assert len(session.list_all("tools/list").items) == count


@pytest.mark.parametrize(("pinned", "spoken"), [("", "2025-11-25"), ("2026-07-28", "2026-07-28")])
def test_protocol_versions(pinned: str, spoken: str) -> None:
    with connect(Server(command=time_server(), protocol=pinned)) as session:
        assert session.info.protocol == spoken
        assert session.info.name == "mcp-time"
        assert session.list_all("tools/list").names() == ["get_current_time", "convert_time"]
        refused = session.call("nope").refused
        assert refused is not None
        assert refused.code == -32602


@pytest.mark.parametrize("server", ["time", "everything"])
def test_a_suite_that_init_wrote_passes(
    server: str, assay: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_SECRET", "s3cr3t-value-of-the-environment")
    command = time_server() if server == "time" else everything_server()
    file = tmp_path / "new.assay.toml"
    made = assay("mcp", "init", "--server", shlex.join(command), "-o", file)
    assert made.code == 0
    text = file.read_text()
    assert "s3cr3t" not in text
    assert text.count("[[checks]]") >= 6
    outcome = assay("mcp", "--suite", file)
    assert (outcome.code, "0.00" in outcome.out) == (0, False), outcome.out
    again = assay("mcp", "init", "--server", shlex.join(command), "-o", file)
    assert (again.code, "is there already" in again.err) == (2, True)
    called = set(re.findall(r'^tool = "(.*)"', text, re.MULTILINE))
    if server == "everything":
        assert "toggle-simulated-logging" not in called
        assert "not called, for they are not marked read-only" in made.err


def test_init_on_a_server_that_does_not_start(assay: Run, tmp_path: Path) -> None:
    outcome = assay("mcp", "init", "--server", "no-such-program", "-o", tmp_path / "x.toml")
    assert outcome.code == 3
    assert "start: no such program: no-such-program" in outcome.err
