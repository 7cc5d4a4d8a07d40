"""Starts the stand-in for a vendor's API in a container of its own, and reads what it was asked.

`create` returns as soon as the container was started, so that other work can go on while it comes up: its address is
known by then. `wait_ready` waits for the line that says it listens. Each of `hosts` is to be pinned to `address`, and
the client is to trust `ca_pem`.
"""

from __future__ import annotations

import json
import queue
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any

from assay.model.errors import EngineError, UsageError
from assay.rehearsal.report import Report, Request, judge, read
from assay.rehearsal.server import SPEAKERS
from assay.sandbox.archive import Put, TarReader, pack
from assay.sandbox.engine import Engine
from assay.sandbox.spec import Spec
from assay.sandbox.trust import issue

if TYPE_CHECKING:
    from assay.model.registry import Rehearsal
    from assay.rehearsal.script import Script

ROOT = "/standin"
RECORD = f"{ROOT}/record/requests.jsonl"
HOST_SIDE = ("vendor.py", "script.py", "report.py")
"""Modules that stay here; all others go into the container and need the standard library alone."""

USER = 65534
"""Nobody: it owns its record and can read its files, and nothing else."""

READY_SECONDS = 30.0
MEMORY = 256 << 20
PIDS = 256


@dataclass
class StandIn:
    """A stand-in that was started; it listens when `wait_ready` has returned.

    Attributes:
        hosts: The names to pin to `address`, an IPv4 address on the engine's default bridge.
        ca_pem: The authority that its client must trust, for these names only.
        turns: The script's turns in the plain form.
        first: The turn that it began with.
    """

    engine: Engine
    container: str
    hosts: tuple[str, ...]
    ca_pem: bytes
    turns: list[dict[str, Any]]
    first: int = 0
    address: str = ""
    _began: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue)

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Block until it listens.

        Raises:
            EngineError: It ended or did not listen in time; the message has what it printed. It is removed.
        """
        try:
            problem = self._began.get(timeout=seconds)
        except queue.Empty:
            problem = f"it does not listen after {seconds:g} s"
        if problem is None:
            return
        self.stop()
        msg = f"the stand-in for the API did not start: {problem}"
        raise EngineError(msg)

    def requests(self) -> list[Request]:
        """What it was asked so far; also after it was stopped, until it is removed."""
        _, stream = self.engine.get(self.container, RECORD)
        with stream:
            tar = TarReader(stream)
            return read(b"".join(chunk for _ in tar for chunk in tar.content()))

    def report(self) -> Report:
        """Judge the rehearsal by the requests so far."""
        return judge(self.requests(), self.turns, self.first)

    def stop(self) -> None:
        """Remove the container; its record goes with it."""
        self.engine.remove(self.container)

    def follow(self) -> None:
        """Take note of the address, and of the moment that it listens; called once, after the start."""
        threading.Thread(target=self._listen, name="stand-in log", daemon=True).start()
        try:
            self.address = self.engine.address(self.container)
        except EngineError:
            # It has none when it ended at once; then its own words say more.
            self.wait_ready()
            raise

    def _listen(self) -> None:
        """Follow its output until it says that it listens, or why not."""
        said = b""
        try:
            for stream, data in self.engine.log(self.container, follow=True):
                if stream == 1 and data.startswith(b"ready "):
                    self._began.put(None)
                    return
                said += data
            self._began.put(" ".join(said.decode("utf-8", "replace").split())[-400:] or "it ended without a word")
        except EngineError as error:
            self._began.put(str(error))


def create(
    engine: Engine,
    image: str,
    rehearsal: Rehearsal,
    script: Script,
    labels: Mapping[str, str],
    *,
    name: str | None = None,
    first: int = 0,
    bodies: bool = False,
) -> StandIn:
    """Create and start a stand-in without waiting for it to listen.

    Args:
        engine: Where it runs.
        image: An image with python3 (3.11 or newer).
        rehearsal: The agent's entry: protocol, pinned hosts, and how its shell tool is called.
        script: What it says.
        labels: Put on the container.
        name: Of the container.
        first: Turn to begin with, for a conversation that is resumed.
        bodies: Whether whole request bodies are recorded.

    Raises:
        UsageError: The script cannot be played on this agent.
        EngineError: The engine failed; nothing is left behind.
    """
    if rehearsal.api not in SPEAKERS:
        msg = f"no stand-in speaks {rehearsal.api!r}; this agent cannot be rehearsed ({', '.join(SPEAKERS)} can)"
        raise UsageError(msg)
    if script.uses_shell() and not rehearsal.shell:
        msg = "the script has shell steps, and the agent's entry has no rehearsal.shell that says how it runs them"
        raise UsageError(msg)
    trust = issue(rehearsal.hosts)
    config = configuration(rehearsal, script, first=first, bodies=bodies)
    container = engine.create(_spec(image, name, labels))
    stand_in = StandIn(engine, container, tuple(rehearsal.hosts), trust.ca_pem, config["script"]["turns"], first)
    try:
        engine.put(container, pack(_files(config, trust.cert_pem, trust.key_pem)))
        engine.start(container)
        stand_in.follow()
    except BaseException:
        stand_in.stop()
        raise
    return stand_in


def start(
    engine: Engine, image: str, rehearsal: Rehearsal, script: Script, labels: Mapping[str, str], **options: Any
) -> StandIn:
    """Create a stand-in and wait until it is ready; see `create`."""
    stand_in = create(engine, image, rehearsal, script, labels, **options)
    stand_in.wait_ready()
    return stand_in


def configuration(rehearsal: Rehearsal, script: Script, *, first: int = 0, bodies: bool = False) -> dict[str, Any]:
    """What the server is told; addresses and paths are those of its container."""
    return {
        "api": rehearsal.api,
        "hosts": rehearsal.hosts,
        "shell": [way.model_dump() for way in rehearsal.shell],
        "script": script.plain(),
        "first": first,
        "bodies": bodies,
        "address": "0.0.0.0",  # noqa: S104 - its own network namespace
        "port": 443,
        "cert": f"{ROOT}/cert.pem",
        "key": f"{ROOT}/key.pem",
        "record": RECORD,
    }


def _spec(image: str, name: str | None, labels: Mapping[str, str]) -> Spec:
    return Spec(
        image=image,
        argv=["python3", "-S", "-E", "-B", "-m", "assay.rehearsal.server", f"{ROOT}/play.json"],
        name=name or f"assay-standin-{secrets.token_hex(4)}",
        labels=labels,
        user=f"{USER}:{USER}",
        workdir=ROOT,
        network="bridge",
        memory=MEMORY,
        pids=PIDS,
        sysctls={"net.ipv4.ip_unprivileged_port_start": "0"},
    )


def _files(config: Mapping[str, Any], cert: bytes, key: bytes) -> list[Put]:
    package = resources.files("assay")
    modules = {"__init__.py": package / "__init__.py"}
    for file in (package / "rehearsal").iterdir():
        if file.name.endswith(".py") and file.name not in HOST_SIDE:
            modules[f"rehearsal/{file.name}"] = file
    return [
        Put(ROOT),
        Put(f"{ROOT}/record", owner=USER),
        Put(f"{ROOT}/assay"),
        Put(f"{ROOT}/assay/rehearsal"),
        *(Put(f"{ROOT}/assay/{name}", file.read_bytes(), 0o644) for name, file in modules.items()),
        Put(f"{ROOT}/cert.pem", cert, 0o644),
        Put(f"{ROOT}/key.pem", key, 0o400, USER),
        Put(f"{ROOT}/play.json", json.dumps(config).encode(), 0o644),
    ]
