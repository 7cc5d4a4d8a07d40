"""Starts the stand-in for a vendor's API in a container of its own, and reads what it was asked.

stand_in = create(engine, image, rehearsal, script, labels)   # container, files, start: returns at once
…                                                             # other work goes on meanwhile
stand_in.wait_ready()
… pin each of `stand_in.hosts` to `stand_in.address`, trust `stand_in.ca_pem` …
report = stand_in.report()
stand_in.stop()
"""

from __future__ import annotations

import json
import queue
import secrets
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any

from assay.model.errors import AssayError, EngineError, UsageError
from assay.rehearsal.trust import issue
from assay.sandbox.archive import Put, TarReader, pack
from assay.sandbox.engine import Engine, Spec

if TYPE_CHECKING:
    from assay.model.registry import Rehearsal
    from assay.rehearsal.script import Script

ROOT = "/standin"
RECORD = f"{ROOT}/record/requests.jsonl"
SERVED = ("__init__", "protocol", "play", "http1", "anthropic", "server")
"""Modules that run in the container; all need the standard library alone."""

USER = 65534
"""Nobody: it owns its record and can read its files, and nothing else."""

READY_SECONDS = 30.0
MEMORY = 256 << 20
PIDS = 256


@dataclass(frozen=True, slots=True)
class Request:
    """One request that the stand-in was asked, as its record shows it.

    Attributes:
        kind: `main`, `subagent`, `side`, `no TLS` or `malformed`.
        turn: Position of the turn that answered, None for a side request or beyond the script's end.
        how: `turn`, `repeat` (the CLI asked the same once more) or `beyond` (the script was over).
        problems: Expectations on tool results that this request showed to be unmet.
        outcome: `sent`, `cut`, `hung`, or `gone` if the client left; None while it is being answered.
        raw: The whole line.
    """

    kind: str
    method: str
    path: str
    turn: int | None
    how: str | None
    model: str | None
    effort: str | None
    tools: tuple[str, ...]
    status: int | None
    problems: tuple[str, ...]
    outcome: str | None
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """What a rehearsal showed.

    Attributes:
        requests: All requests in order.
        problems: Why the CLI did not play its part: unmet expectations, turns never reached, requests beyond the end.
        next_turn: The turn to begin with when this conversation is resumed.
    """

    requests: list[Request]
    problems: list[str]
    next_turn: int


@dataclass
class StandIn:
    """A stand-in that was started. Not ready before `wait_ready` has returned."""

    engine: Engine
    container: str
    hosts: tuple[str, ...]
    ca_pem: bytes
    turns: list[dict[str, Any]]
    first: int = 0
    address: str = ""
    _lines: queue.SimpleQueue[bytes | None] = field(default_factory=queue.SimpleQueue)

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Block until it listens.

        Raises:
            EngineError: It ended or did not listen in time; the message has what it printed. It is removed.
        """
        said = b""
        try:
            while not said.startswith(b"ready ") or b"\n" not in said:
                part = self._lines.get(timeout=seconds)
                if part is None:
                    break
                said += part
            else:
                self.address = self.engine.address(self.container)
                return
        except queue.Empty:
            said += b" (nothing more came in time)"
        self.stop()
        msg = f"the stand-in did not start: {' '.join(said.decode('utf-8', 'replace').split())[-400:]}"
        raise EngineError(msg)

    def requests(self) -> list[Request]:
        """What it was asked so far; also after it was stopped, until it is removed."""
        _, stream = self.engine.get(self.container, RECORD)
        return parse_record(stream)

    def report(self) -> Report:
        """Judge the rehearsal by the requests so far."""
        return judge(self.requests(), self.turns, self.first)

    def stop(self) -> None:
        """Remove the container; its record goes with it."""
        self.engine.remove(self.container)

    def _listen(self) -> None:
        try:
            for _, data in self.engine.log(self.container, follow=True):
                self._lines.put(data)
                if data.startswith(b"ready "):
                    return
        except AssayError as error:
            self._lines.put(str(error).encode())
        self._lines.put(None)


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
    if rehearsal.api not in APIS:
        msg = f"no stand-in speaks {rehearsal.api!r}; this agent cannot be rehearsed ({', '.join(APIS)} can)"
        raise UsageError(msg)
    if script.uses_shell() and not rehearsal.shell:
        msg = "the script has shell steps, and the agent's entry has no rehearsal.shell that says how it runs them"
        raise UsageError(msg)
    trust = issue(rehearsal.hosts)
    plain = script.plain()
    config = {
        "api": rehearsal.api,
        "hosts": rehearsal.hosts,
        "shell": [way.model_dump() for way in rehearsal.shell],
        "script": plain,
        "first": first,
        "bodies": bodies,
        "address": "0.0.0.0",  # noqa: S104 - its own network namespace
        "port": 443,
        "cert": f"{ROOT}/cert.pem",
        "key": f"{ROOT}/key.pem",
        "record": RECORD,
    }
    spec = Spec(
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
    container = engine.create(spec)
    stand_in = StandIn(engine, container, tuple(rehearsal.hosts), trust.ca_pem, plain["turns"], first)
    try:
        engine.put(container, pack(_files(config, trust.cert_pem, trust.key_pem)))
        engine.start(container)
    except BaseException:
        stand_in.stop()
        raise
    threading.Thread(target=stand_in._listen, name="stand-in log", daemon=True).start()  # noqa: SLF001
    return stand_in


def start(
    engine: Engine, image: str, rehearsal: Rehearsal, script: Script, labels: Mapping[str, str], **options: Any
) -> StandIn:
    """Create a stand-in and wait until it is ready; see `create`."""
    stand_in = create(engine, image, rehearsal, script, labels, **options)
    stand_in.wait_ready()
    return stand_in


APIS = ("anthropic",)
"""Protocols that a speaker exists for; `server.SPEAKERS` has the same keys (a test)."""


def _files(config: Mapping[str, Any], cert: bytes, key: bytes) -> list[Put]:
    package = resources.files("assay")
    modules = {"__init__": package / "__init__.py"}
    modules |= {f"rehearsal/{name}": package / "rehearsal" / f"{name}.py" for name in SERVED}
    return [
        Put(ROOT),
        Put(f"{ROOT}/record", owner=USER),
        Put(f"{ROOT}/assay"),
        Put(f"{ROOT}/assay/rehearsal"),
        *(Put(f"{ROOT}/assay/{name}.py", file.read_bytes(), 0o644) for name, file in modules.items()),
        Put(f"{ROOT}/cert.pem", cert, 0o644),
        Put(f"{ROOT}/key.pem", key, 0o400, USER),
        Put(f"{ROOT}/play.json", json.dumps(config).encode(), 0o644),
    ]


def parse_record(tar: Iterable[bytes]) -> list[Request]:
    """The requests in a record that comes as a tar stream of one file."""
    reader = TarReader(tar)
    data = b"".join(chunk for _ in reader for chunk in reader.content())
    requests: dict[int, dict[str, Any]] = {}
    # The last line may be half written while the server runs.
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        entry = json.loads(line)
        if "n" in entry:
            requests.setdefault(entry["n"], {}).update(entry)
    return [_request(entry) for _, entry in sorted(requests.items()) if "kind" in entry]


def _request(entry: dict[str, Any]) -> Request:
    return Request(
        kind=entry["kind"],
        method=entry.get("method", ""),
        path=entry.get("path", ""),
        turn=entry.get("turn"),
        how=entry.get("how"),
        model=entry.get("model"),
        effort=entry.get("effort"),
        tools=tuple(entry.get("tools", ())),
        status=entry.get("status"),
        problems=tuple(problem for settled in entry.get("settled", ()) for problem in settled["problems"]),
        outcome=entry.get("outcome"),
        raw=entry,
    )


def judge(requests: list[Request], turns: list[dict[str, Any]], first: int = 0) -> Report:
    """Whether the CLI played its part of a script, and where a resumed conversation goes on."""
    problems = []
    awaited: dict[str, int] = {}
    for request in requests:
        for settled in request.raw.get("settled", ()):
            turn = awaited.pop(settled["call"], None)
            problems += [f"turn {(turn or 0) + 1}: {problem}" for problem in settled["problems"]]
        if request.turn is not None:
            awaited |= dict.fromkeys(request.raw.get("awaits", ()), request.turn)
    problems += [f"turn {turn + 1}: the result of call {call} never came" for call, turn in awaited.items()]
    played = {request.turn for request in requests if request.turn is not None}
    unplayed = [n + 1 for n, _ in enumerate(turns) if n >= first and n not in played]
    if unplayed:
        problems.append(f"never reached: turn {', '.join(map(str, unplayed))}")
    if beyond := sum(request.how == "beyond" for request in requests):
        problems.append(f"{beyond} requests came after the script's end")
    main = [n for n in played if not turns[n].get("subagent")]
    return Report(requests, problems, max(main, default=first - 1) + 1)
