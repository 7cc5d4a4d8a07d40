"""Every command of docs/ask.md is run as it stands there, in rehearsal."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.sandbox.engine import Engine
from tests.ask.conftest import MakeRepository, forget, git, write
from tests.conftest import MakeProject
from tests.project import COMMAND, REPOSITORY

DOCS = (REPOSITORY / "docs/ask.md").read_text("utf-8")

STAGE = """
[stage.ask]
kind = "ask"
rehearse = true
rungs = [{ agent = "claude" }]
"""

FURTHER = """
[[turn]]
text = "With two writers it does not hold."
"""


def commands() -> list[str]:
    """Lines of every block for a shell, and whole commands in the text."""
    blocks = re.findall(r"^```sh\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


def in_the_text() -> list[str]:
    """Commands in the running text that ask something and need no file."""
    return [words for words in re.findall(r"`(assay ask [^`]*)`", DOCS) if "SCRIPT" not in words and "RUN" not in words]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """The engine; copies of this test's repositories and its snapshots are removed afterwards."""
    engine = Engine.connect()
    yield engine
    forget(engine, tmp_path)
    engine.api.close()


@pytest.mark.docker
@pytest.mark.cli
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("engine")
def test_every_command_does_what_is_said(project: MakeProject, repository: MakeRepository) -> None:
    here = project()
    folder = repository({"engine.py": "def start(): ...\n", "assay.toml": STAGE, ".gitignore": "*.toml\nruns/\n"})
    played = (REPOSITORY / "assay/rehearsal/ask.toml").read_text("utf-8")
    write(folder, {"engine.py": "def start(): pass\n", "question.md": "Why?\n", "further.toml": played + FURTHER})
    other = Path(here.env["HOME"]) / "code/engine"
    write(other, {"main.c": "int main(void) { return 0; }\n"})
    git(other, "init", "-q")
    assert len(commands()) >= 5
    assert {"assay ask --dry-run", 'assay ask --rehearse "Does it work?"'} <= set(in_the_text())
    env = {**here.env, "PATH": f"{COMMAND.parent}:{here.env['PATH']}"}
    for line in [*commands(), *in_the_text()]:
        # The answers are the scripts'; everything else is as it stands there.
        script = " --rehearse further.toml" if "--followup" in line else ""
        shell = ["bash", "-o", "pipefail", "-c", line + script]
        done = subprocess.run(shell, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        if line == "assay show last":
            places = [
                done.stdout.index(words) for words in ("A rehearsed answer", "> And with two", "With two writers")
            ]
            assert places == sorted(places)
    assert (folder / "opinion.md").read_text("utf-8").startswith("# A rehearsed answer")
