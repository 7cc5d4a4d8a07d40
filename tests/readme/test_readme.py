"""Every command that the README shows is run, in its order; what it says of files and options is there."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project import REPOSITORY, Project

README = (REPOSITORY / "README.md").read_text("utf-8")
NEEDS_CREDENTIAL = "needs a credential"
NOT_RESUMABLE = "anything else is refused"


def commands() -> list[str]:
    """Lines after `$ ` of every console block."""
    blocks = re.findall(r"^```console\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def test_there_is_something_to_run() -> None:
    assert len(commands()) > 12


@pytest.mark.docker
@pytest.mark.cli
@pytest.mark.timeout(900)
def test_every_command_does_what_is_said(project: Callable[..., Project]) -> None:
    here = project({})
    shutil.copy(REPOSITORY / "assay.toml", here.root)
    here.sample("hello")
    folder = here.root
    for line in commands():
        command, _, said = (part.strip() for part in line.partition("  # "))
        words = command.split()
        if words[0] == "cd":
            here.root = here.root / words[1]
            continue
        if words[0].startswith("scripts/"):
            # Run as a whole by the tests of the scripts, and by whoever runs this one.
            assert os.access(REPOSITORY / words[0], os.X_OK)
            continue
        assert words[0] == "assay", command
        outcome = here.run(*words[1:], timeout=600)
        expected = re.search(r"exit (\d)", said)
        code = int(expected[1]) if expected else 2 if NEEDS_CREDENTIAL in said or NOT_RESUMABLE in said else 0
        outcome.assert_code(code)
        if NEEDS_CREDENTIAL in said:
            outcome.assert_says("no credential found", "CLAUDE_CODE_OAUTH_TOKEN")
    assert here.root != folder


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (REPOSITORY / target).exists(), target


@pytest.mark.parametrize("name", ["LICENSE", "assay.toml", "agents.toml", "tasks/hello", "scripts/bench"])
def test_the_top_level_is_as_described(name: str) -> None:
    assert (REPOSITORY / name).exists()


def test_no_line_of_it_names_a_machine() -> None:
    for path in (REPOSITORY / "README.md", *(Path(REPOSITORY) / "docs").glob("*.md")):
        assert "/home/" not in path.read_text("utf-8").replace("/home/agent", "")
