"""The fence around a run: a container that owns the network namespace which the agent's container joins.

    fence = Fence(engine, image, pins, name="…", labels={…})
    fence.create()                      # fence.network is known: the agent's container can be created
    fence.start()                       # returns at once
    fence.ready()                       # proven: the agent may start
    fence.watch(stop_the_run)           # called with a reason if the fence ends by itself
    …
    report = fence.report()             # while it stands
    fence.stop()                        # off the critical path

The agent joins without NET_ADMIN and NET_RAW, so not even root inside can undo it. If anything cannot be set up or
proven, `FenceFailed` is raised; nothing degrades. If the fence's container dies, the namespace loses its only way out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from assay.model.errors import AssayError, FenceFailed
from assay.sandbox.engine import Engine
from assay.sandbox.fence_image.inject import KEYS, Injection
from assay.sandbox.pins import RESOLVE_SECONDS, check, engine_host, look_up
from assay.sandbox.rules import CLOSED, INJECT, MODES, MOST_ADDRESSES, OPEN, SNI, Pin, Plan, Via, written
from assay.sandbox.sidecar import Sidecar
from assay.sandbox.spec import Spec

READY_SECONDS = 60.0
"""Clock of the start. On an idle machine it takes 0.3 s; with 40 at once on two cores, 20 s."""
ANSWER_SECONDS = 20.0

AT_ONCE = {
    "PIP_RETRIES": "0",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "NPM_CONFIG_FETCH_RETRIES": "0",
    "NPM_CONFIG_UPDATE_NOTIFIER": "false",
    "UV_HTTP_RETRIES": "0",
    "CARGO_NET_RETRY": "0",
}
"""For the agent's environment without internet: refused at once, a package tool still retries for minutes."""

_ARGV = ("python3", "-EsS", "/opt/fence/start.py")
_MEMORY = 128 << 20
_PIDS = 64


@dataclass(frozen=True, slots=True)
class FenceReport:
    """What a fence saw.

    Attributes:
        mode: `closed`, `open`, `sni` or `inject`.
        backend: `nft` or `legacy`.
        names_asked: Names that the resolver was asked for, with how often. Pinned names rarely show: the hosts file
            answers them.
        names_refused: Those of them that were told not to exist.
        addresses_refused: `tcp 198.51.100.20:443` with how often, as the packet log told.
        servers_refused: With a gate: names that TLS asked of a pinned address in vain, "-" for none at all.
        requests_refused: In `inject`: host, path and why, with how often.
        requests_injected: In `inject`: how many requests got the credential; None elsewhere.
        packets_refused: By the kernel's counters, which also have what the packet log is limited to leave out.
        packets_unlisted: Those of them that `addresses_refused` does not have.
        names_unlisted: Sightings of names beyond the number of distinct ones that are kept.
        requests_unlisted: The same of refused requests.
        complete: False where the fence ended before it could report.
    """

    mode: str
    backend: str = ""
    names_asked: Mapping[str, int] = field(default_factory=dict)
    names_refused: Mapping[str, int] = field(default_factory=dict)
    addresses_refused: Mapping[str, int] = field(default_factory=dict)
    servers_refused: Mapping[str, int] = field(default_factory=dict)
    requests_refused: Mapping[str, int] = field(default_factory=dict)
    requests_injected: int | None = None
    packets_refused: int = 0
    packets_unlisted: int = 0
    names_unlisted: int = 0
    requests_unlisted: int = 0
    complete: bool = True

    def as_dict(self) -> dict[str, Any]:
        """As fence.json has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What looking hosts up again changed: addresses added by host, and what could not be done."""

    added: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...] = ()


class Fence:
    """One run's fence. Its methods may be called from any thread.

    Args:
        engine: Where it stands.
        image: Id of the fence's image (`fence_image.ensure`).
        pins: What may be reached, from `pins.resolve`, or of a container that the harness started (`private=True`).
        mode: `closed`, `open`, `sni` or `inject`.
        name: Of its container; a gate's gets `-gate`.
        labels: Of its containers.
        backend: `auto`, `nft` or `legacy`.
        where: The engine's network it stands in.
        lab: Reserved networks that an open fence treats as global (a pretend internet).
        via: The proxy that leads to the pinned hosts, which then need no address; not in an open fence.
        injection: What an `inject` gate puts into requests to the pinned hosts.

    Raises:
        FenceFailed: A pin is not allowed.
    """

    def __init__(
        self,
        engine: Engine,
        image: str,
        pins: Sequence[Pin],
        mode: str = CLOSED,
        *,
        name: str,
        labels: Mapping[str, str],
        backend: str = "auto",
        where: str = "bridge",
        lab: Sequence[str] = (),
        via: Via | None = None,
        injection: Injection | None = None,
    ) -> None:
        if mode not in MODES or (mode == OPEN and via):
            msg = f"unknown fence mode {mode!r}" if mode not in MODES else "an open fence goes through no proxy"
            raise ValueError(msg)
        for pin in pins if via is None else ():
            check(pin)
        self.via, self._injection = via, injection
        self.engine, self.image, self.pins, self.mode = engine, image, tuple(pins), mode
        self.name, self.labels, self.backend, self.where, self.lab = name, labels, backend, where, tuple(lab)
        self._inner: Sidecar | None = None
        self._gate: Sidecar | None = None
        self._failure: AssayError | None = None
        self._gated = threading.Event()
        self._refreshing = threading.Lock()

    @classmethod
    def attach(cls, engine: Engine, container: str, mode: str, gate: str | None = None) -> Fence:
        """Take over a fence that another process started, for its report and its end."""
        fence = cls(engine, "", (), mode, name="", labels={})
        fence._inner = Sidecar(engine, container)
        fence._inner.attach()
        if gate:
            fence._gate = Sidecar(engine, gate)
            fence._gate.attach()
        fence._gated.set()
        return fence

    @property
    def network(self) -> str:
        """What the agent's container names as its network."""
        return f"container:{self._standing.id}"

    def create(self) -> None:
        """Create its containers; nothing runs yet.

        Raises:
            EngineError: The engine refused; nothing is left behind.
        """
        try:
            if self._has_gate:
                self._gate = Sidecar.create(self.engine, self._gate_spec())
                if self.via:
                    # It may hold a password: never in a container's configuration.
                    self._gate.give_plan(self._plan(self.pins, gate=True))
            self._inner = Sidecar.create(self.engine, self._inner_spec())
        except AssayError:
            self.stop()
            raise

    def start(self) -> None:
        """Begin to stand, in the background."""
        if self._gate is None:
            self._gated.set()
            self._standing.start()
        else:
            threading.Thread(target=self._start_gated, args=(self._gate,), daemon=True).start()

    def ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until the rules stand, were read back and refused a probe.

        Raises:
            FenceFailed: They do not, or not in time.
        """
        if not self._gated.wait(seconds):
            msg = f"the fence does not stand: its gate was not ready within {seconds:g} s"
            raise FenceFailed(msg)
        if self._failure:
            raise self._failure
        said = self._standing.expect("ready", seconds)
        self.backend = str(said["backend"])

    def watch(self, call: Callable[[str], None]) -> None:
        """Call with a reason if the fence ends by itself (killed, restarted, failed); at once if it has."""
        for sidecar in self._sidecars():
            sidecar.watch(lambda why: call(f"the fence is gone: {why}"))

    @property
    def ended(self) -> str:
        """Why the fence no longer stands, "" if it does."""
        return next((s.ended for s in self._sidecars() if s.ended), "")

    def refresh(self, seconds: float = RESOLVE_SECONDS) -> Refreshed:
        """Look the hosts up again and pin what is new; nothing is ever taken away during a run.

        Raises:
            FenceFailed: A new address could not be pinned and proven.
        """
        with self._refreshing:
            if self.via:
                return Refreshed({})
            public = [n for n, pin in enumerate(self.pins) if not pin.private]
            found = look_up([self.pins[n].host for n in public], 0, seconds)
            pins, added, notes = list(self.pins), {}, []
            for n, addresses in zip(public, found, strict=True):
                pin = pins[n]
                if isinstance(addresses, str):
                    notes.append(f"{pin.host} could not be looked up again: {addresses}")
                    continue
                fresh = [address for address in addresses if address not in pin.addresses]
                pin = pin._replace(addresses=(*pin.addresses, *fresh)[:MOST_ADDRESSES])
                try:
                    check(pin)
                except FenceFailed as refused:
                    notes.append(str(refused))
                    continue
                if gained := pin.addresses[len(pins[n].addresses) :]:
                    pins[n], added[pin.host] = pin, gained
            if added:
                self.extend(pins)
            return Refreshed(added, tuple(notes))

    def extend(self, pins: Sequence[Pin]) -> None:
        """Replace the pins by ones that have further addresses.

        Raises:
            FenceFailed: The rules could not be added and proven; the fence is then gone.
        """
        outer = self._gate or self._standing
        outer.give_plan(self._plan(tuple(pins), gate=self._gate is not None))
        outer.ask("HUP", "refreshed", ANSWER_SECONDS)
        self.pins = tuple(pins)

    def report(self, seconds: float = ANSWER_SECONDS) -> FenceReport:
        """What was asked and refused so far; an incomplete one if the fence is gone."""
        try:
            said = self._standing.ask("USR1", "report", seconds)
            gate = self._gate.ask("USR1", "report", seconds) if self._gate else None
        except AssayError:
            return FenceReport(self.mode, self.backend, complete=False)
        asked, unknown, packets = said["asked"], said["unknown"], said["packets"]
        counted = int(said["counted"])
        return FenceReport(
            self.mode,
            self.backend,
            asked["counts"],
            unknown["counts"],
            packets["counts"],
            gate["servers"]["counts"] if gate else {},
            gate["requests"]["counts"] if gate else {},
            gate["injected"] if gate and self.mode == INJECT else None,
            counted,
            max(0, counted - sum(packets["counts"].values())),
            asked["others"] + (gate["servers"]["others"] if gate else 0),
            gate["requests"]["others"] if gate else 0,
        )

    def stop(self) -> None:
        """Remove its containers; what is gone already is fine."""
        for sidecar in self._sidecars():
            sidecar.stop()

    @property
    def _standing(self) -> Sidecar:
        if self._inner is None:
            msg = "the fence was not created"
            raise ValueError(msg)
        return self._inner

    def _sidecars(self) -> list[Sidecar]:
        return [sidecar for sidecar in (self._inner, self._gate) if sidecar]

    @property
    def _has_gate(self) -> bool:
        return self.mode == SNI or self._fed or self.via is not None

    @property
    def _fed(self) -> bool:
        return self._injection is not None

    def _start_gated(self, gate: Sidecar) -> None:
        """The gate first: the agent's side is pinned to its address, which the engine gives it at its start."""
        try:
            gate.start(self._injection.written() if self._injection else None)
            gate.expect("ready", READY_SECONDS)
            address = self.engine.address(gate.id)
            pins = tuple(Pin(pin.host, (address,), pin.ports, private=True) for pin in self.pins)
            self._standing.give_plan(self._plan(pins, gate=False))
            self._standing.start()
        except AssayError as error:
            self._failure = error
        finally:
            self._gated.set()

    def _plan(self, pins: tuple[Pin, ...], *, gate: bool) -> Plan:
        opened = self.mode == OPEN
        refused = engine_host(str(self.engine.api.base_url), os.environ.get("DOCKER_HOST", "")) if opened else ()
        serves = tuple(sorted({port for pin in pins for port in pin.ports})) if gate else ()
        if gate and self.via:
            proxy = Pin("corporate.proxy", (self.via.address,), (self.via.port,), private=True)
            names = tuple(dict.fromkeys(pin.host for pin in pins))
            return Plan(CLOSED, (proxy,), serves, via=self.via, names=names, fed=self._fed)
        return Plan(OPEN if opened else CLOSED, pins, serves, refused, self.lab, fed=gate and self._fed)

    def _inner_spec(self) -> Spec:
        # Behind a gate the pins are its address, known only once it stands; the plan is put in then.
        plan = None if self._has_gate else self._plan(self.pins, gate=False)
        return self._spec(self.name, "agents", plan, ())

    def _gate_spec(self) -> Spec:
        # The proxy runs as nobody: changing to it takes two capabilities.
        plan = None if self.via else self._plan(self.pins, gate=True)
        return self._spec(f"{self.name}-gate", "gate", plan, ("SETUID", "SETGID"), fed=self._fed)

    def _spec(self, name: str, part: str, plan: Plan | None, caps: tuple[str, ...], *, fed: bool = False) -> Spec:
        raw = ("NET_RAW",) if self.backend != "nft" else ()
        return Spec(
            image=self.image,
            argv=_ARGV,
            name=name,
            labels={**self.labels, "assay.fence": part},
            workdir="/opt/fence",
            env={"ASSAY_BACKEND": self.backend, "ASSAY_PLAN": written(plan) if plan else ""},
            network=self.where,
            caps=("NET_ADMIN", "NET_BIND_SERVICE", *raw, *caps),
            # With this, not even the engine's own resolver has anywhere to forward to.
            dns=() if self.mode == OPEN else ("127.0.0.1",),
            memory=_MEMORY,
            pids=_PIDS,
            init=False,
            stdin=fed,
            tmpfs={KEYS: "size=8m,mode=0755"} if fed else {},
            sysctls={"net.ipv4.ip_unprivileged_port_start": "0"},
        )
