"""During a long run the vendor's names are looked up again and again; what they have come to mean is pinned too.

The program runs as it is, but for two things: a look-up is due at once instead of after five minutes, and names under
`.test` mean what a file says.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.credentials.shelly import AGENT, task
from tests.project import Project
from tests.recover.drip import eventually

pytestmark = [pytest.mark.docker, pytest.mark.timeout(90)]

NAME, FIRST, SECOND = "api.vendor.test", "8.8.4.4", "8.8.8.8"

OWN_NAMES = f"""
import pathlib, socket
from assay.run import place

place.LOOK_UP_SECONDS = 0.2
system = socket.getaddrinfo
names = pathlib.Path(__file__).with_name("names")

def getaddrinfo(host, port, *args, **more):
    if host != "{NAME}":
        return system(host, port, *args, **more)
    addresses = names.read_text().split()
    if not addresses:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

socket.getaddrinfo = getaddrinfo
"""

WAIT = f"""
shown() {{ getent ahosts {NAME} | cut -d' ' -f1 | sort -u | tr '\\n' ' '; }}
echo "first $(shown)"
for k in $(seq 600); do [ "$(shown)" = "{FIRST} {SECOND} " ] && break; sleep .1; done
echo "then $(shown)"
"""

MakeProject = Callable[..., Project]


@pytest.fixture
def here(project: MakeProject, tmp_path: Path) -> Project:
    made = project(task(WAIT, **{"agents.toml": AGENT.replace("hosts = []", f'hosts = ["{NAME}"]')}))
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text(OWN_NAMES)
    (own / "names").write_text(FIRST)
    made.env |= {"PYTHONPATH": str(own), "SHELLY_TOKEN": "dummy-token-of-shelly"}
    return made


def name_means(here: Project, addresses: str) -> None:
    names = Path(here.env["PYTHONPATH"]) / "names"
    fresh = names.with_suffix(".new")
    fresh.write_text(addresses)
    fresh.rename(names)


def looked_up(here: Project) -> list[dict[str, Any]]:
    lines = (here.runs[0] / "harness.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["event"] == "looked up again"]


def test_an_address_that_comes_later_is_pinned_while_the_agent_works(here: Project) -> None:
    running = here.start("run", "tasks/t", "--agent", "shelly")
    running.wait_for(f"first {FIRST}", 60)
    name_means(here, SECOND)
    running.finish().assert_code(0).assert_says(f"then {FIRST} {SECOND}")
    assert looked_up(here)[0]["added"] == {NAME: [SECOND]}


@pytest.mark.parametrize(("meanwhile", "told"), [("", "Temporary failure"), (f"{SECOND} 10.0.0.1", "10.0.0.1")])
def test_a_name_that_means_nothing_usable_for_a_while_does_no_harm(here: Project, meanwhile: str, told: str) -> None:
    running = here.start("run", "tasks/t", "--agent", "shelly")
    running.wait_for(f"first {FIRST}", 60)
    name_means(here, meanwhile)
    eventually(lambda: looked_up(here))
    before = looked_up(here)[0]
    assert before["added"] == {}
    assert told in str(before["notes"])
    name_means(here, SECOND)
    running.finish().assert_code(0).assert_says(f"then {FIRST} {SECOND}")


def test_a_fence_that_cannot_take_an_address_in_ends_the_run(here: Project) -> None:
    running = here.start("run", "tasks/t", "--agent", "shelly")
    running.wait_for(f"first {FIRST}", 60)
    import docker

    api = docker.APIClient(version="auto", timeout=60)
    try:
        wanted = [f"assay.project={here.root}", "assay.role=fence"]
        fence = api.containers(filters={"label": wanted})[0]["Id"]
        made = api.exec_create(fence, ["ln", "-sf", "/bin/false", "/usr/sbin/iptables-nft-restore"])
        api.exec_start(made["Id"])
    finally:
        api.close()
    name_means(here, SECOND)
    running.finish().assert_code(3).assert_says("the fence")
