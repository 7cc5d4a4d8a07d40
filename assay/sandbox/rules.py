"""The fence's rules, from the pins and the mode alone: no I/O, the same text on every machine.

The rules are written in exactly the form in which `iptables-save` 1.8 prints them, so that reading back is comparing
lines. Both address families are always ruled, even where one of them looks switched off.

Why they look as they do (each seen on Docker 20.10, kernel 6.18):

- OUTPUT has no ESTABLISHED rule: the port rules cover the flows, so nothing opened before the rules survives them, and
  a connection made from outside inwards cannot be answered.
- INPUT drops: an open container beside this one could otherwise connect in and relay.
- 127.0.0.11 is the engine's resolver and forwards to the outside, so its refusal stands before loopback is allowed.
- The policies drop, so that a missing REJECT extension closes rather than opens.

This file also runs inside the fence's container, where every imported module costs start-up time.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

CLOSED, OPEN, SNI, INJECT = "closed", "open", "sni", "inject"
MODES = (CLOSED, OPEN, SNI, INJECT)

BLOCK = "ASSAY_BLOCK"
"""The chain that everything refused runs through; its REJECT counters are the kernel's own account."""

NFLOG_GROUP = 5
EMBEDDED_RESOLVER = "127.0.0.11"
MOST_ADDRESSES = 32
"""Addresses pinned for one host; names that rotate through more are no pins."""

NOT_GLOBAL = {
    4: (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    ),
    # 2000::/3 is what is routed; out of it: protocol assignments and Teredo, documentation, 6to4 (it embeds any IPv4).
    6: ("::/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "4000::/2", "8000::/1"),
}
"""Networks no pin may lie in and an open fence still refuses: private, link-local, metadata, multicast, reserved."""

_NETWORKS = tuple(ipaddress.ip_network(text) for nets in NOT_GLOBAL.values() for text in nets)


class Pin(NamedTuple):
    """A host that may be reached, at these addresses and TCP ports only.

    `private` says that the harness itself started what answers there; no file and no look-up may set it.
    """

    host: str
    addresses: tuple[str, ...]
    ports: tuple[int, ...] = (443,)
    private: bool = False


class Via(NamedTuple):
    """A proxy that a gate goes out through; `auth` is `user:password` in base64, "" for none."""

    address: str
    port: int
    auth: str = ""


class Plan(NamedTuple):
    """What one network namespace may do.

    Attributes:
        mode: `closed` or `open`; with a gate (`sni`, `inject`) a fence is two closed ones, its agent's pinned to it.
        serves: TCP ports that neighbours may connect to (a gate's; none where an agent lives).
        refused: Networks that an open fence refuses although they are global: the engine's host.
        lab: Networks that count as global although they are reserved: a pretend internet.
        via: The proxy that a gate goes out through; then it is the only pin.
        names: The hosts that this gate asks the proxy for.
        fed: Whether this gate finds on its standard input what it is to put into requests.
    """

    mode: str
    pins: tuple[Pin, ...] = ()
    serves: tuple[int, ...] = ()
    refused: tuple[str, ...] = ()
    lab: tuple[str, ...] = ()
    via: Via | None = None
    names: tuple[str, ...] = ()
    fed: bool = False


def written(plan: Plan) -> str:
    """A plan as text, a line each for what there is: how it travels into the container."""
    lines = [f"mode {plan.mode}"]
    lines += [f"pin {pin.host} {_ports(pin.ports)} {','.join(pin.addresses)}" for pin in plan.pins]
    if plan.serves:
        lines.append(f"serves {_ports(plan.serves)}")
    for word, networks in (("refused", plan.refused), ("lab", plan.lab)):
        if networks:
            lines.append(f"{word} {','.join(networks)}")
    if plan.via:
        address, port, auth = plan.via
        lines += [f"via {address} {port} {auth or '-'}", f"names {','.join(plan.names)}"]
    if plan.fed:
        lines.append("fed yes")
    return "\n".join(lines) + "\n"


def read(text: str) -> Plan:
    """The plan that `written` wrote; where it came from no longer matters to its pins."""
    pins: list[Pin] = []
    rest: dict[str, str] = {}
    via = None
    for words in (line.split() for line in text.splitlines()):
        if words[0] == "pin":
            pins.append(Pin(words[1], tuple(words[3].split(",")), _numbers(words[2])))
        elif words[0] == "via":
            via = Via(words[1], int(words[2]), "" if words[3] == "-" else words[3])
        else:
            rest[words[0]] = words[1]
    refused, lab = (tuple(rest[word].split(",")) if word in rest else () for word in ("refused", "lab"))
    names = tuple(rest["names"].split(",")) if via else ()
    serves = _numbers(rest.get("serves", ""))
    return Plan(rest["mode"], tuple(pins), serves, refused, lab, via, names, fed="fed" in rest)


class Around(NamedTuple):
    """What a fence finds where it stands: the engine's resolvers, the networks on its links, whether IPv6 leads out."""

    resolvers: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    ipv6: bool = False


class Rule(NamedTuple):
    """One rule. `matches` and `options` are (name, options) and (option, value) in the order of `iptables-save`."""

    chain: str
    target: str
    source: str = ""
    to: str = ""
    into: str = ""
    out: str = ""
    protocol: str = ""
    matches: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    def text(self) -> str:
        """The rule without its verb, as `iptables-save` prints it."""
        words = [self.chain]
        for flag, value in (
            ("-s", self.source),
            ("-d", self.to),
            ("-i", self.into),
            ("-o", self.out),
            ("-p", self.protocol),
        ):
            if value:
                words += [flag, value]
        for name, options in self.matches:
            words += ["-m", name]
            for option, value in options:
                words += ["--" + option, f'"{value}"' if option == "comment" else value]
        words += ["-g" if self.target == BLOCK else "-j", self.target]
        for option, value in self.options:
            words += ["--" + option, value]
        return " ".join(words)


def is_global(address: str) -> bool:
    """Whether an address is one of the public internet (stricter than `ipaddress`: multicast and 6to4 are not)."""
    ip = ipaddress.ip_address(address)
    return not any(ip in network for network in _NETWORKS if network.version == ip.version)


def compile_rules(plan: Plan, version: int, around: Around = Around()) -> list[Rule]:  # noqa: B008 (a value, not a state)
    """The rules of one family, in their order."""
    pins = [(p.host, _net(a), _ports(p.ports)) for p in plan.pins for a in p.addresses if _version(a) == version]
    routed = bool(pins) or plan.mode == OPEN
    opened = plan.mode == OPEN
    return [
        *_input(plan, version, pins, routed=routed),
        *_loopback(version, resolver=opened and EMBEDDED_RESOLVER in around.resolvers),
        *(_neighbours("OUTPUT", (135, 136)) if version == 6 and routed else ()),
        *(_replies(plan.serves) if plan.serves else ()),
        *_pinned(pins),
        *(_open(plan, version, around) if opened else ()),
        Rule("OUTPUT", BLOCK),
        *_block(version),
    ]


def table(rules: Iterable[Rule]) -> str:
    """The whole filter table as input for `iptables-restore`: it replaces what was there, or fails as a whole."""
    policies = [f":{chain} DROP [0:0]" for chain in ("INPUT", "FORWARD", "OUTPUT")]
    lines = ["*filter", *policies, f":{BLOCK} - [0:0]", *(f"-A {rule.text()}" for rule in rules), "COMMIT"]
    return "\n".join(lines) + "\n"


def growth(old: Sequence[Rule], new: Sequence[Rule]) -> str:
    """Input for `iptables-restore --noflush` that turns `old` into `new` by insertions only; counters are kept.

    Raises:
        ValueError: `new` is not `old` with rules added.
    """
    lines: list[str] = []
    at: dict[str, int] = {}
    rest = list(old)
    for rule in new:
        at[rule.chain] = at.get(rule.chain, 0) + 1
        if rest and rest[0] == rule:
            rest.pop(0)
        else:
            chain, words = rule.text().split(" ", 1)
            lines.append(f"-I {chain} {at[rule.chain]} {words}")
    if rest:
        msg = "rules may only be added"
        raise ValueError(msg)
    return "\n".join(["*filter", *lines, "COMMIT", ""]) if lines else ""


def _input(plan: Plan, version: int, pins: Sequence[tuple[str, str, str]], *, routed: bool) -> Iterator[Rule]:
    yield Rule("INPUT", "ACCEPT", into="lo")
    for _, net, ports in pins:
        yield Rule(
            "INPUT", "ACCEPT", source=net, protocol="tcp", matches=(_multiport("sports", ports), _state("ESTABLISHED"))
        )
    if plan.serves:
        served = _multiport("dports", _ports(plan.serves))
        yield Rule("INPUT", "ACCEPT", protocol="tcp", matches=(served, _state("NEW,ESTABLISHED")))
    if plan.mode == OPEN:
        yield Rule("INPUT", "ACCEPT", matches=(_state("ESTABLISHED"),))
    # Path MTU discovery; RELATED is allowed to nothing else, so no helper can open a way in.
    yield Rule("INPUT", "ACCEPT", protocol=_icmp(version), matches=(_state("RELATED"),))
    if version == 6 and routed:
        yield from _neighbours("INPUT", (135, 136), (("hl", (("hl-eq", "255"),)),))


def _loopback(version: int, *, resolver: bool) -> Iterator[Rule]:
    if version == 4 and not resolver:
        yield Rule("OUTPUT", BLOCK, to=_net(EMBEDDED_RESOLVER))
    yield Rule("OUTPUT", "ACCEPT", out="lo")


def _neighbours(
    chain: str, types: Sequence[int], more: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
) -> Iterator[Rule]:
    """Neighbour discovery, without which no IPv6 address on the link is found. Router advertisements stay out."""
    for number in types:
        yield Rule(chain, "ACCEPT", protocol="ipv6-icmp", matches=(_icmp6(number), *more))


def _replies(ports: Sequence[int]) -> Iterator[Rule]:
    matches = (_multiport("sports", _ports(ports)), _state("ESTABLISHED"))
    yield Rule("OUTPUT", "ACCEPT", protocol="tcp", matches=matches)


def _pinned(pins: Sequence[tuple[str, str, str]]) -> Iterator[Rule]:
    for host, net, ports in pins:
        matches = (_multiport("dports", ports), ("comment", (("comment", host),)))
        yield Rule("OUTPUT", "ACCEPT", to=net, protocol="tcp", matches=matches)


def _open(plan: Plan, version: int, around: Around) -> Iterator[Rule]:
    """Any global address, after the exception (the engine's resolvers) and what is refused in spite of being global."""
    for resolver in around.resolvers:
        if _version(resolver) == version and resolver != EMBEDDED_RESOLVER:
            for protocol in ("udp", "tcp"):
                yield Rule(
                    "OUTPUT", "ACCEPT", to=_net(resolver), protocol=protocol, matches=(_multiport("dports", "53"),)
                )
    for text in (*around.links, *plan.refused):
        if _version(text) == version:
            yield Rule("OUTPUT", BLOCK, to=_net(text))
    protocols = ("tcp", "udp", _icmp(version))
    for text in plan.lab:
        if _version(text) == version:
            yield from (Rule("OUTPUT", "ACCEPT", to=_net(text), protocol=protocol) for protocol in protocols)
    for text in NOT_GLOBAL[version]:
        yield Rule("OUTPUT", BLOCK, to=text)
    yield from (Rule("OUTPUT", "ACCEPT", protocol=protocol) for protocol in protocols)


def _block(version: int) -> Iterator[Rule]:
    # What the kernel says of its own accord (group membership, neighbour and router solicitation) is nobody's attempt.
    if version == 4:
        yield Rule(BLOCK, "DROP", protocol="igmp")
    else:
        for number in (133, 135, 136, 143):
            yield Rule(BLOCK, "DROP", protocol="ipv6-icmp", matches=(_icmp6(number),))
    # Without the threshold the kernel holds packets back for up to a second, and a report misses the last ones.
    nflog = (("nflog-group", str(NFLOG_GROUP)), ("nflog-size", "128"), ("nflog-threshold", "1"))
    limit = ("limit", (("limit", "50/sec"), ("limit-burst", "200")))
    yield Rule(BLOCK, "NFLOG", matches=(limit,), options=nflog)
    port, rest = (
        ("icmp-port-unreachable", "icmp-admin-prohibited")
        if version == 4
        else ("icmp6-port-unreachable", "icmp6-adm-prohibited")
    )
    yield Rule(BLOCK, "REJECT", protocol="tcp", options=(("reject-with", "tcp-reset"),))
    yield Rule(BLOCK, "REJECT", protocol="udp", options=(("reject-with", port),))
    yield Rule(BLOCK, "REJECT", options=(("reject-with", rest),))


def _version(text: str) -> int:
    return 6 if ":" in text else 4


def _net(text: str) -> str:
    return str(ipaddress.ip_network(text))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word)


def _ports(ports: Iterable[int]) -> str:
    return ",".join(str(int(port)) for port in sorted(set(ports)))


def _multiport(option: str, ports: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return ("multiport", ((option, ports),))


def _state(states: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return ("conntrack", (("ctstate", states),))


def _icmp(version: int) -> str:
    return "icmp" if version == 4 else "ipv6-icmp"


def _icmp6(number: int) -> tuple[str, tuple[tuple[str, str], ...]]:
    return ("icmp6", (("icmpv6-type", str(number)),))
