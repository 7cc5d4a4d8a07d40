"""A fence from its start to its end: what it proves, what happens when it dies, what an agent can make it keep."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator

import pytest

from assay.model.errors import EngineError, FenceFailed
from assay.sandbox.engine import Engine
from assay.sandbox.fence import Fence
from assay.sandbox.rules import CLOSED, OPEN, SNI, Pin
from tests.fence.conftest import Lab, tar

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]

CALL = "curl -s -m5 --cacert /ca.pem https://api.vendor.test/; echo rc=$?"


@contextlib.contextmanager
def altered(lab: Lab, dockerfile: str) -> Iterator[str]:
    """The fence's image with something broken in it."""
    tag = f"assay-test-fence:{time.time_ns()}"
    context = tar({"Dockerfile": f"FROM {lab.image}\n{dockerfile}\n".encode()})
    import io

    for part in lab.engine.api.build(fileobj=io.BytesIO(context), custom_context=True, tag=tag, rm=True, decode=True):
        assert "error" not in part, part
    yield tag
    lab.engine.api.remove_image(tag)


def ended(fence: Fence) -> tuple[list[str], threading.Event]:
    reasons: list[str] = []
    gone = threading.Event()

    def call(why: str) -> None:
        reasons.append(why)
        gone.set()

    fence.watch(call)
    return reasons, gone


@pytest.mark.parametrize("backend", ["nft", "legacy"])
@pytest.mark.parametrize("mode", [CLOSED, SNI])
def test_a_forced_backend_holds_and_counts(lab: Lab, backend: str, mode: str) -> None:
    with lab.fence(mode, backend=backend) as fence, lab.agent(fence) as agent:
        assert "host=api.vendor.test\nrc=0" in lab.shell(agent, CALL)
        assert "rc=7" in lab.shell(agent, f"curl -sk -m5 https://{lab.outside.other}/; echo rc=$?")
        report = fence.report()
    assert report.backend == backend
    assert report.addresses_refused == {f"tcp {lab.outside.other}:443": 1}
    assert (report.packets_refused, report.packets_unlisted) == (1, 0)


def test_rules_of_both_families_stand_without_ipv6(lab: Lab) -> None:
    with lab.fence(backend="nft") as fence:
        inside = fence.network.removeprefix("container:")
        assert lab.engine.run_in(inside, ["cat", "/proc/net/if_inet6"])[1] == b""
        rules = lab.engine.run_in(inside, ["ip6tables-nft-save", "-t", "filter"])[1].decode()
    assert ":OUTPUT DROP" in rules
    assert ":INPUT DROP" in rules
    assert lab.outside.vendor6 in rules


def test_names_without_a_way_out_are_not_offered(lab: Lab) -> None:
    """Where there is no IPv6, an IPv6 address in the hosts file would only cost the agent a failed attempt."""
    with lab.fence() as fence, lab.agent(fence) as agent:
        assert lab.shell(agent, "getent ahosts api.vendor.test | cut -d' ' -f1 | sort -u") == f"{lab.outside.vendor}\n"
    with lab.fence(where=lab.network6) as fence, lab.agent(fence) as agent:
        told = lab.shell(agent, "getent ahosts api.vendor.test | cut -d' ' -f1 | sort -u").split()
    assert set(told) == {lab.outside.vendor, lab.outside.vendor6}


@pytest.mark.parametrize("signal", ["KILL", "TERM"])
def test_killed_it_closes_and_says_so(lab: Lab, signal: str) -> None:
    with lab.fence() as fence, lab.agent(fence) as agent:
        reasons, gone = ended(fence)
        assert "rc=0" in lab.shell(agent, CALL)
        lab.engine.signal(fence.network.removeprefix("container:"), signal)
        assert gone.wait(20)
        assert reasons[0].startswith("the fence is gone: its container ended (exit ")
        assert fence.ended
        assert "rc=0" not in lab.shell(agent, CALL)
        assert lab.shell(agent, f"curl -sk -m3 https://{lab.outside.other}/; echo rc=$?") == "rc=7\n"
        assert not fence.report().complete
        # The dead fence's namespace cannot be joined again either.
        lab.engine.signal(agent, "KILL")
        lab.engine.wait(agent)
        with pytest.raises(EngineError, match="non running container"):
            lab.engine.start(agent)


def test_restarted_it_stays_closed_and_says_so(lab: Lab) -> None:
    with lab.fence() as fence, lab.agent(fence) as agent:
        reasons, gone = ended(fence)
        lab.engine.api.restart(fence.network.removeprefix("container:"), timeout=0)
        assert gone.wait(20)
        assert reasons[0].startswith("the fence is gone: its container ")
        assert "rc=0" not in lab.shell(agent, CALL)
        assert lab.shell(agent, f"curl -sk -m3 https://{lab.outside.other}/; echo rc=$?") == "rc=7\n"


def test_a_gate_that_dies_closes_and_says_so(lab: Lab) -> None:
    with lab.fence(SNI) as fence, lab.agent(fence) as agent:
        reasons, gone = ended(fence)
        assert "rc=0" in lab.shell(agent, CALL)
        lab.engine.signal(f"{fence.name}-gate", "KILL")
        assert gone.wait(20)
        assert len(reasons) == 1
        assert "rc=0" not in lab.shell(agent, CALL)


def test_a_proxy_that_dies_takes_its_gate_along(lab: Lab) -> None:
    with lab.fence(SNI) as fence:
        reasons, gone = ended(fence)
        gate = f"{fence.name}-gate"
        lab.engine.run_in(
            gate, ["python3", "-c", "import os; os.kill(int(open('/run/fence/haproxy/pid').read()), 9)"], "65534"
        )
        assert gone.wait(20)
        assert reasons == ["the fence is gone: the gate's proxy ended"]


def test_stopping_on_purpose_is_no_death(lab: Lab) -> None:
    with lab.fence() as fence:
        reasons, gone = ended(fence)
        fence.stop()
        assert not gone.wait(1)
        assert reasons == []


def test_another_process_takes_over(lab: Lab) -> None:
    with lab.fence() as fence, lab.agent(fence) as agent:
        lab.shell(agent, "getent hosts before.test")
        fence.report()
        other = Fence.attach(Engine.connect(), fence.network.removeprefix("container:"), CLOSED)
        other.ready()
        lab.shell(agent, "getent hosts after.test")
        assert set(other.report().names_refused) == {"before.test", "after.test"}


def test_forty_at_once(lab: Lab) -> None:
    """They share the engine's default network, so no pool of addresses runs out."""
    with contextlib.ExitStack() as stack:
        fences = [stack.enter_context(lab.unready()) for _ in range(40)]
        for fence in fences:
            fence.ready(100)
        first, last = fences[0], fences[-1]
        with lab.agent(first) as agent:
            assert "rc=0" in lab.shell(agent, CALL)
            neighbour = lab.engine.address(last.network.removeprefix("container:"))
            assert lab.shell(agent, f"curl -s -m5 http://{neighbour}/; echo rc=$?") == "rc=7\n"
        with contextlib.ExitStack() as ending:
            for fence in fences:
                thread = threading.Thread(target=fence.stop)
                thread.start()
                ending.callback(thread.join)


FLOOD = """
import socket, time
server = ("127.0.0.1", 53)
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.setblocking(False)
for n in range(20000):
    label = b"%06d" % n + b"x" * 50
    try:
        names.sendto(b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + bytes([len(label)]) + label + b"\\0\\0\\1\\0\\1", server)
    except OSError:
        time.sleep(0.001)
for n in range(20000):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as packets:
        try:
            packets.sendto(b"x", ("198.18.%d.%d" % (n >> 8 & 255, n & 255), 9))
        except OSError:
            pass
"""


def test_a_flood_is_counted_and_not_kept(lab: Lab) -> None:
    with lab.fence() as fence, lab.agent(fence, ("python3", "-c", FLOOD)) as agent:
        lab.engine.wait(agent)
        report = fence.report()
        kept = b"".join(data for _, data in lab.engine.log(fence.network.removeprefix("container:"), follow=False))
    assert len(report.names_asked) == 256
    assert report.names_unlisted > 1000
    assert report.packets_refused == 20000
    assert report.packets_refused == sum(report.addresses_refused.values()) + report.packets_unlisted
    assert len(report.addresses_refused) <= 256
    assert len(kept) < 100_000
    assert len(json.dumps(report.as_dict())) < 100_000


def test_further_addresses_come_in_during_a_run(lab: Lab) -> None:
    """Rules first, then names; counters go on; what was pinned stays."""
    with lab.fence(where=lab.network6, pins=(Pin("api.vendor.test", (lab.outside.vendor,), private=True),)) as fence:
        with lab.agent(fence) as agent:
            reach = CALL.replace("-s ", f"-s --resolve api.vendor.test:443:{lab.outside.second} ")
            assert lab.shell(agent, reach) == "rc=7\n"
            addresses = (lab.outside.vendor, lab.outside.second, lab.outside.vendor6)
            fence.extend((Pin("api.vendor.test", addresses, private=True),))
            assert "rc=0" in lab.shell(agent, reach)
            assert "rc=0" in lab.shell(agent, CALL.replace("-s ", "-s6 "))
            assert set(lab.shell(agent, "getent ahosts api.vendor.test | cut -d' ' -f1").split()) == set(addresses)
            assert "rc=7" in lab.shell(agent, f"curl -sk -m5 https://{lab.outside.other}/; echo rc=$?")
        report = fence.report()
        assert report.addresses_refused == {f"tcp {lab.outside.second}:443": 1, f"tcp {lab.outside.other}:443": 1}
        assert report.packets_refused == 2


def test_further_addresses_come_in_through_the_gate(lab: Lab) -> None:
    pin = Pin("api.vendor.test", ("198.18.9.9",), private=True)
    with lab.fence(SNI, pins=(pin,)) as fence, lab.agent(fence) as agent:
        assert "rc=0" not in lab.shell(agent, CALL)
        fence.extend((pin._replace(addresses=("198.18.9.9", lab.outside.vendor)),))
        # The proxy tries the first address too; a client's second attempt meets the other one.
        assert "rc=0" in lab.shell(agent, CALL + "; " + CALL)
        assert not fence.ended


def test_refreshing_pins_what_is_new_and_tells_what_cannot_be(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.sandbox import fence as module

    pins = (Pin("a.test", ("8.8.4.4",)), Pin("b.test", ("8.8.4.5",)), Pin("c.test", ("8.8.4.6",)))
    found: list[list[str] | str] = [["8.8.4.4", "8.8.8.8"], "no such host", ["10.0.0.1"]]
    monkeypatch.setattr(module, "look_up", lambda *_: found)
    with lab.fence(pins=pins, backend="nft") as fence:
        refreshed = fence.refresh()
        rules = lab.engine.run_in(fence.network.removeprefix("container:"), ["iptables-nft-save"])[1].decode()
    assert refreshed.added == {"a.test": ("8.8.8.8",)}
    assert len(refreshed.notes) == 2
    assert "8.8.8.8/32" in rules
    assert "10.0.0.1" not in rules


NO_TOOL = "RUN ln -sf /bin/false /usr/sbin/iptables-nft-restore && ln -sf /bin/false /usr/sbin/iptables-legacy-restore"
WORN_OUT = "RUN echo 'raise RuntimeError(\"worn out\")' >>/opt/fence/assay/sandbox/fence_image/names.py"


def losing(backend: str) -> str:
    """An image whose tool loses the rule about the engine's resolver, and reports success."""
    tool = f"/usr/sbin/iptables-{backend}-restore"
    script = f"#!/bin/sh\\ngrep -v 127.0.0.11 | xtables-{backend}-multi iptables-restore\\n"
    return f"RUN rm {tool} && printf '{script}' >{tool} && chmod 755 {tool}"


BROKEN = {
    "no tool can set rules": (NO_TOOL, "auto", "iptables-nft-restore.*iptables-legacy-restore"),
    "a program is not what it was": (WORN_OUT, "auto", "RuntimeError: worn out"),
    "a rule is lost": (
        losing("nft"),
        "auto",
        "read back other IPv4 rules than were set: -A OUTPUT -d 127.0.0.11/32 -g",
    ),
    "a rule is lost on legacy tables": (losing("legacy"), "legacy", "read back other rules than were set: OUTPUT"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_cannot_be_set_up_or_proven_is_no_fence(lab: Lab, what: str) -> None:
    dockerfile, backend, why = BROKEN[what]
    refused = pytest.raises(FenceFailed, match=why)
    with altered(lab, dockerfile) as image, lab.unready(image=image, backend=backend) as fence, refused:
        fence.ready()


def test_a_kernel_without_nftables_gets_legacy_tables(lab: Lab) -> None:
    with altered(lab, "RUN ln -sf /bin/false /usr/sbin/ip6tables-nft-restore") as image:
        with lab.fence(image=image) as fence, lab.agent(fence) as agent:
            assert fence.backend == "legacy"
            assert "rc=0" in lab.shell(agent, CALL)
            assert "rc=7" in lab.shell(agent, f"curl -sk -m5 https://{lab.outside.other}/; echo rc=$?")
        with (
            lab.unready(image=image, backend="nft") as fence,
            pytest.raises(FenceFailed, match="ip6tables-nft-restore"),
        ):
            fence.ready()


def test_a_network_that_is_not_there_is_no_fence(lab: Lab) -> None:
    with lab.unready(where="assay-test-nowhere") as fence, pytest.raises(FenceFailed, match="assay-test-nowhere"):
        fence.ready()


def test_a_probe_that_hangs_or_wanders_is_no_proof(lab: Lab) -> None:
    program = (
        "import sys; sys.path.insert(0, '/opt/fence');"
        "from assay.sandbox.fence_image import firewall;"
        "import subprocess as s;"
        "[s.run(['iptables-nft', *w.split()], check=True) for w in sys.argv[1:]];"
        "print(firewall.probe(lambda: None))"
    )

    def tried(*rules: str) -> str:
        from assay.sandbox.spec import Spec

        made = lab.engine.create(
            Spec(
                lab.image,
                ["python3", "-c", program, *rules],
                f"assay-test-{time.time_ns()}",
                {},
                caps=("NET_ADMIN",),
                network="bridge" if rules else "none",
            )
        )
        try:
            lab.engine.start(made)
            return lab.output(made)
        finally:
            lab.engine.remove(made)

    assert "a probe over IPv4 was not refused: timed out" in tried("-A OUTPUT -j DROP")
    assert "a probe over IPv4 was not refused: [Errno 101]" in tried()
    assert tried("-A OUTPUT -d 198.18.0.1 -p tcp -j REJECT --reject-with tcp-reset") == "1\n"


def test_pins_are_checked_before_anything_is_made(lab: Lab) -> None:
    for mode in (CLOSED, OPEN, SNI):
        with pytest.raises(FenceFailed, match="not of the public internet"):
            Fence(lab.engine, lab.image, (Pin("a.test", ("10.0.0.1",)),), mode, name="x", labels={})
    assert lab.engine.containers({"assay.fence": "agents", "assay.never": "1"}) == []
