"""All fifty attacks from inside a fence, as root with a task's capabilities and as the agent's user with none.

Each set-up runs them once, in one container; each probe is a test of what it printed. A container without a fence runs
them too, so that an attack that cannot work anywhere is no proof.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from assay.run.launch import ROOT_CAPS
from assay.sandbox.fence import FenceReport
from tests.fence.conftest import Lab
from tests.fence.probes import PROBES, Probe

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]

USER = "1000:1000"
SLOW = (39, 41, 43)
"""Package tools with their own retries: only one set-up waits for them."""

PATIENT = "closed-nft-user"
SETUPS = ("closed-nft-root", PATIENT, "closed-legacy-root", "sni-nft-root")
ATTACKS = [
    pytest.param(setup, probe, id=f"{setup}-{probe.number}-{probe.title.replace(' ', '-')}")
    for setup in SETUPS
    for probe in PROBES
    if setup == PATIENT or probe.number not in SLOW
]


@dataclass
class Setup:
    """One way to stand before the fence, with what was printed there and seen outside."""

    said: dict[int, str]
    seen: list[str]
    report: FenceReport | None


def script(lab: Lab, skip: tuple[int, ...] = ()) -> str:
    places = lab.places()
    sockets = f"{lab.outside.other} {lab.outside.vendor} {lab.gateway} {lab.sibling}"
    lines = [f"python3 /probe/sockets.py {sockets} >/tmp/sockets 2>&1"]
    for probe in PROBES:
        if probe.number not in skip:
            command = probe.command.format(**places)
            lines.append(f"echo; echo @@{probe.number}; {{ {command}; }} 2>&1 </dev/null")
    return "\n".join(lines)


def sections(text: str) -> dict[int, str]:
    parts = re.split(r"^@@(\d+)$", text, flags=re.MULTILINE)
    return {int(number): said.strip() for number, said in zip(parts[1::2], parts[2::2], strict=True)}


def attack(lab: Lab, mode: str, backend: str, user: str, where: str, skip: tuple[int, ...]) -> Setup:
    before = len(lab.outside.seen)
    with lab.fence(mode, backend=backend, where=where) as fence:
        with lab.agent(fence, ("bash", "-c", script(lab, skip)), user=user) as agent:
            said = sections(lab.output(agent))
        return Setup(said, lab.outside.seen[before:], fence.report())


@pytest.fixture(scope="session")
def control(lab: Lab) -> Setup:
    """The same attacks with nothing in their way."""
    wanted = {probe.number for probe in PROBES if probe.open}
    skip = tuple(probe.number for probe in PROBES if probe.number not in wanted)
    with lab.container("bridge", ("bash", "-c", script(lab, skip)), caps=(*ROOT_CAPS, "NET_RAW")) as container:
        return Setup(sections(lab.output(container)), [], None)


@pytest.fixture(scope="session")
def attacked(lab: Lab) -> Callable[[str], Setup]:
    """Attack a set-up, once in a session."""

    @functools.cache
    def once(setup: str) -> Setup:
        mode, backend, who = setup.split("-")
        where = lab.network6 if setup == "closed-nft-root" else "bridge"
        skip = () if setup == PATIENT else SLOW
        return attack(lab, mode, backend, "0:0" if who == "root" else USER, where, skip)

    return once


@pytest.mark.parametrize(("setup", "probe"), ATTACKS)
def test_attack_fails(attacked: Callable[[str], Setup], setup: str, probe: Probe) -> None:
    said = attacked(setup).said[probe.number]
    expected = probe.gate if setup.startswith("sni") and probe.gate else probe.fenced
    assert re.search(expected, said, re.MULTILINE), said


@pytest.mark.parametrize(
    "probe",
    [probe for probe in PROBES if probe.open],
    ids=lambda probe: f"{probe.number}-{probe.title.replace(' ', '-')}",
)
def test_attack_works_without_a_fence(control: Setup, probe: Probe) -> None:
    assert re.search(probe.open, control.said[probe.number], re.MULTILINE), control.said[probe.number]


@pytest.mark.parametrize("setup", SETUPS)
def test_outside_saw_the_vendor_called_and_nothing_else(attacked: Callable[[str], Setup], setup: str) -> None:
    seen = set(attacked(setup).seen)
    shared = {"TLS other.test", "GET other.test /"}
    allowed = {"TLS api.vendor.test", "GET api.vendor.test /"} | (set() if setup.startswith("sni") else shared)
    assert {"GET api.vendor.test /"} <= seen <= allowed


@pytest.mark.parametrize("setup", SETUPS)
def test_report_has_the_names_and_the_addresses(attacked: Callable[[str], Setup], setup: str, lab: Lab) -> None:
    report = attacked(setup).report
    assert report is not None
    assert report.complete
    assert report.names_refused["secret.exfil.test"] >= 1
    assert report.names_refused["code.test"] >= 1
    assert report.addresses_refused[f"tcp {lab.outside.other}:443"] >= 3
    assert report.addresses_refused[f"udp {lab.outside.vendor}:443"] >= 1
    assert report.addresses_refused["tcp 169.254.169.254:80"] == 1
    listed = sum(report.addresses_refused.values())
    assert report.packets_refused == listed + report.packets_unlisted
    assert report.servers_refused == ({"other.test": 1} if setup.startswith("sni") else {})


@pytest.mark.parametrize("setup", SETUPS)
def test_every_kind_of_socket(attacked: Callable[[str], Setup], setup: str) -> None:
    verdicts = dict(line.split(" ", 1) for line in attacked(setup).said[26].splitlines())
    replies = {
        name for name, verdict in verdicts.items() if verdict in ("ANSWERED", "SENT", "CONNECTED", "MADE", "SET")
    }
    assert replies == {"echo_loopback"}
