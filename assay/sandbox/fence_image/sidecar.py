"""The one process of a fence's container: it owns the network namespace that the agent joins.

Start: rules, read-back, packet log, names, probe, then one line `ready`. After that it answers names, counts what is
refused, and takes two signals: USR1 prints a report, HUP takes further addresses from `PLAN`. It talks to the harness
by lines of JSON on standard output, few enough that no agent can flood the engine's log. Anything unforeseen ends it,
and with it the namespace's only way out.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
from typing import Any

from assay.sandbox.fence_image import firewall, nflog
from assay.sandbox.fence_image.names import Question, answer, parse
from assay.sandbox.fence_image.tally import Tally
from assay.sandbox.rules import NFLOG_GROUP, OPEN, Around, Pin, Plan, compile_rules, read

PLAN = "/run/fence/plan"
RESOLVER = ("127.0.0.1", 53)
BATCH = 64
"""Datagrams taken from one socket before the others get their turn."""
LONGEST_REQUEST = 200
"""Of a refused request's host and path, characters that are kept."""


def tell(event: str, **facts: Any) -> None:
    """One line to the harness."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


class Sidecar:
    """A fence from its start to its end."""

    def __init__(self, plan: Plan, around: Around, rules: firewall.Rules, backend: str) -> None:
        self.plan, self.around, self.rules, self.backend = plan, around, rules, backend
        self.ipv6 = around.ipv6
        self.log = nflog.listen(NFLOG_GROUP)
        self.packets, self.names, self.unknown, self.turned_away = Tally(), Tally(), Tally(), Tally()
        self.requests, self.injected = Tally(), 0
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.log, selectors.EVENT_READ, self.read_log)
        self.pinned: dict[str, list[str]] = {}
        self.haproxy = 0
        self.minded: set[int] = set()
        self.injection: Any = None
        self.forwarder: Any = None

    def start(self) -> None:
        """Names, probe, gate; then the harness is told."""
        self._write_names()
        self.server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.server.bind(RESOLVER)
        self.server.setblocking(False)
        self.selector.register(self.server, selectors.EVENT_READ, self.read_query)
        if self.plan.mode == OPEN:
            self._open_names()
        self.probes = firewall.probe(self._probe_logged)
        self.packets = Tally()
        if self.plan.serves:
            self._open_gate()
        reader = self._take_signals()
        tell("ready", backend=self.backend, ipv6=self.ipv6, resolvers=self.around.resolvers)
        self.selector.register(reader, selectors.EVENT_READ, lambda: self.heed(reader))

    def run(self) -> None:
        """Serve until the end."""
        while True:
            for key, _ in self.selector.select():
                key.data()

    def read_log(self) -> None:
        """Count refused packets."""
        for _ in range(BATCH):
            try:
                data = self.log.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                # The kernel had more than the buffer holds; its counters still have them all.
                continue
            for told in nflog.refused(data):
                self.packets.add(told)

    def read_query(self) -> None:
        """Answer names, or send them on."""
        for _ in range(BATCH):
            try:
                query, client = self.server.recvfrom(4096)
            except OSError:
                return
            question = parse(query)
            if question is None:
                continue
            self.names.add(question.name)
            if self.forwarder and question.name not in self.pinned:
                self.forwarder.pass_on(query, client)
            else:
                self._answer(question, client)

    def heed(self, reader: socket.socket) -> None:
        """Act on the signals that came."""
        for number in reader.recv(64):
            if number == signal.SIGTERM:
                sys.exit(0)
            if number == signal.SIGUSR1:
                self.report()
            if number == signal.SIGHUP:
                self.refresh()

    def report(self) -> None:
        """Tell what was asked and refused so far."""
        counted = firewall.counted(self.backend) - self.probes
        self.read_log()
        tallies = {"asked": self.names, "unknown": self.unknown, "packets": self.packets}
        tallies |= {"servers": self.turned_away, "requests": self.requests}
        told = {name: {"counts": tally.counts, "others": tally.others} for name, tally in tallies.items()}
        tell("report", counted=counted, injected=self.injected, **told)

    def refresh(self) -> None:
        """Take further addresses: first the rules, then the names."""
        with open(PLAN, encoding="ascii") as file:  # noqa: PTH123 (pathlib costs start-up time)
            self.plan = read(file.read())
        old, self.rules = self.rules, self._compiled()
        firewall.grow(self.backend, old, self.rules)
        self._write_names()
        if self.plan.serves:
            self._open_gate()
        tell("refreshed")

    def _compiled(self) -> firewall.Rules:
        return {version: compile_rules(self.plan, version, self.around) for version in (4, 6)}

    def _probe_logged(self) -> None:
        self.log.settimeout(firewall.PROBE_SECONDS)
        try:
            self.log.recv(65536)
        except TimeoutError:
            msg = "a refused probe was not logged"
            raise firewall.Failed(msg) from None
        finally:
            self.log.setblocking(False)

    def _answer(self, question: Question, client: tuple[str, int]) -> None:
        if question.name not in self.pinned:
            self.unknown.add(question.name)
        try:
            self.server.sendto(answer(question, self.pinned), client)
        except OSError:
            return

    def _write_names(self) -> None:
        """Put pinned names in the hosts file, which the agent shares; in place, because the file is a mount."""
        pinned: dict[str, list[str]] = {}
        for pin in self.plan.pins:
            addresses = [a for a in pin.addresses if self.ipv6 or ":" not in a]
            pinned.setdefault(pin.host, []).extend(addresses)
        with open("/etc/hosts", "a", encoding="ascii") as file:  # noqa: PTH123
            for host, addresses in pinned.items():
                file.writelines(f"{a}\t{host}\n" for a in addresses if a not in self.pinned.get(host, ()))
        self.pinned = pinned
        with open("/etc/resolv.conf", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(f"nameserver {RESOLVER[0]}\noptions timeout:{5 if self.plan.mode == OPEN else 1} attempts:2\n")

    def _open_names(self) -> None:
        from assay.sandbox.fence_image.forward import Forwarder

        listener = socket.create_server(RESOLVER)
        forwarder = Forwarder(self.server, self.around.resolvers, self.selector)
        self.selector.register(listener, selectors.EVENT_READ, lambda: forwarder.accept(listener))
        self.forwarder = forwarder

    def _open_gate(self) -> None:
        from assay.sandbox.fence_image import gate, inject, tunnel

        if not self.minded:
            log = gate.listen()
            self.selector.register(log, selectors.EVENT_READ, lambda: self._read_gate(log))
            self.injection = inject.read(sys.stdin.readline()) if self.plan.fed else None
        pins = self.plan.pins
        if self.plan.via:
            self._mind(tunnel.start(self.plan, behind=self.plan.fed))
            pins = tuple(Pin(name, (), self.plan.serves) for name in self.plan.names)
        if self.plan.fed or not self.plan.via:
            text = gate.config(pins, ipv6=self.ipv6, injection=self.injection)
            before, self.haproxy = self.haproxy, gate.start(text, self.haproxy, self.injection)
            self.minded.discard(before)
            self._mind(self.haproxy)

    def _mind(self, number: int) -> None:
        """See to it that a process of the gate's does not end without a word."""
        self.minded.add(number)
        watch = os.pidfd_open(number)
        self.selector.register(watch, selectors.EVENT_READ, lambda: self._proxy_ended(number, watch))

    def _read_gate(self, log: socket.socket) -> None:
        for _ in range(BATCH):
            try:
                line = log.recv(4096).decode("ascii", "replace").strip()
            except BlockingIOError:
                return
            verdict, _, name = line.partition(" ")
            name = name if name.isprintable() else ascii(name)
            if verdict == "refused":
                self.turned_away.add(name)
            elif verdict != "passed" and self.injection:
                self._count_request(verdict, name)

    def _count_request(self, verdict: str, said: str) -> None:
        from assay.sandbox.fence_image.inject import INJECTED, UNREACHED, WHY

        how, _, where = said.partition(" ")
        self.injected += verdict == INJECTED
        if verdict in WHY:
            self.requests.add(f"{where[:LONGEST_REQUEST]}: {WHY[verdict]}")
        elif how == UNREACHED:
            self.requests.add(f"{where.partition('/')[0]}: no answer there that its certificate vouches for")

    def _proxy_ended(self, number: int, watch: int) -> None:
        self.selector.unregister(watch)
        os.close(watch)
        os.waitpid(number, 0)
        if number in self.minded:
            msg = "the gate's proxy ended"
            raise firewall.Failed(msg)

    def _take_signals(self) -> socket.socket:
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno())
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self.writer = writer
        return reader
