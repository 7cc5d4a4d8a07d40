"""`assay ask` with the real CLIs, in rehearsal: answered into a file, followed up, cut short and gone on with."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.model.registry import load_registry
from assay.sandbox.engine import Engine
from tests.ask.conftest import MakeRepository, forget, hash_of, write
from tests.conftest import MakeProject
from tests.project import Project

pytestmark = [pytest.mark.docker, pytest.mark.cli, pytest.mark.timeout(900)]

CLIS = ["claude", "codex", "grok"]

ASKED = """\
[[turn]]
text = "I will look."
shell = [
    "cat src/engine.py && ls -A",
    "sh -c 'echo changed > src/engine.py' || echo refused",
    "touch new || echo refused",
]
expect = ["def start", "refused", "refused"]

[[turn]]
shell = ["echo tried > /scratch/note && cat /scratch/note"]
expect = ["tried"]

[[turn]]
text = "# Opinion\\n\\nIt starts in `src/engine.py:1` and ends in src/engine.py:99; see also src/gone.py:3.\\n"
"""

FURTHER = """\
[[turn]]
shell = ["cat src/engine.py; cat /scratch/note"]
expect = ["def stop"]

[[turn]]
text = "Now it stops as well."
"""

WEB = """\
[[turn]]
tool = "WebSearch"
input = { query = "races" }

[[turn]]
text = "Searched."
"""

LIMITED = """\
[[turn]]
shell = ["ls"]
expect = ["src"]

[[turn]]
limit = { resets_in = "1s" }

[[turn]]
text = "Answered after all."
"""

SLOW = """\
[[turn]]
text = "This takes a while."
shell = ["echo under way; sleep 12"]
expect = ["under way"]

[[turn]]
text = "Answered while nobody looked on."
"""


@pytest.fixture
def here(project: MakeProject, tmp_path: Path) -> Iterator[Project]:
    """A project whose copies are removed afterwards."""
    scripts = {"asked": ASKED, "further": ASKED + "\n" + FURTHER, "web": WEB, "limited": LIMITED, "slow": SLOW}
    made = project({f"{name}.toml": text for name, text in scripts.items()})
    yield made
    made.close()
    forget(Engine.connect(), tmp_path)


@pytest.fixture
def folder(repository: MakeRepository) -> Path:
    """The repository that is asked about."""
    made = repository({"src/engine.py": "def start():\n    pass\n", "README.md": "# Engine\n", ".gitignore": "*.pyc\n"})
    write(made, {".env": "SECRET=hunter2\n", "new.py": "x = 1\n", "old.pyc": "x"})
    return made


def record(run: Path) -> dict[str, Any]:
    return tomllib.loads((run / "run.toml").read_text())


def requests(run: Path) -> list[dict[str, Any]]:
    """What the stand-in was asked."""
    found = json.loads((run / "rehearsal.json").read_bytes())
    assert found["problems"] == []
    return list(found["requests"])


@pytest.mark.parametrize("agent", CLIS)
def test_a_question_is_answered_into_a_file(here: Project, folder: Path, agent: str) -> None:
    before = hash_of(folder)
    outcome = here.run(
        "ask", "--repo", str(folder), "--agent", agent, "--rehearse", "asked.toml", "Where does it start?", timeout=800
    ).assert_code(0)
    assert hash_of(folder) == before
    run = here.runs[-1]
    answer = (run / "answer.md").read_text()
    assert answer.startswith("# Opinion\n")
    assert outcome.out == answer
    assert (run / "question.md").read_text() == "Where does it start?\n"
    assert "Where does it start?" in (run / "prompt.md").read_text()
    found = record(run)
    assert (found["ending"], found["fence"], found["verdict"]) == ("finished", "open", "none")
    assert found["repository"].startswith("assay-repository-")
    cited = json.loads((run / "citations.json").read_bytes())
    assert cited["cited"] == 3
    assert {dead["place"] for dead in cited["dead"]} == {"src/engine.py:99", "src/gone.py:3"}
    outcome.assert_says("cited and not there: src/gone.py:3", "by the stand-in's count" if agent == "claude" else "out")
    transcript = (run / "transcript.txt").read_text()
    assert "Read-only file system" in transcript
    assert "hunter2" not in transcript
    assert (run / "left/note").read_text() == "tried\n"
    offered = {tool for request in requests(run) for tool in request.get("tools") or ()}
    if agent == "claude":
        # It offers these to the model when they are looked for; its first line says that it has them.
        offered |= set(json.loads((run / "events.jsonl").read_text().splitlines()[0])["tools"])
    assert offered & set(load_registry().agents[agent].web_tools)


def test_the_vendor_is_asked_to_search(here: Project, folder: Path) -> None:
    here.run("ask", "--repo", str(folder), "--agent", "claude", "--rehearse", "web.toml", "Search.", timeout=800)
    run = here.runs[-1]
    assert (run / "answer.md").read_text() == "Searched.\n"
    assert any("web_search" in (request.get("tools") or ()) for request in requests(run))


@pytest.mark.parametrize("agent", CLIS)
def test_a_follow_up_goes_on_in_the_same_session(here: Project, folder: Path, agent: str) -> None:
    here.run(
        "ask", "--repo", str(folder), "--agent", agent, "--rehearse", "asked.toml", "And?", "-q", timeout=800
    ).assert_code(0)
    (folder / "src/engine.py").write_text("def start():\n    pass\n\n\ndef stop():\n    pass\n")
    outcome = here.run(
        "ask", "--followup", "last", "--rehearse", "further.toml", "Does it stop?", timeout=300
    ).assert_code(0)
    assert outcome.out == "Now it stops as well.\n"
    first, second = here.runs
    assert record(second)["session"] == record(first)["session"]
    assert record(second)["resumed_from"] == record(first)["id"]
    assert (second / "prompt.md").read_text().startswith("Does it stop?\n\n(The repository has changed")
    assert requests(second)[-1]["messages"] > 3
    shown = here.run("show", "last").assert_code(0).out
    places = [shown.index(words) for words in ("> And?", "# Opinion", "> Does it stop?", "Now it stops")]
    assert places == sorted(places)
    here.run("grade", "last").assert_refused("for you to judge")
    kept = here.run("ls", "--snapshots", "--json").assert_code(0).json()
    assert [one["run"] for one in kept] == [second.name], "only what can be followed up"
    told = here.run("show", "last", "--json").json()["conversation"]
    assert [one["question"] for one in told] == ["And?\n", "Does it stop?\n"]
    here.run("ask", "--followup", first.name, "Again?").assert_refused("followed up already", second.name)


def test_everyone_is_asked_and_one_cannot(here: Project, folder: Path) -> None:
    """Partial success is success, with a note."""
    here.write(
        {
            "assay.toml": (
                '[stage.ask]\nkind = "ask"\nrehearse = true\nrungs = [{ agent = "claude" }, { agent = "gone" },'
                ' { agent = "grok" }]\n'
            ),
            "agents.toml": broken_agent(),
        }
    )
    outcome = here.run(
        "ask", "--repo", str(folder), "--all", "--rehearse", "asked.toml", "-o", "answers", "Who?", timeout=800
    ).assert_code(0)
    assert outcome.out == ""
    names = sorted(path.name for path in (here.root / "answers").iterdir())
    assert names == ["answers.md", "claude-claude-sonnet-5-5.md", "grok-grok-4.6.md"]
    together = (here.root / "answers/answers.md").read_text()
    assert together.count("# Opinion") == 2
    assert "> Who?" in together
    assert "- `src/gone.py:3`: there is no such file" in together
    outcome.assert_says("gone 1.0: build failed", "side by side in answers/answers.md")


def broken_agent() -> str:
    """An entry like another, whose installation fails."""
    return """
[agents.gone]
title = "Gone"
version = "1.0"
decoder = "text"
hosts = ["api.example.com"]
default_model = "m"
install = { run = ["echo there is no such version >&2; exit 1"], check = ["true"] }
launch = { run = ["true"] }

[agents.gone.rehearsal]
api = "anthropic"
hosts = ["api.example.com"]
shell = [{ tool = "Bash", input = { command = "{command}" } }]
"""


def test_json_tells_everything(here: Project, folder: Path) -> None:
    lines = (
        here.run(
            "ask", "--repo", str(folder), "--agent", "claude", "--rehearse", "asked.toml", "--json", "Eh?", timeout=800
        )
        .assert_code(0)
        .json_lines()
    )
    assert {line["what"] for line in lines} >= {"began", "event", "ended", "answers"}
    last = lines[-1]
    assert last["exit_code"] == 0
    (answer,) = last["answers"]
    assert answer["answer"].startswith("# Opinion")
    assert answer["whole"]
    assert answer["cited"] == 3
    assert len(answer["dead"]) == 2
    assert answer["seconds"] > 0
    assert answer["tokens"]["output"] > 0


def test_a_limit_stops_it_and_resume_answers(here: Project, folder: Path) -> None:
    outcome = here.run(
        "ask", "--repo", str(folder), "--agent", "claude", "--rehearse", "limited.toml", "Well?", timeout=800
    ).assert_code(4)
    outcome.assert_says("session-limit", "to go on: assay resume")
    assert not (here.runs[-1] / "answer.md").exists()
    here.run("resume", "last", "--force", timeout=300).assert_code(0)
    assert (here.runs[-1] / "answer.md").read_text() == "Answered after all.\n"
    told = here.run("show", "last", "--json").json()["conversation"]
    assert told[-1]["answer"] == "Answered after all.\n"


def test_a_killed_ask_is_recovered_with_its_answer(here: Project, folder: Path) -> None:
    running = here.start("ask", "--repo", str(folder), "--agent", "claude", "--rehearse", "slow.toml", "Slow?")
    running.wait_for("sleep 12", 600)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.process.pid, signal.SIGKILL)
    running.process.wait(10)
    here.run("recover", timeout=300).assert_code(0)
    assert (here.runs[-1] / "answer.md").read_text() == "Answered while nobody looked on.\n"
    assert record(here.runs[-1])["ending"] == "finished"


def test_an_interrupted_ask_is_130(here: Project, folder: Path) -> None:
    running = here.start("ask", "--repo", str(folder), "--agent", "claude", "--rehearse", "slow.toml", "Slow?")
    running.wait_for("sleep 12", 600)
    running.signal(signal.SIGINT)
    running.finish(120).assert_code(130)
    assert record(here.runs[-1])["resumable"]


def test_from_within_the_repository_its_own_runs_are_no_part_of_it(here: Project, folder: Path) -> None:
    """No assay.toml: the repository is where one stands, and runs are kept in it."""
    inside = Project(folder, here.env)
    inside.write({"s.toml": '[[turn]]\nshell = ["ls -A"]\nexpect = ["src"]\n\n[[turn]]\ntext = "Seen."\n'})
    for _ in range(2):
        inside.run("ask", "--agent", "claude", "--rehearse", "s.toml", "-q", "See?", timeout=800).assert_code(0)
    seen = {(run / "repository.json").read_text() for run in inside.runs}
    assert len(seen) == 1, "the second ask saw the same state"
    assert "runs" not in (inside.runs[-1] / "transcript.txt").read_text().split()
