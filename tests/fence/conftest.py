"""A laboratory: the fence's image, a container full of attackers' tools, a pretend internet, a neighbour, a host."""

from __future__ import annotations

import contextlib
import io
import tarfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from assay.run.launch import ROOT_CAPS
from assay.sandbox import fence_image
from assay.sandbox.base import BASE, ensure_image
from assay.sandbox.build import build_once
from assay.sandbox.engine import Engine
from assay.sandbox.fence import Fence
from assay.sandbox.recipe import Host, Recipe
from assay.sandbox.rules import CLOSED, Pin
from assay.sandbox.seccomp import profile
from assay.sandbox.spec import Spec
from tests.fence.outside import Outside, host_service, standing

HERE = Path(__file__).parent
SLOT = "assay.test.slot"
"""Label of all that one slot's session makes; what a killed one left is taken away by the next."""

ASLEEP = ("sleep", "600")


def name() -> str:
    return f"assay-test-{uuid.uuid4().hex[:10]}"


@dataclass
class Lab:
    """All that stands for the whole session, and what makes fences and containers in it."""

    engine: Engine
    image: str
    tools: str
    outside: Outside
    host_port: int
    gateway: str
    sibling: str
    network6: str

    @property
    def labels(self) -> dict[str, str]:
        return {SLOT: str(self.outside.slot)}

    @contextlib.contextmanager
    def bridge(self, *, internal: bool = False) -> Iterator[str]:
        """A network of the engine's own."""
        labels = {"assay": "1", **self.labels}
        made = self.engine.api.create_network(name(), driver="bridge", internal=internal, labels=labels)["Id"]
        try:
            yield made
        finally:
            self.engine.api.remove_network(made)

    @property
    def pins(self) -> tuple[Pin, ...]:
        """The vendor; private, because nothing in the pretend internet is global."""
        return (Pin("api.vendor.test", (self.outside.vendor, self.outside.vendor6), private=True),)

    def places(self) -> dict[str, object]:
        out = self.outside
        return {
            "other": out.other,
            "other6": out.other6,
            "vendor": out.vendor,
            "host": out.host,
            "port": self.host_port,
            "gateway": self.gateway,
            "sibling": self.sibling,
        }

    @contextlib.contextmanager
    def fence(self, mode: str = CLOSED, pins: Sequence[Pin] | None = None, **more: object) -> Iterator[Fence]:
        """A fence that stands; gone at the end."""
        with self.unready(mode, pins, **more) as fence:
            fence.ready()
            yield fence

    @contextlib.contextmanager
    def unready(self, mode: str = CLOSED, pins: Sequence[Pin] | None = None, **more: object) -> Iterator[Fence]:
        """A fence that was told to stand."""
        image = str(more.pop("image", self.image))
        pins = self.pins if pins is None else pins
        fence = Fence(self.engine, image, pins, mode, name=name(), labels=self.labels, **more)  # type: ignore[arg-type]
        fence.create()
        try:
            fence.start()
            yield fence
        finally:
            fence.stop()

    @contextlib.contextmanager
    def container(
        self,
        network: str,
        argv: Sequence[str] = ASLEEP,
        *,
        user: str = "0:0",
        caps: Sequence[str] | None = None,
        seccomp: str | None = None,
        env: Mapping[str, str] | None = None,
        dns: Sequence[str] = (),
        start: bool = True,
    ) -> Iterator[str]:
        """A container with the tools; root has the capabilities that a task's root gets."""
        granted = caps if caps is not None else ROOT_CAPS if user == "0:0" else ()
        made = self.engine.create(
            Spec(
                image=self.tools,
                argv=argv,
                name=name(),
                labels=self.labels,
                network=network,
                user=user,
                caps=granted,
                env={"HOME": "/tmp", "LC_ALL": "C.UTF-8", **(env or {})},
                seccomp=seccomp,
                dns=dns,
            )
        )
        try:
            self.engine.put(made, tar({"ca.pem": self.outside.ca}))
            if start:
                self.engine.start(made)
            yield made
        finally:
            self.engine.remove(made)

    def agent(
        self, fence: Fence, argv: Sequence[str] = ASLEEP, **more: object
    ) -> contextlib.AbstractContextManager[str]:
        """A container behind the fence, as a run's is made."""
        return self.container(fence.network, argv, seccomp=profile(), **more)  # type: ignore[arg-type]

    def shell(self, container: str, script: str) -> str:
        """What a shell in the container prints, errors included."""
        return self.engine.run_in(container, ["bash", "-c", f"exec 2>&1; {script}"])[1].decode("utf-8", "replace")

    def output(self, container: str) -> str:
        """All that a container printed, once it has ended."""
        self.engine.wait(container)
        return b"".join(data for _, data in self.engine.log(container, follow=False)).decode("utf-8", "replace")


def tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def tools_recipe(base: str) -> Recipe:
    files = {name: (HERE / name).read_bytes() for name in ("node.txt", "sockets.py")}
    text = (HERE / "Dockerfile").read_text()
    return Recipe("attackers' tools", "assay-test-tools", text, files, args={"BASE": BASE}, bases={BASE: base})


@pytest.fixture(scope="session")
def engine() -> Engine:
    return Engine.connect()


@pytest.fixture(scope="session")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    with standing(tmp_path_factory.mktemp("outside")) as there:
        yield there


@pytest.fixture(scope="session")
def network6(engine: Engine, outside: Outside) -> Iterator[str]:
    """A network of the engine's that has IPv6."""
    for left in engine.containers({SLOT: str(outside.slot)}):
        engine.remove(left["Id"])
    for left in engine.api.networks(filters={"label": f"{SLOT}={outside.slot}"}):
        engine.api.remove_network(left["Id"])
    prefix = f"fd00:db8:f:{outside.slot:x}"
    pool = {"Subnet": f"{prefix}::/64", "Gateway": f"{prefix}::1"}
    config = {"Driver": "default", "Config": [{"Subnet": f"10.213.{outside.slot}.0/24"}, pool]}
    labels = {"assay": "1", SLOT: str(outside.slot)}
    made = engine.api.create_network(name(), driver="bridge", ipam=config, enable_ipv6=True, labels=labels)
    yield str(made["Id"])
    engine.api.remove_network(made["Id"])


@pytest.fixture(scope="session")
def lab(engine: Engine, outside: Outside, network6: str) -> Iterator[Lab]:
    base = ensure_image(engine, BASE, print, make=True)
    host = Host.read()
    image = fence_image.ensure(engine, print, host)
    tools = build_once(engine, tools_recipe(base), print, host)
    gateway = engine.api.inspect_network("bridge")["IPAM"]["Config"][0].get("Gateway", "172.17.0.1")
    with host_service(gateway, outside.host) as port:
        lab = Lab(engine, image, tools, outside, port, gateway, "", network6)
        with lab.container("bridge", ("python3", "-m", "http.server", "8080")) as sibling:
            lab.sibling = engine.address(sibling)
            yield lab
