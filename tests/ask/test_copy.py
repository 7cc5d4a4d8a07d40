"""The copy on the engine: made once for each state, complete or nothing, and nobody inside can change it."""

from __future__ import annotations

import ipaddress
import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from assay.model.errors import EngineError
from assay.model.project import find_project
from assay.model.task import TaskSettings
from assay.run import ask, lifecycle, prepare
from assay.run.ask import Ask, ask_of, task_of
from assay.run.job import Job, Stop
from assay.run.repository import look
from assay.sandbox import volumes
from assay.sandbox.archive import END, TarReader
from assay.sandbox.engine import Engine
from assay.sandbox.spec import Spec
from tests.ask.conftest import MakeRepository, hash_of
from tests.ask.watching import Recorder

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

OURS = {"assay.test": "ask"}


def unheard(text: str) -> None:
    """Progress that nobody needs to hear."""


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.connect()


@pytest.fixture(scope="module")
def image(engine: Engine) -> str:
    """The environment of asks."""
    from assay.sandbox.images import Builder

    return Builder(engine, say=unheard).environment().id


@pytest.fixture
def copies(engine: Engine) -> Iterator[list[Ask]]:
    """Asks whose copies are removed afterwards."""
    made: list[Ask] = []
    yield made
    for one in made:
        volumes.remove(engine, one.volume)


def about(folder: Path, copies: list[Ask]) -> Ask:
    one = ask_of(look(folder), "Why?")
    copies.append(one)
    return one


def filled(engine: Engine, one: Ask, image: str, project: Path) -> list[str]:
    said: list[str] = []
    ask.fill(engine, one, image, project, said.append)
    return said


def holder(engine: Engine, one: Ask, image: str, use: str) -> str:
    """A container that has the copy mounted as an agent's has."""
    return engine.create(Spec(image, ["/"], f"assay-test-{use}-{one.volume[-8:]}", OURS, volumes=one.mounts))


def content(engine: Engine, one: Ask, image: str) -> dict[str, tuple[bytes, int, int]]:
    """What the copy holds: content, mode and owner of each name."""
    held = holder(engine, one, image, "look")
    try:
        _, chunks = engine.get(held, one.workdir)
        reader = TarReader(chunks)
        return {m.name.decode(): (b"".join(reader.content()), m.mode, m.uid) for m in reader}
    finally:
        engine.remove(held)


def test_a_second_ask_of_the_same_state_copies_nothing(
    engine: Engine, image: str, repository: MakeRepository, copies: list[Ask], tmp_path: Path
) -> None:
    folder = repository({"src/a.c": "int x;\n", "run.sh": "#!/bin/sh\n"})
    (folder / "run.sh").chmod(0o700)
    one = about(folder, copies)
    assert "making a copy of 2 files" in filled(engine, one, image, tmp_path)[0]
    assert filled(engine, about(folder, copies), image, tmp_path) == []
    held = content(engine, one, image)
    assert held["sample/src/a.c"] == (b"int x;\n", 0o644, 1000)
    assert held["sample/run.sh"][1:] == (0o700, 1000)


def test_a_changed_state_is_copied_and_the_old_copy_goes(
    engine: Engine, image: str, repository: MakeRepository, copies: list[Ask], tmp_path: Path
) -> None:
    folder = repository({"a.c": "1"})
    before = about(folder, copies)
    filled(engine, before, image, tmp_path)
    (folder / "a.c").write_text("2")
    after = about(folder, copies)
    assert filled(engine, after, image, tmp_path)
    assert content(engine, after, image)["sample/a.c"][0] == b"2"
    found = [v["Name"] for v in volumes.listed(engine, ask.LABEL)]
    assert after.volume in found
    assert before.volume not in found


def test_a_copy_in_use_is_left_alone(
    engine: Engine, image: str, repository: MakeRepository, copies: list[Ask], tmp_path: Path
) -> None:
    folder = repository({"a.c": "1"})
    before = about(folder, copies)
    filled(engine, before, image, tmp_path)
    held = holder(engine, before, image, "use")
    try:
        (folder / "a.c").write_text("2")
        filled(engine, about(folder, copies), image, tmp_path)
        ask.verify(engine, held, before)
    finally:
        engine.remove(held)


def test_half_a_copy_is_none(
    engine: Engine, image: str, repository: MakeRepository, copies: list[Ask], tmp_path: Path
) -> None:
    """Whoever filled it died on the way: it is made anew."""
    one = about(repository({"a.c": "1", "b.c": "1"}), copies)
    engine.api.create_volume(one.volume, labels={"assay": "1"})
    stale = {**OURS, "assay.volume": one.volume, "assay.role": "copy"}
    engine.create(Spec(image, ["/"], f"{one.volume}-copy", stale, volumes={volumes.MOUNT: (one.volume, "rw")}))
    assert filled(engine, one, image, tmp_path)
    assert set(content(engine, one, image)) == {"sample/", "sample/a.c", "sample/b.c"}
    assert engine.containers({"assay.volume": one.volume}) == []


def test_a_fill_that_fails_leaves_nothing_that_counts(
    engine: Engine, image: str, repository: MakeRepository, copies: list[Ask], tmp_path: Path
) -> None:
    one = about(repository({"a.c": "1"}), copies)

    def breaks(_: volumes.Copied) -> Iterator[bytes]:
        yield bytes(10)
        msg = "the disk is on fire"
        raise OSError(msg)

    with pytest.raises(EngineError, match="on fire"):
        volumes.ensure(engine, image, one.volume, {}, breaks, unheard, "x", container_labels=OURS)
    assert engine.containers({"assay.volume": one.volume}) == []
    assert filled(engine, one, image, tmp_path)


def test_a_copy_that_is_gone_is_never_taken_for_an_empty_repository(
    engine: Engine, image: str, repository: MakeRepository, copies: list[Ask]
) -> None:
    one = about(repository({"a.c": "1"}), copies)
    held = holder(engine, one, image, "gone")
    try:
        with pytest.raises(EngineError, match="removed meanwhile"):
            ask.verify(engine, held, one)
    finally:
        engine.remove(held)


def test_a_key_that_only_its_content_betrays_is_not_copied(
    engine: Engine, image: str, repository: MakeRepository, copies: list[Ask], tmp_path: Path
) -> None:
    one = about(repository({"a.c": "1", "notes": "-----BEGIN PRIVATE KEY-----\nMIIE\n"}), copies)
    filled(engine, one, image, tmp_path)
    assert set(content(engine, one, image)) == {"sample/", "sample/a.c"}


def script_job(folder: Path, root: Path, copies: list[Ask], command: str, user: str) -> Job:
    """An ask that runs a command instead of a CLI, as either user."""
    project = find_project(root)
    one = about(folder, copies)
    settings = TaskSettings.model_validate({"workdir": one.workdir, "user": user})
    task = replace(task_of(one, internet=True), settings=settings)
    job = prepare.check(project, task, project.registry.validate_choice("script"), command=command)
    return replace(job, ask=one, fence_mode="open", settings=replace(job.settings, internet=True))


@pytest.mark.parametrize("user", ["root", "agent"])
def test_not_even_root_changes_the_repository(
    engine: Engine, image: str, repository: MakeRepository, copies: list[Ask], tmp_path: Path, user: str
) -> None:
    attacks = Path(__file__).with_name("attacks.sh").read_text()
    folder = repository({"a.c": "int x;\n"})
    before = hash_of(folder)
    job = script_job(folder, tmp_path, copies, attacks, user)
    job = prepare.build(engine, find_project(tmp_path), job, unheard)
    held = content(engine, copies[0], image)
    with ThreadPoolExecutor(4) as pool:
        record = lifecycle.perform(job, engine, Recorder(), Stop(), pool)
    run = tmp_path / "runs" / record.id
    said = (run / "events.jsonl").read_text().splitlines()
    assert record.ending == "finished"
    assert said[0] == ("0" if user == "root" else "1000")
    tried = [line.partition(": ") for line in said[1:]]
    assert len(tried) == attacks.count("\ntry ")
    assert [name for name, _, how in tried if how != "refused"] == []
    assert (run / "left/tried").read_text() == "tried\n"
    assert content(engine, copies[0], image) == held
    assert held["sample/a.c"][0] == b"int x;\n"
    assert hash_of(folder) == before


REACHES = """
import socket, sys
for name, host, port in (("gateway", sys.argv[1], int(sys.argv[2])), ("metadata", "169.254.169.254", 80),
                         ("private", "10.0.0.1", 80), ("neighbour", sys.argv[3], 80)):
    try:
        socket.create_connection((host, port), timeout=10).close()
        print(name, "REACHED")
    except ConnectionRefusedError:
        print(name, "refused")
    except OSError as error:
        print(name, type(error).__name__)
"""


def test_nothing_private_can_be_reached(
    engine: Engine, repository: MakeRepository, copies: list[Ask], tmp_path: Path
) -> None:
    """The fence of an ask is open, and closed to the engine's host, on which something listens, and its networks."""
    bridge = engine.api.inspect_network("bridge")["IPAM"]["Config"][0]
    gateway = bridge.get("Gateway") or str(ipaddress.ip_network(bridge["Subnet"])[1])
    with socket.create_server(("0.0.0.0", 0)) as listening:
        port = listening.getsockname()[1]
        neighbour = str(ipaddress.ip_network(bridge["Subnet"])[2])
        command = f"python3 -c '{REACHES}' {gateway} {port} {neighbour}"
        job = script_job(repository({"a.c": "x"}), tmp_path, copies, command, "root")
        job = prepare.build(engine, find_project(tmp_path), job, unheard)
        with ThreadPoolExecutor(4) as pool:
            record = lifecycle.perform(job, engine, Recorder(), Stop(), pool)
        listening.settimeout(0.1)
        with pytest.raises(TimeoutError):
            listening.accept()
    said = (tmp_path / "runs" / record.id / "events.jsonl").read_text().splitlines()
    assert [line.split()[0] for line in said] == ["gateway", "metadata", "private", "neighbour"]
    assert [line for line in said if not line.endswith(" refused")] == []


def large(folder: Path) -> None:
    """A quarter of a gigabyte in few files."""
    block = os.urandom(1 << 20)
    for n in range(256):
        (folder / f"{n}.bin").write_bytes(block)


def many(folder: Path) -> None:
    """Twenty thousand files."""
    for n in range(20):
        (folder / f"d{n}").mkdir()
        for m in range(1000):
            os.close(os.open(f"{folder}/d{n}/f{m}", os.O_WRONLY | os.O_CREAT, 0o644))


ROUNDS = 5
"""At most, taken in turn; the best of each counts: others use this machine as well, and its speed drifts."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("make", [large, many])
def test_a_copy_costs_little_beyond_what_the_engine_takes_for_the_same_bytes(
    engine: Engine, image: str, copies: list[Ask], tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """Looking through the folder and a copy of it, against a bare upload; the second time costs a moment.

    A gigabyte in about ten seconds is what an engine does that takes 150 MB a second. The same bytes take it four times
    as long while others write to its disk, hence the slack.
    """
    folder = tmp_path / make.__name__
    folder.mkdir()
    make(folder)
    best = {"bare": float("inf"), "ours": float("inf"), "again": float("inf")}

    def timed(name: str, work: Callable[[], object]) -> None:
        began = time.monotonic()
        work()
        best[name] = min(best[name], time.monotonic() - began)

    things = about(folder, copies).repository
    assert things is not None
    data = b"".join(volumes.stream(things.things, 1000, volumes.Copied(), lambda _: False)) + END
    for n in range(ROUNDS):
        timed("bare", lambda: uploaded(engine, image, data))
        # Another state, which is another copy.
        (folder / "state").write_text(str(n))
        timed("ours", lambda: filled(engine, about(folder, copies), image, tmp_path))
        timed("again", lambda: filled(engine, about(folder, copies), image, tmp_path))
        if best["ours"] <= 4 * best["bare"] + 2 and best["again"] <= max(2.0, best["ours"] / 2):
            assert len(content(engine, about(folder, copies), image)) == len(things.things) + 2
            return
    pytest.fail(f"seconds: {best}")


def uploaded(engine: Engine, image: str, data: bytes) -> None:
    """The same with nothing but the engine's own interface: a volume, a container that mounts it, one upload."""
    api, name = engine.api, f"assay-test-{time.time_ns()}"
    api.create_volume(name)
    try:
        config = api.create_host_config(binds={name: {"bind": "/copy", "mode": "rw"}})
        made = api.create_container(image, ["/"], entrypoint=[], host_config=config, labels={"assay-test": "1"})["Id"]
        try:
            assert api.put_archive(made, "/copy", data)
        finally:
            api.remove_container(made, force=True)
    finally:
        api.remove_volume(name)
