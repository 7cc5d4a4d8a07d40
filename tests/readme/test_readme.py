"""Every command that the README shows is run, in its order; what it says of files and options is there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.model.task import CheckerSettings, TaskSettings
from assay.model.toml import parse_toml, validate
from tests.project import REPOSITORY, Project
from tests.suite.servers import TIME, time_server

MCP = "Test an MCP server in two minutes"
README = (REPOSITORY / "README.md").read_text("utf-8")
NEEDS_CREDENTIAL = "needs a credential"
NOT_RESUMABLE = "anything else is refused"


def part(title: str) -> str:
    """What stands below a heading."""
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def commands(text: str = README.replace(part(MCP), "")) -> list[str]:
    """Lines after `$ ` of every console block."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
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
        if NOT_RESUMABLE in said:
            here.run(*words[1:], timeout=600).assert_refused("cannot be resumed")
            cut_short(here)
        outcome = here.run(*words[1:], timeout=600)
        expected = re.search(r"exit (\d)", said)
        code = int(expected[1]) if expected else 2 if NEEDS_CREDENTIAL in said else 0
        outcome.assert_code(code)
        if NEEDS_CREDENTIAL in said:
            outcome.assert_says("no credential found", "CLAUDE_CODE_OAUTH_TOKEN")
        if NOT_RESUMABLE in said:
            outcome.assert_says("pass", "After all.")
    assert here.root != folder


CUT_SHORT = """
[[turn]]
limit = { resets_in = "1s" }

[[turn]]
text = "After all."
shell = "wc -l < data.txt | tr -d ' ' > answer.txt"

[[turn]]
text = "Done."
"""


def cut_short(here: Project) -> None:
    """A last run that can be gone on with: it met a limit, which is over by now."""
    here.write({"limit.toml": CUT_SHORT})
    words = ("run", "tasks/count-lines", "--agent", "claude", "--rehearse", "limit.toml")
    here.run(*words, timeout=600).assert_code(4).assert_says("session-limit", "to go on: assay resume")
    time.sleep(1)


@pytest.mark.timeout(900)
def test_an_mcp_server_is_tested(project: Callable[..., Project], monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite and the command are taken from the page, and the server from where the page has it installed."""
    page = part(MCP)
    suite = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    install, line = commands(page)
    assert install == f"pip install {TIME.partition('==')[0]}"
    monkeypatch.setenv("PATH", f"{Path(time_server()[0]).parent}:{os.environ['PATH']}")
    here = project({"time.toml": suite})
    assert shlex.split(line)[0] == "assay"
    here.run(*shlex.split(line)[1:], timeout=120).assert_code(0).assert_says("3/3 assertions passed", "PASS")
    here.write({"time.toml": suite.replace("T21:", "T22:")})
    here.run(*shlex.split(line)[1:], timeout=120).assert_code(1).assert_says("does not contain 'T22:00:00+09:00'")


def test_the_task_toml_says_all_that_one_can_say() -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```", part("A task"), re.MULTILINE | re.DOTALL)
    said = parse_toml(block.encode(), Path("README.md"))
    settings = validate(TaskSettings, said, Path("README.md"))
    assert settings.model_fields_set == set(TaskSettings.model_fields)
    assert settings.checker.model_fields_set == set(CheckerSettings.model_fields)


@pytest.mark.docker
@pytest.mark.cli
@pytest.mark.timeout(300)
def test_the_default_environment_holds_what_is_said(project: Callable[..., Project]) -> None:
    system, version, *tools = re.findall(r"in Debian (\d+) with Python ([\d.]+), (\w+), (\w+) and (\w+)\.", README)[0]
    here = project({"tasks/t/prompt.md": "Look."})
    command = f"cat /etc/debian_version; python3 --version; which {' '.join(tools)} && echo all there"
    outcome = here.run("run", "tasks/t", "--agent", "script", "--command", command, timeout=240).assert_code(0)
    outcome.assert_says(f"{system}.", f"Python {version}.", "all there")


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (REPOSITORY / target).exists(), target


@pytest.mark.parametrize("name", ["LICENSE", "assay.toml", "agents.toml", "tasks/hello", "scripts/bench"])
def test_the_top_level_is_as_described(name: str) -> None:
    assert (REPOSITORY / name).exists()


def test_no_line_of_it_names_a_machine() -> None:
    for path in (REPOSITORY / "README.md", *(Path(REPOSITORY) / "docs").glob("*.md")):
        assert "/home/" not in path.read_text("utf-8").replace("/home/agent", "")
