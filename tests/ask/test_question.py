"""Where a question comes from, who is asked, and what is refused before anything starts."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.ask.conftest import MakeRepository, write
from tests.conftest import MakeProject
from tests.project import COMMAND, Project

STAGE = """\
[ask]
exclude = ["big/"]

[stage.ask]
kind = "ask"
timeout = "5m"
rungs = [
  { agent = "claude", model = "claude-opus-5-5", effort = "high" },
  { agent = "codex", model = "gpt-6.2-sol", effort = "high" },
  { agent = "grok", model = "grok-4.6", effort = "low" },
]

[stage.prune]
rungs = [{ agent = "claude" }]
"""
CODEX, GROK = {"CODEX_API_KEY": "k" * 30}, {"XAI_API_KEY": "k" * 30}


@pytest.fixture
def here(project: MakeProject) -> Project:
    return project({"assay.toml": STAGE})


@pytest.fixture
def folder(repository: MakeRepository) -> Path:
    made = repository({"src/a.py": "x = 1\n", "big/blob": "x"})
    write(made, {".env": "S=1", "key.txt": "-----BEGIN PRIVATE KEY-----\n", "new\n.py": "x"})
    return made


def plan(here: Project, folder: Path, *words: str, env: dict[str, str] | None = None) -> dict[str, object]:
    outcome = here.run("ask", "--repo", str(folder), "--dry-run", "--json", *words, "Why?", env=env)
    found: dict[str, object] = outcome.assert_code(0).json()
    return found


def asked(here: Project, folder: Path, *words: str, env: dict[str, str] | None = None) -> list[tuple[str, str, str]]:
    listed = plan(here, folder, *words, env=env)["asked"]
    assert isinstance(listed, list)
    return [(one["agent"], one["model"], one["effort"]) for one in listed]


def test_a_dry_run_says_what_is_visible_and_by_whom(here: Project, folder: Path) -> None:
    outcome = here.run("ask", "--repo", str(folder), "--dry-run", "Why?", env=CODEX).assert_code(0)
    lines = outcome.out.splitlines()
    assert lines[:2] == ['"new\\n.py"', "src/a.py"]
    outcome.assert_says(
        "big/blob (excluded by big/)",
        ".env (may hold a secret)",
        "key.txt (is a private key)",
        "codex gpt-6.2-sol high",
        "api.openai.com",
        "none that is private",
        "CODEX_API_KEY",
    )
    assert "kkkk" not in outcome.out + outcome.err
    assert here.runs == []


def test_a_dry_run_without_a_credential_still_says_what_is_visible(here: Project, folder: Path) -> None:
    outcome = here.run("ask", "--repo", str(folder), "--dry-run").assert_code(2)
    assert "src/a.py" in outcome.out
    assert "nobody can be asked" in outcome.err


def test_the_first_with_a_credential_is_asked(here: Project, folder: Path) -> None:
    assert asked(here, folder, env={**CODEX, **GROK}) == [("codex", "gpt-6.2-sol", "high")]
    assert asked(here, folder, env=GROK) == [("grok", "grok-4.6", "low")]


def test_everyone_with_a_credential_is_asked(here: Project, folder: Path) -> None:
    found = plan(here, folder, "--all", env={**CODEX, **GROK})
    assert isinstance(found["asked"], list)
    assert [one["agent"] for one in found["asked"]] == ["codex", "grok"]
    assert isinstance(found["notes"], list)
    assert any(note.startswith("not asked: claude") for note in found["notes"])


@pytest.mark.parametrize(
    ("words", "who"),
    [
        (("--agent", "grok"), ("grok", "grok-4.6", "low")),
        (("--agent", "grok", "--effort", "high"), ("grok", "grok-4.6", "high")),
        (("--agent", "grok", "--model", "grok-4.5"), ("grok", "grok-4.5", None)),
        (("--model", "grok-4.6"), ("grok", "grok-4.6", "low")),
        (("--model", "gpt-5.5"), ("codex", "gpt-5.5", None)),
        (("--effort", "low"), ("codex", "gpt-6.2-sol", "low")),
        (("--agent", "gemini"), ("gemini", "gemini-2.5-flash", None)),
    ],
)
def test_the_command_line_overrides(
    here: Project, folder: Path, words: tuple[str, ...], who: tuple[str, str, str]
) -> None:
    env = {**CODEX, **GROK, "GEMINI_API_KEY": "k" * 30}
    assert asked(here, folder, *words, env=env) == [who]


def test_without_a_stage_the_first_agent_with_a_credential_is_asked(project: MakeProject, folder: Path) -> None:
    here = project()
    found = plan(here, folder, env=GROK)
    assert isinstance(found["asked"], list)
    assert [one["agent"] for one in found["asked"]] == ["grok"]
    assert found["asked"][0]["fence"] == "open"
    assert isinstance(found["notes"], list)
    assert any("no stage of asks" in note for note in found["notes"])


def test_a_stage_without_internet_keeps_the_fence_closed(project: MakeProject, folder: Path) -> None:
    here = project({"assay.toml": STAGE.replace('timeout = "5m"', "internet = false")})
    found = plan(here, folder, env=CODEX)
    assert isinstance(found["asked"], list)
    assert found["asked"][0]["fence"] == "closed"
    assert found["asked"][0]["connects_to"] == ["api.openai.com"]


def test_where_the_question_comes_from(here: Project, folder: Path) -> None:
    """Each is heard, and the run is refused only for want of a credential."""
    (here.root / "q.md").write_text("From a file?\n")
    for words, stdin in ((["Why?"], None), (["--file", "q.md"], None), (["-"], "From standard input?")):
        here.run("ask", "--repo", str(folder), *words, stdin=stdin).assert_refused("nobody can be asked")


@pytest.mark.parametrize(
    ("words", "stdin", "why"),
    [
        ([], None, "which question?"),
        ([""], None, "the question is empty"),
        (["-"], "  \n", "the question is empty"),
        (["/compact"], None, "slash command"),
        (["Why?", "--file", "q.md"], None, "contradict each other"),
        (["--file", "nowhere.md"], None, "cannot be read: no such file"),
        (["--file", "latin.md"], None, "not UTF-8"),
        (["Why?", "--repo", "nowhere"], None, "name a folder with --repo"),
        (["Why?", "--stage", "prune"], None, 'write kind = "ask"'),
        (["Why?", "--stage", "asks"], None, "did you mean 'ask'"),
        (["Why?", "--agent", "nop"], None, "answers no question"),
        (["Why?", "--agent", "cloude"], None, "did you mean 'claude'"),
        (["Why?", "--agent", "codex", "--effort", "hihg"], None, "did you mean 'high'"),
        (["Why?", "--model", "unheard-of"], None, "say --agent NAME too"),
        (["Why?", "--all", "--agent", "grok"], None, "contradict each other"),
        (["Why?", "--followup", "last", "--all"], None, "contradict each other"),
        (["Why?", "--followup", "last"], None, "there is no run"),
        (["Why?", "-o", "nowhere/a.md"], None, "folder that is not there"),
        (["Why?", "-o", "."], None, "is a folder"),
        (["Why?", "--all", "-o", "q.md"], None, "is a file"),
        (["Why?", "--timeout", "soon"], None, "soon"),
        (["Why?", "--agent", "claude", "--rehearse", "q.md"], None, "q.md"),
        (["Why?", "--history", "--repo", "sub"], None, "not the top folder"),
        (["Why?", "--repo", "sub"], None, "nothing to see"),
    ],
)
def test_refusals(here: Project, folder: Path, words: list[str], stdin: str | None, why: str) -> None:
    here.write({"q.md": "?", "latin.md": b"caf\xe9"})
    (here.root / "sub").mkdir()
    repo = [] if "--repo" in words or "--followup" in words else ["--repo", str(folder)]
    here.run("ask", *repo, *words, stdin=stdin).assert_refused(why)
    assert here.runs == []


def test_a_word_after_rehearse_is_the_question(here: Project, folder: Path) -> None:
    found = here.run("ask", "--repo", str(folder), "--dry-run", "--json", "--rehearse", "Does it work?").json()
    assert found["asked"][0]["rehearsal"]
    assert found["asked"][0]["credentials"] == []


def at_a_terminal(here: Project, editor: str, *words: str) -> tuple[int, str]:
    """Run `assay ask` with standard input a terminal; its exit code and what it says on standard error."""
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [COMMAND, "ask", *words],
            cwd=here.root,
            env={**here.env, "EDITOR": editor, "VISUAL": ""},
            stdin=theirs,
            capture_output=True,
            timeout=50,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    return done.returncode, done.stderr.decode()


def test_at_a_terminal_the_editor_opens(here: Project, folder: Path) -> None:
    here.write({"writes": '#!/bin/sh\necho seen >> opened\n{ echo \'Why?\'; cat "$1"; } > t && cat t > "$1"\n'})
    code, said = at_a_terminal(here, str(here.root / "writes"), "--repo", str(folder))
    assert (here.root / "opened").read_text() == "seen\n"
    assert code == 2
    assert "nobody can be asked" in said


@pytest.mark.parametrize("editor", ["true", "touch"])
def test_an_editor_that_writes_nothing_asks_nothing(here: Project, folder: Path, editor: str) -> None:
    code, said = at_a_terminal(here, editor, "--repo", str(folder))
    assert code == 2
    assert "no question was written" in said
