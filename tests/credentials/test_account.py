"""A renewable sign-in: one run at a time, given back with care, and never lost when a harness is killed."""

from __future__ import annotations

import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from assay.model.outcome import Ending
from assay.run.record import read_record
from tests.conftest import MakeProject
from tests.credentials import shelly
from tests.credentials.shelly import put, sign_in, task
from tests.credentials.traces import in_files, written
from tests.project import Project

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]

RUN = ("run", "tasks/t", "--agent", "shelly")


def home(here: Project) -> Path:
    return Path(here.env["HOME"])


def writes(content: Any, path: str = f"~/{shelly.FILE}") -> str:
    text = content if isinstance(content, str) else json.dumps(content)
    return f"printf %s {shlex.quote(text)} >{path}\n"


def harness_said(here: Project) -> str:
    return "".join((run / "harness.jsonl").read_text() for run in here.runs)


def renewed(old: dict[str, Any]) -> dict[str, Any]:
    return sign_in("two", "2026-11-30T13:00:00Z", old["tokens"]["account_id"])


def test_a_renewal_goes_back_and_is_kept_nowhere(project: MakeProject) -> None:
    old = sign_in()
    new = renewed(old)
    # It is printed before the harness can know it.
    here = project(task(f"cat ~/{shelly.FILE}\n{writes(new)}cat ~/{shelly.FILE}; cp ~/{shelly.FILE} kept.json\n"))
    path = put(home(here), old)
    here.run(*RUN).assert_code(0)
    assert json.loads(path.read_text()) == new
    assert path.stat().st_mode & 0o777 == 0o600
    tokens = [t for file in (old, new) for name, t in file["tokens"].items() if name != "account_id"]
    # The prompt names the new ones itself.
    (here.runs[0] / "prompt.md").unlink()
    assert in_files(written(tokens), here.root / "runs") == []
    assert (here.runs[0] / "events.jsonl").read_bytes().count(b"*" * len(new["tokens"]["access_token"])) >= 1


@pytest.mark.parametrize("how", [["--json"], []])
def test_a_renewal_is_not_shown_either(project: MakeProject, how: list[str]) -> None:
    """Whoever looks on sees no token that the CLI has just got, neither on its own nor in base64."""
    here = project(
        task(
            "new=$(cat ~/.shelly/auth.json | tr 0123456789 1234567890); cat ~/.shelly/auth.json; echo first\n"
            'printf %s "$new" >~/.shelly/auth.json; cat ~/.shelly/auth.json; echo; cat ~/.shelly/auth.json >&2\n'
            "token=$(sed 's/.*refresh_token.: .\\([^\"]*\\).*/\\1/' ~/.shelly/auth.json)\n"
            'printf %s "$token" | base64 -w0; echo; echo "renewed: $token"; printf %s "the end: $token"\n'
        )
    )
    old = sign_in()["tokens"]
    put(home(here), {"tokens": old, "last_refresh": "2026-11-30T12:00:00Z"})
    out = here.run(*RUN, *how).assert_code(0).assert_says("renewed: ***", "the end: ***")
    turned = str.maketrans("0123456789", "1234567890")
    tokens = [old[name].translate(turned) for name in ("access_token", "refresh_token")]
    assert [token for token in written([*tokens, old["refresh_token"]]) if token in (out.out + out.err).encode()] == []
    assert in_files(written(tokens), here.root) == []


def test_the_users_file_may_be_a_link(project: MakeProject) -> None:
    old = sign_in()
    here = project(task(writes(renewed(old))))
    path = put(home(here), old)
    path.rename(home(here) / "elsewhere.json")
    path.symlink_to(home(here) / "elsewhere.json")
    here.run(*RUN).assert_code(0)
    assert path.is_symlink()
    assert "access-two" in path.read_text()


REFUSED = {
    "a link": f"rm ~/{shelly.FILE}; printf %s '{{}}' >x; ln -s /app/x ~/{shelly.FILE}\n",
    "a folder": f"rm ~/{shelly.FILE}; mkdir ~/{shelly.FILE}\n",
    "a pipe": f"rm ~/{shelly.FILE}; mkfifo ~/{shelly.FILE}\n",
    "gone": f"rm ~/{shelly.FILE}\n",
    "too long": f"yes | head -c 70000 >~/{shelly.FILE}\n",
    "too deep": f"yes '[' | tr -d '\\n' | head -c 60000 >~/{shelly.FILE}\n",
    "another account": "ACCOUNT",
}


@pytest.mark.parametrize("script", REFUSED.values(), ids=REFUSED)
def test_what_an_agent_made_of_it_does_not_go_back(project: MakeProject, script: str) -> None:
    old = sign_in()
    script = writes(sign_in("mine", "2026-11-30T13:00:00Z", "acct-mine")) if script == "ACCOUNT" else script
    here = project(task(script))
    path = put(home(here), old)
    before = path.read_bytes()
    here.run(*RUN).assert_code(0)
    assert path.read_bytes() == before
    assert f"~/{shelly.FILE} was changed in the container and not copied back: " in harness_said(here)


def test_a_file_that_changed_meanwhile_stays(project: MakeProject) -> None:
    old = sign_in()
    here = project(task(f"{writes(renewed(old))}echo begun; while [ ! -e go ]; do sleep 0.1; done\n"))
    path = put(home(here), old)
    running = here.start(*RUN, "--timeout", "6s")
    running.wait_for("begun")
    mine = put(home(here), sign_in("mine", "2026-11-30T14:00:00Z")).read_bytes()
    running.finish()
    assert path.read_bytes() == mine
    assert "changed meanwhile" in harness_said(here)


def test_runs_take_turns_and_each_has_the_newest(project: MakeProject) -> None:
    """Three runs at once: each finds the number that the one before it left, and writes the next."""
    script = f"""
    f=~/{shelly.FILE}
    n=$(sed 's/.*access-\\([0-9]*\\)-.*/\\1/' $f)
    sleep 1
    sed -i "s/access-$n-/access-$((n + 1))-/; s/refresh-$n-/refresh-$((n + 1))-/; s/12:00:0$n/12:00:0$((n + 1))/" $f
    echo "had $n"
    """
    stage = '[stage.s]\njobs = 3\nrungs = [{ agent = "shelly", runs = 3 }]\n'
    here = project(task(script, **{"assay.toml": stage}))
    path = put(home(here), sign_in("1", "2026-11-30T12:00:01Z"))
    here.run("run", "tasks/t", "--stage", "s", timeout=120).assert_code(0)
    assert "access-4-" in path.read_text()
    had = sorted((run / "transcript.txt").read_text().strip() for run in here.runs)
    assert had == ["had 1", "had 2", "had 3"]
    assert "can be used by one at a time" in harness_said(here)


def test_a_variable_is_anyones(project: MakeProject) -> None:
    """Nothing is renewed: runs go side by side."""
    stage = '[stage.s]\njobs = 2\nrungs = [{ agent = "shelly", runs = 2 }]\n'
    here = project(task("sleep 1", **{"assay.toml": stage}))
    here.run("run", "tasks/t", "--stage", "s", env={"SHELLY_TOKEN": "t-0123456789"}).assert_code(0)
    assert "one at a time" not in harness_said(here)
    first, second = (read_record(run).times for run in here.runs)
    assert first.started
    assert first.ended
    assert second.started
    assert second.ended
    assert second.started < first.ended
    assert first.started < second.ended


def test_one_that_waits_can_be_stopped(project: MakeProject) -> None:
    here = project(task("echo begun; sleep 60"))
    put(home(here), sign_in())
    first = here.start(*RUN)
    first.wait_for("begun")
    second = here.start(*RUN)
    second.wait_for("can be used by one at a time")
    second.signal(signal.SIGINT)
    second.finish(20).assert_code(130)
    first.signal(signal.SIGINT)
    first.finish(40).assert_code(130)
    one, two = (read_record(run) for run in here.runs)
    assert (one.ending, two.ending) == (Ending.INTERRUPTED, Ending.INTERRUPTED)
    assert two.times.started is None


def test_a_killed_harness_is_recovered_first_and_its_renewal_goes_back(project: MakeProject) -> None:
    old = sign_in()
    new = renewed(old)
    here = project(task(f"{writes(new)}echo begun; sleep 5\n"))
    path = put(home(here), old)
    running = here.start(*RUN)
    running.wait_for("begun")
    os.killpg(running.process.pid, signal.SIGKILL)
    running.finish()
    refused = here.run(*RUN)
    assert refused.code != 0
    refused.assert_says(here.runs[0].name, "was killed while it used the same sign-in", "assay recover")
    assert json.loads(path.read_text()) == old
    here.run("recover", timeout=90)
    assert json.loads(path.read_text()) == new
    here.write({"tasks/t/prompt.md": "true"})
    here.run(*RUN).assert_code(0)
