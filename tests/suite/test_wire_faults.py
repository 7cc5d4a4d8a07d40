"""Every way a server can be wrong is told apart, in time, with its evidence; and nothing is left running."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from assay.suite.programs import run_program
from assay.suite.wire.connect import connect
from assay.suite.wire.faults import BadAnswer, Gone, NoAnswer, RpcError, StartFault, WireFault
from assay.suite.wire.session import Session
from assay.suite.wire.transport import Server
from tests.suite.conftest import OpenFaulty, faulty

START = {
    "exit": ("initialize", "the server exited with code 1"),
    "hang": ("initialize", "no answer within 1 s"),
    "hang_init": ("initialize", "no answer within 1 s"),
    "init_refused": ("initialize", "the server refused: -32603 boom at init"),
    "bad_version": ("initialize", "the server chose protocol version '1999-01-01'"),
    "no_version": ("initialize", "malformed answer: protocolVersion is missing"),
    "no_capabilities": ("initialize", "malformed answer: capabilities is missing"),
    "init_list": ("initialize", "malformed answer: result is [], not an object"),
    "unsupported": ("initialize", "the server speaks no version it names"),
    "daemon": ("initialize", "the server exited with code 5"),
}


@pytest.mark.parametrize("mode", START)
def test_a_server_that_does_not_start_is_told_with_phase_cause_and_evidence(mode: str) -> None:
    begin = time.monotonic()
    with pytest.raises(StartFault) as caught:
        connect(Server(command=faulty(mode), connect_timeout=1.0))
    took = time.monotonic() - begin
    phase, cause = START[mode]
    assert caught.value.phase == phase
    assert cause in caught.value.cause
    assert f"faulty_server.py {mode}" in caught.value.evidence["command"]
    assert f"stderr of {mode}" in caught.value.evidence["stderr"]
    assert caught.value.exit_code == 3
    if "no answer" in cause:
        assert 1.0 <= took <= 1.5
    if "exited" in cause:
        assert caught.value.evidence["exit"] == cause.removeprefix("the server exited with ")


def test_all_messages_of_a_failed_start_differ() -> None:
    told = {cause for _, cause in START.values()}
    assert len(told) == len(START) - 1, "only the two hangs look alike from outside"


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (("no-such-program-here",), "no such program: no-such-program-here"),
        (("python3 -m http.server",), "write it as a list"),
        (("/etc/passwd",), "may not be executed"),
        (("/",), "may not be executed"),
    ],
)
def test_a_program_that_cannot_be_started(command: tuple[str, ...], cause: str) -> None:
    with pytest.raises(StartFault) as caught:
        connect(Server(command=command))
    assert caught.value.phase == "start"
    assert cause in caught.value.cause
    assert "exit" not in caught.value.evidence


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    file = tmp_path / "server"
    file.write_bytes(b"\x00not a program")
    file.chmod(0o755)
    with pytest.raises(StartFault, match="cannot be executed"):
        connect(Server(command=(str(file),)))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StartFault, match=r"the folder .*gone to start it in is not there"):
        connect(Server(command=faulty(), cwd=tmp_path / "gone"))


CALLS: dict[str, tuple[type[WireFault], str]] = {
    "sleep": (NoAnswer, "no answer within 1 s"),
    "die": (Gone, "the server exited with code 7"),
    "kill": (Gone, "the server was killed by signal SIGKILL"),
    "silent": (Gone, "the server closed its standard output but is still running"),
    "badlist": (BadAnswer, 'malformed result: content is "no list", not a list'),
    "badblock": (BadAnswer, "malformed result: block 1 of content"),
    "nothing": (BadAnswer, "malformed result: content is missing"),
    "badcode": (BadAnswer, "malformed error"),
    "wrongid": (NoAnswer, "an answer to request 99999 came, which nothing asked for"),
    "deep": (NoAnswer, "no answer within 1 s"),
}


@pytest.mark.parametrize("tool", CALLS)
def test_a_call_that_goes_wrong(open_faulty: OpenFaulty, tool: str) -> None:
    kind, cause = CALLS[tool]
    session = open_faulty()
    begin = time.monotonic()
    with pytest.raises(kind) as caught:
        session.call(tool, seconds=1.0)
    session.close()
    took = time.monotonic() - begin
    assert caught.value.phase == f"tools/call {tool}"
    assert cause in caught.value.cause
    assert "stderr of fine" in caught.value.evidence["stderr"]
    assert took <= 1.5 or kind is not NoAnswer
    if tool == "deep":
        assert session.stray.count == 1


def test_answers_that_are_no_faults(open_faulty: OpenFaulty) -> None:
    session = open_faulty()
    mixed = session.call("mixed")
    assert (mixed.text, mixed.kinds) == ("AB", ("text", "image", "text", "resource"))
    failed = session.call("fail")
    assert failed.is_error
    assert failed.text == "tool failed"
    refused = session.call("refuse").refused
    assert isinstance(refused, RpcError)
    assert (refused.code, refused.message) == (-32602, "Unknown tool: refuse")
    assert session.call("a", {"x": "ä\ud800"}).text.startswith("ok ")


@pytest.mark.parametrize(
    ("mode", "lines", "first"),
    [("garbage", 2, "Welcome to my server v1!"), ("binary", 1, "\\xff\\xfe\\x00bin\\x1b[31m"), ("flood", 0, "")],
)
def test_stray_output_is_counted_and_never_stops_anything(
    open_faulty: OpenFaulty, mode: str, lines: int, first: str
) -> None:
    session = open_faulty(mode)
    assert session.call("noise").text == "after noise"
    assert session.stray.count == lines + 1
    assert session.stray.samples[0] == (first or "DEBUG: got call")


def test_lists(open_faulty: OpenFaulty) -> None:
    pages = open_faulty("pages").list_all("tools/list")
    assert (pages.names(), pages.pages, pages.endless) == (["t0", "t1", "t2"], 3, "")
    endless = open_faulty("endless").list_all("tools/list")
    assert (endless.pages, endless.endless) == (2, "page 2 repeats the cursor 'same'")
    without_end = open_faulty("pages_without_end").list_all("tools/list")
    assert without_end.endless == "1000 pages and no end"
    twice = open_faulty("twice").list_all("tools/list")
    assert (twice.names(), twice.repeated()) == (["a", "a", "b"], ["a"])
    bad = open_faulty("one_bad_tool").list_all("tools/list")
    assert bad.names() == ["a", "b"]
    assert bad.problems == ["entry 1 (a): has no inputSchema", 'entry 3 is "c", not an object']
    for mode, cause in (("no_tools_key", "tools is missing"), ("cursor_number", "nextCursor is 7")):
        with pytest.raises(BadAnswer, match=cause):
            open_faulty(mode).list_all("tools/list")


def test_a_list_that_hangs(open_faulty: OpenFaulty) -> None:
    with pytest.raises(NoAnswer, match=r"tools/list: no answer within 0\.5 s"):
        open_faulty("hang_list").list_all("tools/list", seconds=0.5)


def test_output_schemas_are_held_against_answers(open_faulty: OpenFaulty) -> None:
    for mode, finding in (("breaks_schema", "x is string, not integer"), ("no_structure", "no structuredContent")):
        session = open_faulty(mode)
        session.list_all("tools/list")
        session.call("a")
        assert finding in session.notes[0]


def test_a_nameless_server_works_and_is_noted(open_faulty: OpenFaulty) -> None:
    session = open_faulty("nameless")
    assert session.call("a").text == "ok {}"
    assert session.notes == ["initialize: the server does not say its name"]


def test_the_client_answers_a_server_that_asks(open_faulty: OpenFaulty) -> None:
    session = open_faulty(capabilities={"roots": {}}, roots=("file:///work",))
    assert session.call("ask").text == "{}"
    assert "file:///work" in session.call("ask", {"method": "roots/list"}).text
    assert "-32601" in session.call("ask", {"method": "sampling/createMessage"}).text


@pytest.mark.parametrize("mode", ["stubborn", "stubborn_hang"])
def test_a_server_that_ignores_everything_is_gone_in_time(open_faulty: OpenFaulty, mode: str) -> None:
    session = open_faulty(mode)
    begin = time.monotonic()
    if mode == "stubborn_hang":
        with pytest.raises(NoAnswer):
            session.call("sleep", seconds=0.5)
    session.close()
    assert time.monotonic() - begin <= 4.5


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("threaded", [False, True])
def test_what_a_server_leaves_running_is_ended_and_told(open_faulty: OpenFaulty, bare: bool, threaded: bool) -> None:
    """Also what is in a session of its own and has none of the environment."""
    opened: list[Session] = []
    if threaded:
        thread = threading.Thread(target=lambda: opened.append(open_faulty()))
        thread.start()
        thread.join(30)
    else:
        opened.append(open_faulty())
    session = opened[0]
    pid = int(session.call("spawn", {"bare": bare}).text)
    assert _lives(pid)
    session.close()
    assert any(f"process {pid}" in note for note in session.notes)
    end = time.monotonic() + 5
    while _lives(pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_server_outlives_the_program(tmp_path: Path, number: signal.Signals) -> None:
    suite = tmp_path / "s.yaml"
    suite.write_text("checks: [{type: tool_call, tool: sleep, expect: ok}]")
    pid_file = tmp_path / "pid"
    line = f"sh -c 'echo $$ > {pid_file}; exec {' '.join(faulty('stubborn'))}'"
    program = subprocess.Popen([sys.executable, "-m", "assay", "mcp", "--server", line, "--suite", str(suite)])
    end = time.monotonic() + 20
    while not (pid_file.exists() and pid_file.read_text().strip()) and time.monotonic() < end:
        time.sleep(0.02)
    pid = int(pid_file.read_text())
    time.sleep(0.3)
    program.send_signal(number)
    code = program.wait(10)
    assert code == (-9 if number is signal.SIGKILL else 130)
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


def test_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTSIDE", "seen")
    script = tmp_path / "env.py"
    script.write_text("import os, sys; sys.stderr.write(f\"{os.environ.get('OUTSIDE')} {os.environ.get('GIVEN')}\")")
    told = []
    for inherit in (True, False):
        server = Server(command=(sys.executable, str(script)), env={"GIVEN": "x"}, inherit_env=inherit)
        with pytest.raises(StartFault) as caught:
            connect(server)
        told.append(caught.value.evidence["stderr"])
    assert told == ["seen x", "None x"]


def test_a_server_runs_without_a_limit_of_use() -> None:
    """The limit that is the mark is far beyond what any machine lives to see, and the others are as they were."""
    program = "import resource as r; print({n: r.getrlimit(getattr(r, n)) for n in dir(r) if n.startswith('RLIMIT_')})"
    told = [eval(run_program([sys.executable, "-c", program], b"", 30))]
    told.append({name: resource.getrlimit(getattr(resource, name)) for name in told[0]})
    soft, hard = told[0].pop("RLIMIT_RTTIME")
    assert hard == told[1].pop("RLIMIT_RTTIME")[1]
    assert soft > 10_000 * 365 * 86400 * 10**6
    assert told[0] == told[1]


def test_what_a_program_leaves_running(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"env -i setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $! > {pid}"
    run_program(["sh", "-c", script], b"", 30)
    assert not _lives(int(pid.read_text()))
