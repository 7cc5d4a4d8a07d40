"""All fifty attacks from inside a fence, as root with a task's capabilities and as the agent's user with none.

Each set-up runs them once, in one container; each probe is a test of what it printed. A container without a fence runs
them too, so that an attack that cannot work anywhere is no proof.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from assay.sandbox.fence import FenceReport
from tests.fence.conftest import ROOT_CAPS, Lab
from tests.fence.probes import PROBES, Probe

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]

USER = "1000:1000"
SLOW = (39, 41, 43)
"""Package tools with their own retries: minutes in all, so only one set-up waits for them."""


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


@pytest.fixture(
    scope="session",
    params=["closed-nft-root", "closed-nft-user", "closed-legacy-root", "sni-nft-root"],
)
def setup(lab: Lab, request: pytest.FixtureRequest) -> tuple[str, Setup]:
    mode, backend, who = request.param.split("-")
    where = lab.network6 if request.param == "closed-nft-root" else "bridge"
    skip = () if request.param == "closed-nft-user" else SLOW
    return mode, attack(lab, mode, backend, "0:0" if who == "root" else USER, where, skip)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: f"{probe.number}-{probe.title.replace(' ', '-')}")
def test_attack_fails(setup: tuple[str, Setup], probe: Probe) -> None:
    mode, found = setup
    if probe.number in SLOW and probe.number not in found.said:
        pytest.skip("waited for by another set-up")
    said = found.said[probe.number]
    expected = probe.gate if mode == "sni" and probe.gate else probe.fenced
    assert re.search(expected, said, re.MULTILINE), said


@pytest.mark.parametrize(
    "probe",
    [probe for probe in PROBES if probe.open],
    ids=lambda probe: f"{probe.number}-{probe.title.replace(' ', '-')}",
)
def test_attack_works_without_a_fence(control: Setup, probe: Probe) -> None:
    assert re.search(probe.open, control.said[probe.number], re.MULTILINE), control.said[probe.number]


def test_outside_saw_the_vendor_called_and_nothing_else(setup: tuple[str, Setup]) -> None:
    mode, found = setup
    shared = {"TLS other.test", "GET other.test /"}
    allowed = {"TLS api.vendor.test", "GET api.vendor.test /"} | (shared if mode == "closed" else set())
    assert {"GET api.vendor.test /"} <= set(found.seen) <= allowed


def test_report_has_the_names_and_the_addresses(setup: tuple[str, Setup], lab: Lab) -> None:
    mode, found = setup
    report = found.report
    assert report is not None
    assert report.complete
    assert report.names_refused["secret.exfil.test"] >= 1
    assert report.names_refused["code.test"] >= 1
    assert report.addresses_refused[f"tcp {lab.outside.other}:443"] >= 3
    assert report.addresses_refused[f"udp {lab.outside.vendor}:443"] >= 1
    assert report.addresses_refused["tcp 169.254.169.254:80"] == 1
    listed = sum(report.addresses_refused.values())
    assert report.packets_refused == listed + report.packets_unlisted
    assert report.servers_refused == ({"other.test": 1} if mode == "sni" else {})


def test_every_kind_of_socket(setup: tuple[str, Setup]) -> None:
    verdicts = dict(line.split(" ", 1) for line in setup[1].said[26].splitlines())
    replies = {
        name for name, verdict in verdicts.items() if verdict in ("ANSWERED", "SENT", "CONNECTED", "MADE", "SET")
    }
    assert replies == {"echo_loopback"}
