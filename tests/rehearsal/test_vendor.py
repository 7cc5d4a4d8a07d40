"""The stand-in in its container: started, asked from another container, read, stopped."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator

import pytest

from assay.model.errors import EngineError
from assay.rehearsal.script import parse
from assay.rehearsal.vendor import StandIn, create, start
from assay.sandbox.archive import Put, pack
from assay.sandbox.base import BASE
from assay.sandbox.engine import Engine
from assay.sandbox.spec import Spec
from tests.rehearsal.loopback import HOST, REHEARSAL

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

SCRIPT = parse(b'[[turn]]\ntext = "hello from the stand-in"\n[[turn]]\ntext = "more"', "s.toml")

CLIENT = """
import json, sys, urllib.request
body = {"model": "m", "messages": [{"role": "user", "content": sys.argv[1]}], "tools": [{"name": "Bash"}]}
request = urllib.request.Request("https://api.anthropic.com/v1/messages", json.dumps(body).encode())
print(json.load(urllib.request.urlopen(request, timeout=20))["content"][0]["text"])
"""


@pytest.fixture
def labels(engine: Engine) -> Iterator[dict[str, str]]:
    """Labels of this test alone; no container that carries them may be left when it ends."""
    mine = {"assay.test": uuid.uuid4().hex}
    yield mine
    left = engine.containers(mine)
    for container in left:
        engine.remove(container["Id"])
    assert not left


def ask(engine: Engine, image: str, labels: dict[str, str], stand_in: StandIn, text: str) -> tuple[int | None, str]:
    """Ask from a container in which the pinned names lead to the stand-in, trusting its authority alone."""
    client = engine.create(
        Spec(
            image=image,
            argv=["python3", "-c", CLIENT, text],
            name=f"assay-test-{uuid.uuid4().hex[:8]}",
            labels=labels,
            env={"SSL_CERT_FILE": "/ca.pem"},
            network="bridge",
            hosts=dict.fromkeys(stand_in.hosts, stand_in.address),
        )
    )
    try:
        engine.put(client, pack([Put("ca.pem", stand_in.ca_pem, 0o644)]))
        engine.start(client)
        code = engine.wait(client)
        return code, b"".join(data for _, data in engine.log(client, follow=False)).decode()
    finally:
        engine.remove(client)


def test_it_plays_to_another_container(engine: Engine, image: str, labels: dict[str, str]) -> None:
    stand_in = create(engine, image, REHEARSAL, SCRIPT, labels)
    try:
        assert stand_in.hosts == (HOST,)
        stand_in.wait_ready()
        assert ask(engine, image, labels, stand_in, "the first") == (0, "hello from the stand-in\n")
        report = stand_in.report()
        assert [request.raw["last"] for request in report.requests] == ["the first"]
        assert report.problems == ["never reached: turn 2"]
        assert report.next_turn == 1
    finally:
        stand_in.stop()
    assert engine.containers(labels) == []
    stand_in.stop()


def test_it_runs_with_next_to_nothing(engine: Engine, image: str, labels: dict[str, str]) -> None:
    stand_in = start(engine, image, REHEARSAL, SCRIPT, labels)
    try:
        config = engine.inspect(stand_in.container)
        assert config["Config"]["User"] == "65534:65534"
        assert config["HostConfig"]["CapDrop"] == ["ALL"]
        assert not config["HostConfig"]["CapAdd"]
        assert config["HostConfig"]["Memory"] == 256 << 20
        assert config["HostConfig"]["PidsLimit"] == 256
        assert config["Config"]["Labels"].items() >= labels.items()
        # Neither key nor script is in what an inspection shows, and it can write nothing but its record.
        assert "PRIVATE" not in json.dumps(config)
        code, _ = engine.run_in(stand_in.container, ["sh", "-c", "echo x > /standin/play.json"], user="65534:65534")
        assert code != 0
    finally:
        stand_in.stop()


def test_a_conversation_can_be_taken_up_later(engine: Engine, image: str, labels: dict[str, str]) -> None:
    stand_in = start(engine, image, REHEARSAL, SCRIPT, labels, first=1)
    try:
        assert ask(engine, image, labels, stand_in, "go on") == (0, "more\n")
        assert stand_in.report().problems == []
    finally:
        stand_in.stop()


@pytest.mark.usefixtures("image")
def test_an_image_without_python_is_a_clear_error(engine: Engine, labels: dict[str, str]) -> None:
    with pytest.raises(EngineError, match=r"did not start: .*python3"):
        start(engine, BASE, REHEARSAL, SCRIPT, labels)


def test_one_that_never_listens_runs_into_the_clock(engine: Engine, image: str, labels: dict[str, str]) -> None:
    stand_in = create(engine, image, REHEARSAL, SCRIPT, labels)
    silent = StandIn(engine, stand_in.container, stand_in.hosts, stand_in.ca_pem, stand_in.turns)
    began = time.monotonic()
    with pytest.raises(EngineError, match="does not listen"):
        silent.wait_ready(0.3)
    assert time.monotonic() - began < 10
    assert engine.containers(labels) == []
