"""Which credential can stay outside, said before anything is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import MakeProject
from tests.credentials.shelly import AGENT, put, sign_in

NO_ENGINE = {"DOCKER_HOST": "tcp://127.0.0.1:1"}
HOST = AGENT.replace("hosts = []", 'hosts = ["api.vendor.test"]')
INJECT = '\ninject = { headers = ["x-api-key"], paths = ["/v1/"] }'
ABLE = 'env = "SHELLY_TOKEN"' + INJECT
RUN = ("run", "tasks/t", "--agent", "shelly")


def files(agents: str, mode: str = "inject") -> dict[str, str]:
    return {"agents.toml": agents, "tasks/t/prompt.md": "true", "assay.toml": f'fence.mode = "{mode}"\n'}


def test_a_file_is_refused(project: MakeProject) -> None:
    here = project(files(HOST.replace('env = "SHELLY_TOKEN"', ABLE)))
    put(Path(here.env["HOME"]), sign_in())
    out = here.run(*RUN, env=NO_ENGINE)
    out.assert_refused("fence.mode", "inject", "~/.shelly/auth.json is a file", "set SHELLY_TOKEN, or write mode =")
    here.run(*RUN, "--dry-run", env=NO_ENGINE).assert_refused("~/.shelly/auth.json is a file")


def test_an_entry_that_does_not_say_how_is_refused(project: MakeProject) -> None:
    here = project(files(HOST))
    here.run(*RUN, env={**NO_ENGINE, "SHELLY_TOKEN": "t"}).assert_refused("no `inject`", "SHELLY_TOKEN", '"sni"')


def test_an_agent_without_a_host_is_refused(project: MakeProject) -> None:
    here = project(files(AGENT.replace('env = "SHELLY_TOKEN"', ABLE)))
    here.run(*RUN, env={**NO_ENGINE, "SHELLY_TOKEN": "t"}).assert_refused("no hosts", '"sni"')


def test_a_stage_is_refused_before_its_first_rung(project: MakeProject) -> None:
    stage = '[stage.s]\nrungs = [{ agent = "nop" }, { agent = "shelly" }]\n'
    here = project({**files(HOST), "assay.toml": f'fence.mode = "inject"\n{stage}'})
    out = here.run("run", "tasks/t", "--stage", "s", env={**NO_ENGINE, "SHELLY_TOKEN": "t"})
    out.assert_refused("stage 's', rung 2", "no `inject`")


def test_with_internet_the_fence_is_open_and_injects_nothing(project: MakeProject) -> None:
    here = project(files(HOST.replace('env = "SHELLY_TOKEN"', ABLE)))
    env = {**NO_ENGINE, "SHELLY_TOKEN": "t"}
    shown = [here.run(*RUN, "--dry-run", "--json", *more, env=env).json()["rungs"][0] for more in ((), ("--internet",))]
    assert [row["fence"] for row in shown] == ["inject", "open"]
    here.run(*RUN, "--dry-run", env=env).assert_code(0).assert_says("SHELLY_TOKEN (stays outside)")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ('file = "~/x"' + INJECT, ["credentials[0]", "inject is for a variable"]),
        (ABLE.replace("x-api-key", "X-Api-Key"), ["headers", "lower-case letters"]),
        (ABLE.replace("/v1/", "v1 %[x]"), ["paths", "'/', then letters"]),
        (ABLE.replace('["/v1/"]', "[]"), ["paths"]),
        (ABLE.replace(" }", ', placeholder = "a b" }'), ["placeholder", "letters, digits"]),
    ],
)
def test_an_entry_says_it_right_or_is_refused(project: MakeProject, wrong: str, words: list[str]) -> None:
    """What goes into the gate's configuration is letters that mean nothing there."""
    here = project(files(HOST.replace('env = "SHELLY_TOKEN"', wrong), mode="closed"))
    here.run(*RUN, env=NO_ENGINE).assert_refused("agents.toml", *words)


def test_the_registry_tells_who_can(project: MakeProject) -> None:
    here = project({})
    (row,) = here.run("registry", "codex", "--json").json()
    assert row["injected"] == ["CODEX_API_KEY"]
    assert "CODEX_API_KEY can stay outside" in here.run("registry", "codex").out
    assert json.loads(here.run("registry", "agy", "--json").out)[0]["injected"] == []
