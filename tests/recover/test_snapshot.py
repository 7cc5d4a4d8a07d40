"""What a snapshot holds: the agent's work and its session, volumes beside it, and no credential anywhere."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import signal
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.project import Project
from tests.recover.conftest import MakeDrip
from tests.recover.drip import AGENT, KEY, RUN, eventually, on_engine, record, steps_of

pytestmark = pytest.mark.docker

DOCKERFILE = """FROM debian:bookworm-slim
RUN mkdir -p /data /home/agent/kept && echo given >/data/given && chmod 777 /data /home/agent/kept
VOLUME /data /home/agent/kept
"""


@contextlib.contextmanager
def engine() -> Iterator[docker.APIClient]:
    api = docker.APIClient(version="auto", timeout=60)
    try:
        yield api
    finally:
        api.close()


def interrupted(here: Project, steps: int = 2) -> Path:
    """A run that was stopped after some steps."""
    running = here.start(*RUN)
    eventually(lambda: here.runs and len(steps_of(here.runs[-1])) >= steps)
    running.signal(signal.SIGINT)
    running.finish().assert_code(130)
    return here.runs[-1]


def everything(image: str) -> bytes:
    """All that an image is made of: its configuration, its history, and every layer unpacked."""
    with engine() as api:
        told = json.dumps([api.inspect_image(image), api.history(image)]).encode()
        saved = b"".join(api.get_image(image))
    layers = [told]
    with tarfile.open(fileobj=io.BytesIO(saved)) as outer:
        for member in outer:
            file = outer.extractfile(member)
            layers.append(file.read() if file is not None else b"")
    return b"\n".join(layers)


def forms_of(secret: str) -> list[bytes]:
    """How a secret may be written."""
    plain = secret.encode()
    shifted = [base64.b64encode(b"\0" * shift + plain)[4:-4] for shift in range(3)]
    return [plain, *shifted]


@pytest.mark.timeout(120)
def test_no_key_anywhere(drip: MakeDrip) -> None:
    """An agent that writes its key to files of every kind: no layer, no configuration and no kept file has it."""
    here = drip("steps=12\ndelay=0.1\nleak=1\n")
    run = interrupted(here)
    held = everything(record(run)["snapshot"])
    for kept in (b"step 1", b"/.drip/settings", b"deep/er/notes"):
        assert kept in held, "the snapshot has what the agent did"
    for form in forms_of(KEY):
        assert form not in held, form
        for file in run.rglob("*"):
            assert not file.is_file() or form not in file.read_bytes(), file
    here.run("resume", "last", "-q").assert_code(0).assert_says("pass")


FILE_AGENT = AGENT.replace('env = "DRIP_KEY"', 'file = "~/.drip/auth.json"')


@pytest.mark.timeout(120)
def test_a_credential_file_is_emptied(drip: MakeDrip) -> None:
    here = drip("steps=100\ndelay=0.1\n", **{"agents.toml": FILE_AGENT})
    del here.env["DRIP_KEY"]
    home = Path(here.env["HOME"]) / ".drip/auth.json"
    home.parent.mkdir()
    home.write_text(json.dumps({"tokens": {"access_token": KEY, "account": "me"}}))
    run = interrupted(here)
    image = record(run)["snapshot"]
    with engine() as api:
        made = api.create_container(image, ["true"], entrypoint=[], labels={"assay-test": "1"})["Id"]
        stream, stat = api.get_archive(made, "/home/agent/.drip/auth.json")
        list(stream)
        api.remove_container(made, force=True)
    assert stat["size"] == 0
    held = everything(image)
    assert b"step 1" in held
    for form in forms_of(KEY):
        assert form not in held


VOLUME_AGENT_SETTINGS = "steps=30\ndelay=0.1\nvolume=1\n"


@pytest.mark.timeout(180)
def test_volumes_are_kept_beside_it(drip: MakeDrip) -> None:
    here = drip(VOLUME_AGENT_SETTINGS, **{"tasks/drip/Dockerfile": DOCKERFILE})
    run = interrupted(here)
    assert sorted(file.name for file in (run / "volumes").iterdir()) == ["0.tar.zst", "1.tar.zst"]
    running = here.start("resume", "last", "-q")
    eventually(lambda: [c for c in on_engine(here, role="agent") if c["State"] == "running"])
    with engine() as api:
        agent = on_engine(here, role="agent")[0]
        volumes = [mount["Name"] for mount in agent["Mounts"]]
        said = [read(api, agent["Id"], path) for path in ("/data/given", "/data/made", "/home/agent/kept/made")]
        running.finish().assert_code(0).assert_says("pass")
        assert said == [b"given\n", b"made\n", b"made\n"]
        assert len(volumes) == 2
        left: list[dict[str, Any]] = api.volumes()["Volumes"] or []
        assert not {volume["Name"] for volume in left} & set(volumes)


def read(api: docker.APIClient, container: str, path: str) -> bytes:
    """A file in a container."""
    stream, _ = api.get_archive(container, path)
    with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as tar:
        file = tar.extractfile(tar.getmembers()[0])
        return file.read() if file is not None else b""


@pytest.mark.timeout(90)
def test_snapshots_are_listed_and_cleaned(drip: MakeDrip) -> None:
    here = drip("steps=100\ndelay=0.1\n")
    run = interrupted(here)
    listed = here.run("ls", "--snapshots", "--json").json()
    assert [(one["run"], one["needed"]) for one in listed] == [(run.name, True)]
    here.run("clean", "--dry-run").assert_code(0).assert_says(f"left image snapshot of {run.name}")
    outcome = here.run("clean", "--snapshots", "--dry-run").assert_code(0)
    outcome.assert_says(f"would remove image snapshot of {run.name}")
    elsewhere = replace(here, root=here.root / "another")
    elsewhere.write({"assay.toml": ""})
    outcome = elsewhere.run("clean", "--snapshots", "--dry-run").assert_code(0)
    outcome.assert_says(f"left image snapshot of {run.name}", f"of {here.root}; --snapshots --all-projects removes it")
    outcome = elsewhere.run("clean", "--snapshots", "--all-projects", "--dry-run").assert_code(0)
    outcome.assert_says(f"would remove image snapshot of {run.name}")
    here.run("clean", "--all-projects").assert_refused("--all-projects widens --snapshots")
    assert here.run("ls", "--snapshots", "--json").json() == listed
    with engine() as api:
        api.remove_image(record(run)["snapshot"], force=True)
    here.run("resume", "last").assert_refused("snapshot", "no longer on the engine")
