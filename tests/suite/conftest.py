"""What the tests of suites share: the program in this process, a faulty server, and that no process is left behind."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from assay import cli
from assay.suite.wire.connect import connect
from assay.suite.wire.session import Session
from assay.suite.wire.transport import Server

FAULTY = Path(__file__).with_name("faulty_server.py")
OpenFaulty = Callable[..., Session]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def assay(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the program with arguments; returns exit code, output and errors."""

    def run(*argv: str | Path) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main([str(word) for word in argv])
        out, err = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Outcome(end.value.code, out, err)

    return run


def faulty(mode: str = "fine") -> tuple[str, ...]:
    """Command of the faulty server."""
    return (sys.executable, str(FAULTY), mode)


def faulty_line(mode: str = "fine") -> str:
    return shlex.join(faulty(mode))


@pytest.fixture
def open_faulty() -> Iterator[OpenFaulty]:
    """Open sessions with the faulty server; all are closed afterwards."""
    sessions: list[Session] = []

    def open_session(mode: str = "fine", **settings: object) -> Session:
        given = {"connect_timeout": 5.0, "call_timeout": 5.0, **settings}
        sessions.append(connect(Server(command=faulty(mode), **given)))  # type: ignore[arg-type]
        return sessions[-1]

    yield open_session
    for session in sessions:
        session.close()


def servers_of_this_test(start: float) -> list[str]:
    """Processes that carry the mark of a server under test and are children of this test run."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            environ = (folder / "environ").read_bytes()
            if b"ASSAY_SERVER=" in environ and f"ASSAY_TEST={start}".encode() in environ:
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.fixture(autouse=True)
def _no_process_is_left(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test started as a server is gone when it is over."""
    mark = abs(hash((request.node.nodeid, os.getpid())))
    monkeypatch.setenv("ASSAY_TEST", str(mark))
    yield
    assert servers_of_this_test(mark) == []


@pytest.fixture
def suite_file(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a suite: `suite_file(text, "name.yaml")`."""

    def write(text: str, name: str = "suite.yaml") -> Path:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return file

    return write
