"""The rule compiler against a reader of rules of its own: what a packet meets, not how a line looks."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.sandbox.rules import (
    BLOCK,
    CLOSED,
    NOT_GLOBAL,
    OPEN,
    Around,
    Pin,
    Plan,
    Rule,
    Via,
    compile_rules,
    growth,
    is_global,
    read,
    table,
    written,
)

PINS = (
    Pin("api.vendor.test", ("8.8.4.4", "2600::10")),
    Pin("auth.vendor.test", ("8.8.4.5",), (443, 8443)),
)

fours = st.ip_addresses(v=4).map(str)
sixes = st.ip_addresses(v=6).map(str)
ports = st.integers(1, 65535)
pins = st.builds(
    Pin,
    st.from_regex(r"[a-z0-9]{1,12}(\.[a-z]{1,6}){1,2}", fullmatch=True),
    st.lists(fours | sixes, min_size=1, max_size=5, unique=True).map(tuple),
    st.lists(ports, min_size=1, max_size=4, unique=True).map(lambda found: tuple(sorted(found))),
    st.just(value=False),
)
closed_plans = st.builds(Plan, st.just(CLOSED), st.lists(pins, max_size=4).map(tuple))


def verdict(rules: Sequence[Rule], to: str, protocol: str, port: int, *, out: str = "eth0", icmp6: int = 128) -> str:
    """What becomes of a new packet going out: the first rule that ends its way, else the policy."""
    chain = [rule for rule in rules if rule.chain == "OUTPUT"]
    while chain:
        rule, *chain = chain
        matches = {name: dict(options) for name, options in rule.matches}
        if rule.to and ipaddress.ip_address(to) not in ipaddress.ip_network(rule.to):
            continue
        if (rule.out and rule.out != out) or (rule.protocol and rule.protocol != protocol):
            continue
        if "multiport" in matches and str(port) not in matches["multiport"].get("dports", "").split(","):
            continue
        if "conntrack" in matches or ("icmp6" in matches and matches["icmp6"]["icmpv6-type"] != str(icmp6)):
            continue
        if rule.target == BLOCK:
            chain = [rule for rule in rules if rule.chain == BLOCK]
        elif rule.target != "NFLOG":
            return rule.target
    return "DROP"


@settings(max_examples=50, deadline=None)
@given(closed_plans, fours, ports, st.sampled_from(["tcp", "udp", "icmp", "gre"]))
def test_closed_lets_pins_out_and_nothing_else(plan: Plan, to: str, port: int, protocol: str) -> None:
    pinned = any(to in pin.addresses and port in pin.ports for pin in plan.pins)
    expected = "ACCEPT" if pinned and protocol == "tcp" else "REJECT"
    assert verdict(compile_rules(plan, 4), to, protocol, port) == expected


@settings(max_examples=50, deadline=None)
@given(closed_plans)
def test_closed_lets_every_pin_out(plan: Plan) -> None:
    for pin in plan.pins:
        for address in pin.addresses:
            version = ipaddress.ip_address(address).version
            rules = compile_rules(plan, version)
            for port in pin.ports:
                assert verdict(rules, address, "tcp", port) == "ACCEPT"
                assert verdict(rules, address, "udp", port) == "REJECT"


@settings(max_examples=50, deadline=None)
@given(closed_plans, sixes, ports)
def test_closed_holds_over_ipv6(plan: Plan, to: str, port: int) -> None:
    pinned = any(to in pin.addresses and port in pin.ports for pin in plan.pins)
    assert verdict(compile_rules(plan, 6), to, "tcp", port) == ("ACCEPT" if pinned else "REJECT")


@pytest.mark.parametrize("mode", [CLOSED, OPEN])
def test_loopback_is_free_but_for_the_engines_resolver(mode: str) -> None:
    rules = compile_rules(Plan(mode, PINS), 4)
    assert verdict(rules, "127.0.0.1", "tcp", 8080, out="lo") == "ACCEPT"
    assert verdict(rules, "127.0.0.11", "udp", 53, out="lo") == "REJECT"
    assert verdict(compile_rules(Plan(mode, PINS), 6), "::1", "udp", 53, out="lo") == "ACCEPT"


@settings(max_examples=50, deadline=None)
@given(fours, st.sampled_from(["tcp", "udp", "icmp"]), ports)
def test_open_lets_global_addresses_out_and_no_others(to: str, protocol: str, port: int) -> None:
    expected = "ACCEPT" if is_global(to) else "REJECT"
    assert verdict(compile_rules(Plan(OPEN), 4), to, protocol, port) == expected


@settings(max_examples=50, deadline=None)
@given(sixes, st.sampled_from(["tcp", "udp"]), ports)
def test_open_does_so_over_ipv6(to: str, protocol: str, port: int) -> None:
    expected = "ACCEPT" if is_global(to) else "REJECT"
    assert verdict(compile_rules(Plan(OPEN), 6), to, protocol, port) == expected


@pytest.mark.parametrize(
    ("to", "port", "expected"),
    [
        ("10.0.0.53", 53, "ACCEPT"),
        ("10.0.0.53", 443, "REJECT"),
        ("10.0.0.54", 53, "REJECT"),
        ("8.8.8.8", 53, "ACCEPT"),
        ("169.254.169.254", 80, "REJECT"),
        ("9.9.9.9", 443, "REJECT"),
        ("11.1.2.3", 443, "REJECT"),
        ("198.51.100.9", 443, "ACCEPT"),
        ("198.51.100.1", 443, "REJECT"),
        ("10.9.9.9", 443, "ACCEPT"),
    ],
)
def test_open_with_resolvers_links_host_lab_and_a_stand_in(to: str, port: int, expected: str) -> None:
    plan = Plan(
        OPEN,
        (Pin("api.vendor.test", ("10.9.9.9",), private=True),),
        refused=("9.9.9.9", "198.51.100.1"),
        lab=("198.51.100.0/24",),
    )
    around = Around(("10.0.0.53", "2600::53"), ("11.1.0.0/16", "fd00::/64"))
    assert verdict(compile_rules(plan, 4, around), to, "tcp", port) == expected


def test_open_names_may_go_by_the_engines_own_resolver_where_it_is_the_only_one() -> None:
    rules = compile_rules(Plan(OPEN), 4, Around(("127.0.0.11",)))
    assert verdict(rules, "127.0.0.11", "udp", 53, out="lo") == "ACCEPT"


@pytest.mark.parametrize("plan", [Plan(CLOSED), Plan(CLOSED, PINS), Plan(OPEN, PINS), Plan(CLOSED, PINS, (443,))])
@pytest.mark.parametrize("version", [4, 6])
def test_nothing_comes_in_that_was_not_asked_for(plan: Plan, version: int) -> None:
    """Each rule that lets something in wants loopback, a tracked connection, a served port or a near neighbour."""
    for rule in compile_rules(plan, version):
        if rule.chain == "INPUT":
            matches = {name: dict(options) for name, options in rule.matches}
            states = matches.get("conntrack", {}).get("ctstate", "")
            served = bool(plan.serves) and matches.get("multiport", {}).get("dports") == "443"
            near = matches.get("hl", {}).get("hl-eq") == "255"
            assert rule.into == "lo" or states in ("ESTABLISHED", "RELATED") or served or near
            assert "NEW" not in states or served
            assert states != "RELATED" or "icmp" in rule.protocol


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("mode", [CLOSED, OPEN])
def test_no_flow_outlives_its_rule(mode: str, version: int) -> None:
    """Without a gate no OUTPUT rule lets a connection through because it is established."""
    for rule in compile_rules(Plan(mode, PINS), version):
        assert rule.chain != "OUTPUT" or "conntrack" not in dict(rule.matches)


@pytest.mark.parametrize("version", [4, 6])
def test_policies_drop_and_the_last_word_is_a_refusal(version: int) -> None:
    rules = compile_rules(Plan(OPEN, PINS), version)
    text = table(rules)
    assert all(f":{chain} DROP [0:0]" in text for chain in ("INPUT", "FORWARD", "OUTPUT"))
    assert [rule.text() for rule in rules if rule.chain == "OUTPUT"][-1] == f"OUTPUT -g {BLOCK}"
    assert [rule.target for rule in rules if rule.chain == BLOCK][-4:] == ["NFLOG", "REJECT", "REJECT", "REJECT"]
    assert text.endswith("COMMIT\n")


@settings(max_examples=50, deadline=None)
@given(closed_plans, st.lists(fours | sixes, max_size=4, unique=True), st.sampled_from([4, 6]))
def test_growth_inserts_just_what_is_missing(plan: Plan, more: list[str], version: int) -> None:
    grown = [p._replace(addresses=(*p.addresses, *(a for a in more if a not in p.addresses))) for p in plan.pins]
    old, new = (compile_rules(p, version) for p in (plan, plan._replace(pins=tuple(grown))))
    chains: dict[str, list[str]] = {}
    for rule in old:
        chains.setdefault(rule.chain, []).append(rule.text())
    for line in growth(old, new).splitlines():
        if line.startswith("-I "):
            _, chain, at, words = line.split(" ", 3)
            chains[chain].insert(int(at) - 1, f"{chain} {words}")
    meant: dict[str, list[str]] = {}
    for rule in new:
        meant.setdefault(rule.chain, []).append(rule.text())
    assert chains == meant


def test_growth_takes_nothing_away() -> None:
    with pytest.raises(ValueError, match="only be added"):
        growth(compile_rules(Plan(CLOSED, PINS), 4), compile_rules(Plan(CLOSED, PINS[:1]), 4))


@settings(max_examples=50, deadline=None)
@given(
    closed_plans,
    st.lists(ports, max_size=3, unique=True).map(lambda found: tuple(sorted(found))),
    st.binary().map(lambda secret: base64.b64encode(secret).decode()),
)
def test_a_plan_survives_its_journey(plan: Plan, serves: tuple[int, ...], auth: str) -> None:
    plan = plan._replace(serves=serves, refused=("9.9.9.9",), lab=("198.51.100.0/24", "2001:db8:f::/64"))
    assert read(written(plan._replace(via=None, names=()))) == plan._replace(via=None, names=())
    plan = plan._replace(via=Via("10.0.0.1", 3128, auth), names=("a.test", "b.test"))
    assert read(written(plan)) == plan


@settings(max_examples=50, deadline=None)
@given(fours | sixes)
def test_global_is_never_wider_than_the_registries_say(address: str) -> None:
    assert not is_global(address) or ipaddress.ip_address(address).is_global


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "169.254.169.254", "224.0.0.1", "255.255.255.255", "100.64.0.1", "0.0.0.0"),
        *("::1", "fe80::1", "fd00::1", "ff02::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:0a00:0001::1", "2001::1"),
    ],
)
def test_addresses_that_are_not_global(address: str) -> None:
    assert not is_global(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "104.16.0.1", "2606:4700::1", "2a00:1450::1", "2600::1"])
def test_addresses_that_are(address: str) -> None:
    assert is_global(address)


def test_reserved_networks_are_written_as_the_tools_print_them() -> None:
    for nets in NOT_GLOBAL.values():
        for text in nets:
            assert str(ipaddress.ip_network(text)) == text
