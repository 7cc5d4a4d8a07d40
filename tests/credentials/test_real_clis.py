"""Real CLIs with a user's credential: what is answered at the vendor's address is a script, all else is a real run."""

from __future__ import annotations

import json
import re
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from assay.model.events import Event
from assay.model.outcome import Ending
from assay.model.project import find_project
from assay.model.record import RunRecord
from assay.model.task import load_task
from assay.run import lifecycle, prepare
from assay.run.job import Job, Stop
from assay.run.record import read_record
from assay.sandbox import credentials
from assay.sandbox.credentials import Held
from assay.sandbox.engine import Engine
from assay.sandbox.fence import AT_ONCE
from tests.conftest import MakeProject
from tests.credentials.traces import Sampler, in_files, in_image, on_the_engine, written
from tests.project import Project

pytestmark = [pytest.mark.docker, pytest.mark.cli, pytest.mark.timeout(600)]

CODEX = json.loads((Path(__file__).parent / "codex-auth.json").read_text())
SPREAD = """
[[turn]]
shell = "env > env.txt; cat ~/.claude/.credentials.json ~/.codex/auth.json; env; env > ~/.cache-of-mine; echo spread"
"""
SCRIPTS = {
    "finished": f'{SPREAD}\n[[turn]]\ntext = "Done."\n',
    "api-error": f'{SPREAD}\n[[turn]]\nstatus = 401\nerror = "Incorrect API key provided: CANARY"\ntimes = 40\n',
    "timeout": f'{SPREAD}\n[[turn]]\nshell = "sleep 300"\n',
    "interrupted": f'{SPREAD}\n[[turn]]\nshell = "echo sleeping > sleeping; sleep 300"\n',
}


@dataclass
class Looker:
    """Stops a run once its agent has said something."""

    stop: Stop
    words: str | None = None
    said_: list[str] = field(default_factory=list)

    def began(self, record: RunRecord) -> None:
        """Not of interest."""

    def ended(self, record: RunRecord) -> None:
        """Not of interest."""

    def said(self, _: RunRecord, text: str) -> None:
        self.said_.append(text)

    def event(self, _: RunRecord, event: Event) -> None:
        if self.words is not None and self.words in str(event):
            self.words = None
            self.stop.ask("Ctrl-C")


def signed_in(here: Project, agent: str, kind: str) -> tuple[Held, list[str]]:
    """A user's credential, with values that are nowhere else."""
    registry = find_project(here.root).registry
    home, canary = Path(here.env["HOME"]), f"sk-canary-{uuid.uuid4().hex}"
    names = {"claude": "CLAUDE_CODE_OAUTH_TOKEN", "codex": "CODEX_API_KEY"}
    if kind == "env":
        return credentials.choose(agent, registry.agents[agent], {names[agent]: canary}, home, 600), [canary]
    refresh = f"rt-canary-{uuid.uuid4().hex}"
    if agent == "claude":
        ends = int((time.time() + 86400) * 1000)
        tokens = {"accessToken": canary, "refreshToken": refresh, "expiresAt": ends}
        content: dict[str, Any] = {"claudeAiOauth": {**tokens, "scopes": ["user:inference"], "subscriptionType": "max"}}
        path = home / ".claude/.credentials.json"
    else:
        head = CODEX["tokens"]["access_token"].rpartition(".")[0]
        canary = f"{head}.{uuid.uuid4().hex}"
        tokens = {**CODEX["tokens"], "access_token": canary, "refresh_token": refresh}
        content, path = {**CODEX, "tokens": tokens}, home / ".codex/auth.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return credentials.choose(agent, registry.agents[agent], {}, home, 600), [canary, refresh]


def prepared(here: Project, agent: str, held: Held, script: str, effort: str | None = None) -> Job:
    """The job of a real run, but for who answers at the vendor's address."""
    (here.root / "script.toml").write_text(script)
    project = find_project(here.root)
    choice = project.registry.validate_choice(agent, None, effort)
    job = prepare.check(project, load_task(here.root / "tasks/t"), choice, rehearse=str(here.root / "script.toml"))
    entry, source = choice.entry, held.source
    assert entry is not None
    assert entry.rehearsal is not None
    hosts = [*entry.rehearsal.hosts, *(source.hosts if source is not None else ())]
    entry = entry.model_copy(update={"rehearsal": entry.rehearsal.model_copy(update={"hosts": hosts})})
    job = replace(job, held=held, choice=replace(choice, entry=entry))
    engine = Engine.connect()
    with closing(engine.api):
        return prepare.build(engine, project, job, lambda _: None)


def perform(job: Job, *, until: str | None = None) -> tuple[RunRecord, list[str]]:
    stop, engine = Stop(), Engine.connect()
    watch = Looker(stop, until)
    with closing(engine.api), ThreadPoolExecutor(8) as pool:
        return lifecycle.perform(job, engine, watch, stop, pool), watch.said_


@pytest.mark.parametrize(
    ("kind", "end"), [("env", "finished"), ("env", "api-error"), ("file", "timeout"), ("file", "interrupted")]
)
def test_claudes_credential_is_in_no_trace(project: MakeProject, kind: str, end: str) -> None:
    here = project({"tasks/t/prompt.md": "Begin.", "tasks/t/checker/check.sh": "exit 0"})
    held, secrets = signed_in(here, "claude", kind)
    record = searched(here, "claude", held, secrets, end)
    if kind == "file":
        # It was there, as the CLI expects it, and Claude's own tools saw it: it was struck out of what they said.
        assert (record.secrets_redacted or 0) >= 2


def test_codex_key_is_in_no_trace(project: MakeProject) -> None:
    """The API's error names the key; Codex writes it to its own files as well."""
    here = project({"tasks/t/prompt.md": "Begin.", "tasks/t/checker/check.sh": "exit 0"})
    held, secrets = signed_in(here, "codex", "env")
    searched(here, "codex", held, secrets, "api-error")


def test_codex_sign_in_is_in_no_trace(project: MakeProject) -> None:
    """The script cannot speak for chatgpt.com as that is asked; however the run ends, nothing is left of the file."""
    here = project(
        {"tasks/t/prompt.md": "Begin.", "tasks/t/checker/check.sh": "exit 0", "assay.toml": "defaults.timeout = '60s'"}
    )
    held, secrets = signed_in(here, "codex", "file")
    searched(here, "codex", held, secrets, None)


def searched(here: Project, agent: str, held: Held, secrets: list[str], end: str | None) -> RunRecord:
    """Play a script to a CLI and look for its credential everywhere."""
    script = SCRIPTS[end or "finished"].replace("CANARY", secrets[0])
    job = prepared(here, agent, held, script)
    if end == "timeout":
        job = replace(job, settings=replace(job.settings, timeout=30))
    (here.root / "script.toml").unlink()
    needles = written(secrets)
    sampler = Sampler(needles, here.root)
    sampler.start()
    # The stand-in's own container is told what to say, the canary of the API error among it.
    record, said = perform(job, until="sleeping" if end == "interrupted" else None)
    sampler.stop()
    engine = Engine.connect()
    with closing(engine.api):
        try:
            if end is not None:
                assert record.ending == Ending(end), record.reason
            assert sampler.launched
            assert sampler.seen == []
            assert [needle for needle in needles if needle in repr(said).encode()] == []
            (here.runs[0] / "rehearsal.toml").unlink()
            assert in_files(needles, here.root / "runs") == []
            assert list(on_the_engine(needles, sampler.containers)) == []
            assert (record.snapshot is not None) is (end in ("interrupted", "api-error") or record.resumable)
            if record.snapshot is not None:
                assert in_image(needles, engine, record.snapshot, record.image) == []
        finally:
            if record.snapshot is not None:
                engine.remove_image(record.snapshot)
    return record


def requests(run: Path, kind: str | None = "main") -> list[dict[str, Any]]:
    asked = json.loads((run / "rehearsal.json").read_bytes())["requests"]
    return [request for request in asked if kind in (None, request["kind"])]


def test_a_cli_that_offers_the_web_all_the_same_is_stopped(project: MakeProject) -> None:
    here = project(
        {
            "tasks/t/prompt.md": "Begin.",
            "tasks/t/rehearsal.toml": '[[turn]]\nshell = "sleep 120"\n[[turn]]\ntext = "Done."\n',
            "agents.toml": "[agents.claude.launch]\noffline = []\n",
        }
    )
    out = here.run("run", "tasks/t", "--agent", "claude", "--rehearse", timeout=300)
    record = read_record(here.runs[0])
    assert record.ending is Ending.CRASHED, str(out)
    assert re.fullmatch("the CLI offers [WebFtchSar, ]+ although the run has no internet", record.reason or "")
    assert (record.times.seconds or 99) < 60


def test_a_level_that_was_not_asked_for_is_no_result(project: MakeProject) -> None:
    """A CLI whose launch line names another effort than the one chosen: the session file tells."""
    here = project(
        {
            "tasks/t/prompt.md": "Begin.",
            "tasks/t/checker/check.sh": "exit 0",
            "tasks/t/rehearsal.toml": '[[turn]]\ntext = "Done."\n',
            "agents.toml": '[agents.claude.launch]\neffort = ["--effort", "low"]\n',
        }
    )
    out = here.run("run", "tasks/t", "--agent", "claude", "--effort", "high", "--rehearse", timeout=300)
    record = read_record(here.runs[0])
    told = "effort high was asked for, the CLI used low"
    assert (record.ending, record.reason) == (Ending.CRASHED, told), str(out)
    assert record.verdict is None


MINE = {
    "CLAUDE_CODE_EFFORT_LEVEL": "max",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
    "ANTHROPIC_MODEL": "claude-mine",
    "ANTHROPIC_API_KEY": "sk-mine-0123456789",
    "AWS_SECRET_ACCESS_KEY": "canary-of-mine",
    "NODE_OPTIONS": "--inspect",
    "EDITOR": "canary-editor",
}


LOOK_AROUND = """
[[turn]]
shell = "env > env.txt"
[[turn]]
tool = "ToolSearch"
input = { query = "select:WebSearch,WebFetch", max_results = 5 }
[[turn]]
text = "Done."
"""


@pytest.fixture(scope="module")
def closed_and_opened(shared_project: MakeProject) -> tuple[Path, Path]:
    """Claude Code that looks around, with much in the user's environment: without internet at low effort, then with."""
    here = shared_project(
        {
            "tasks/t/prompt.md": "Begin.",
            "tasks/t/task.toml": '[env]\nTASKS_OWN = "yes"\n',
            "tasks/t/rehearsal.toml": LOOK_AROUND,
        }
    )
    rehearse = ("run", "tasks/t", "--agent", "claude", "--rehearse", "--effort")
    here.run(*rehearse, "low", env=MINE, timeout=300).assert_code(0)
    here.run(*rehearse, "high", "--internet", env=MINE, timeout=300).assert_code(0)
    closed, opened = here.runs
    return closed, opened


def test_the_web_is_offered_only_with_internet(closed_and_opened: tuple[Path, Path]) -> None:
    """Claude Code defers most tools: they are in a request once they were looked for."""
    closed, opened = ([set(request["tools"]) for request in requests(run)] for run in closed_and_opened)
    assert len(closed) == len(opened) == 3
    assert not {"WebSearch", "WebFetch"} & set.union(*closed)
    assert {"WebSearch", "WebFetch"} & opened[2]


def test_the_effort_reaches_the_vendor(closed_and_opened: tuple[Path, Path]) -> None:
    efforts = [{request["effort"] for request in requests(run)} for run in closed_and_opened]
    assert efforts == [{"low"}, {"high"}]


def test_nothing_of_the_users_environment_gets_in(project: MakeProject, closed_and_opened: tuple[Path, Path]) -> None:
    here = project({"tasks/t/prompt.md": "Begin.", "tasks/t/task.toml": '[env]\nTASKS_OWN = "yes"\n'})
    here.run("run", "tasks/t", "--agent", "script", "--command", "env > env.txt", env=MINE).assert_code(0)
    runs = (here.runs[0], *closed_and_opened)
    script, claude, opened = ((run / "left/env.txt").read_text().splitlines() for run in runs)
    known = {"HOME", "USER", "LANG", "PATH", "PWD", "TASKS_OWN", "SHLVL", "_", "OLDPWD", "HOSTNAME"}
    names = {line.partition("=")[0] for line in script if "=" in line}
    assert names - known == set(AT_ONCE)
    for lines in (script, claude):
        assert {f"{name}={value}" for name, value in AT_ONCE.items()} <= set(lines)
    for lines in (script, claude, opened):
        assert "TASKS_OWN=yes" in lines
        assert "HOME=/home/agent" in lines
        for name, value in MINE.items():
            assert f"{name}={value}" not in lines
        homes = (here.env["HOME"], str(closed_and_opened[0].parents[2] / "home"))
        assert not [line for line in lines if any(home in line for home in homes)]
