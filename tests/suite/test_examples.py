"""The examples run, on the frameworks as they are published, and the page about suites says what is true."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite.conftest import Run
from tests.suite.servers import framework_python, time_server

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run_example(python: str, name: str) -> subprocess.CompletedProcess[str]:
    command = [python, str(EXAMPLES / name), "--suite", str(EXAMPLES / "cases.yaml")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize("name", ["callable_agent.py", "messages_agent.py"])
def test_plain(name: str) -> None:
    done = run_example(sys.executable, name)
    assert (done.returncode, "PASS" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("framework", "name"), [("langchain", "langchain_agent.py"), ("google-adk", "adk_agent.py")])
def test_frameworks(framework: str, name: str) -> None:
    done = run_example(framework_python(framework), name)
    assert (done.returncode, "2/2 expected tools called" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.timeout(900)
def test_the_page_about_suites(tmp_path: Path, assay: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite, the command and the table of the first part are taken from the page and tried."""
    page = (ROOT / "docs" / "suites.md").read_text("utf-8").split("\n## ")[1]
    blocks = re.findall(r"```(\w+)\n(.*?)```", page, re.DOTALL)
    suite, table = (next(text for kind, text in blocks if kind == wanted) for wanted in ("toml", "text"))
    command = "".join(text for kind, text in blocks if kind == "sh")
    (tmp_path / "time.toml").write_text(suite)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(time_server()[0]).parent}:{os.environ['PATH']}")
    words = shlex.split(next(line for line in command.splitlines() if line.startswith("assay mcp --server")))
    outcome = assay(*words[1:])
    assert outcome.out == table
    assert outcome.code == 0


def test_every_key_on_the_page_is_one(assay: Run, tmp_path: Path) -> None:
    """Each TOML block of the page is a suite that loads."""
    page = (ROOT / "docs" / "suites.md").read_text("utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 3
    from assay.suite.suite import load_suite

    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.toml"
        file.write_text(block)
        load_suite(file)
