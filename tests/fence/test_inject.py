"""The gate that ends TLS and puts the credential in: what passes, with what, and where the credential is meanwhile."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from assay.sandbox.fence import Fence
from assay.sandbox.fence_image.inject import Injection, read
from assay.sandbox.rules import INJECT, Pin
from assay.sandbox.trust import Authority
from tests.credentials.traces import in_image
from tests.fence.conftest import Lab, tar

PLACEHOLDER = "sk-test-5f2e9a7c01"


def injection(lab: Lab, hosts: Sequence[str], credential: str, ca: bytes | None = None) -> tuple[Injection, bytes]:
    authority = Authority(hosts)
    leaves = tuple((host, b"".join(authority.leaf([host])).decode()) for host in hosts)
    trust = (lab.outside.ca if ca is None else ca).decode()
    headers, paths = ("x-api-key", "authorization"), ("/v1/", "/v2/")
    return Injection(PLACEHOLDER, credential, headers, paths, leaves, trust, public=ca is None), authority.pem


@contextmanager
def injecting(
    lab: Lab, credential: str, *, pins: Sequence[Pin] | None = None, ca: bytes | None = None
) -> Iterator[tuple[Fence, str]]:
    """A fence that injects, and an agent's container that trusts it."""
    pins = lab.pins if pins is None else pins
    put_in, trusted = injection(lab, [pin.host for pin in pins], credential, ca)
    with lab.fence(INJECT, pins, injection=put_in) as fence, lab.agent(fence) as agent:
        lab.engine.put(agent, tar({"gate.pem": trusted}))
        yield fence, agent


def canary() -> str:
    return f"sk-live-{uuid.uuid4().hex}"


def ask(lab: Lab, agent: str, arguments: str) -> str:
    said = lab.shell(agent, f"curl -sS -m9 --cacert /gate.pem -w 'code=%{{http_code}} ' {arguments}; echo rc=$?")
    return " ".join(said.split())


def test_what_is_handed_over_comes_back_as_it_was_written() -> None:
    odd = Injection("p", 'a "b" \\ %[x] \udcff', ("h",), ("/v1/",), (("a.test", "PEM\n"),), "CA\n", public=False)
    assert read(odd.written().decode()) == odd
    assert odd.written().count(b"\n") == 1


OURS = "-H 'x-api-key: {placeholder}' "
CARRIED = "-H 'x-api-key: {placeholder}' https://api.vendor.test/v1/messages"
PASSES = {
    "bare": (CARRIED, "x-api-key: {credential}"),
    "after a scheme": (
        "-H 'Authorization: Bearer {placeholder}' https://api.vendor.test/v1/messages",
        "authorization: Bearer {credential}",
    ),
    "by HTTP/1.1": ("--http1.1 " + CARRIED, "x-api-key: {credential}"),
    "a second path": ("-H 'x-api-key: {placeholder}' https://api.vendor.test/v2/x?y=z", "x-api-key: {credential}"),
    "a query of other words": (
        "-H 'x-api-key: {placeholder}' 'https://api.vendor.test/v1/x?alt=sse&beta=true&client_version=1.2&q=a%20key=b'",
        "x-api-key: {credential}",
    ),
    "with a body": ("-d @/proc/self/maps " + CARRIED, "x-api-key: {credential}"),
    "another host": ("-H 'Host: other.test' " + CARRIED, "x-api-key: {credential}"),
    "another host, by HTTP/1.1": ("--http1.1 -H 'Host: other.test' " + CARRIED, "x-api-key: {credential}"),
    "another host, in the URI": (
        "--http1.1 --request-target https://other.test/v1/x -H 'Host: other.test' " + CARRIED,
        "x-api-key: {credential}",
    ),
}
REFUSED = {
    "no path of the API": ("-H 'x-api-key: {placeholder}' https://api.vendor.test/admin", "code=403"),
    "a path that goes up": ("--path-as-is -H 'x-api-key: {placeholder}' https://api.vendor.test/v1/../x", "code=403"),
    "a path that is coded": ("-H 'x-api-key: {placeholder}' https://api.vendor.test/v1/%2E%2e/x", "code=403"),
    "another key": ("-H 'x-api-key: sk-theirs' https://api.vendor.test/v1/messages", "code=403"),
    "another key beside ours": ("-H 'Authorization: Bearer sk-theirs' " + CARRIED, "code=403"),
    "ours twice": ("-H 'x-api-key: {placeholder}' " + CARRIED, "code=403"),
    "more than ours": ("-H 'x-api-key: {placeholder}0' https://api.vendor.test/v1/messages", "code=403"),
    "another run's": ("-H 'x-api-key: sk-test-0000000000' https://api.vendor.test/v1/messages", "code=403"),
    "ours in the query": ("https://api.vendor.test/v1/q?key={placeholder}", "code=403"),
    "ours in the query, too": (OURS + "https://api.vendor.test/v1/q?alt=sse\\&key={placeholder}", "code=403"),
    "another key in the query": (OURS + "https://api.vendor.test/v1/q?a=b\\&key=sk-theirs\\&c=d", "code=403"),
    "another key, in capitals": (OURS + "https://api.vendor.test/v1/q?API_KEY=sk-theirs", "code=403"),
    "another key, coded": (OURS + "https://api.vendor.test/v1/q?k%65y=sk-theirs", "code=403"),
    "another key after a semicolon": (OURS + "'https://api.vendor.test/v1/q?a=b;key=sk-theirs'", "code=403"),
    "another key after a coded ampersand": (OURS + "https://api.vendor.test/v1/q?a=b%26key=sk-theirs", "code=403"),
    "a token in the query": (OURS + "https://api.vendor.test/v1/q?access_token=theirs", "code=403"),
    "a header in the query": (OURS + "'https://api.vendor.test/v1/q?$httpHeaders=x-api-key:theirs'", "code=403"),
    "ours under another name": (OURS + "https://api.vendor.test/v1/q?x={placeholder}", "code=403"),
    "another key, where a part cannot be read": (
        OURS + "'https://api.vendor.test/v1/q?x=%zz&k%65y=theirs'",
        "code=403",
    ),
    "a key without a value": (OURS + "https://api.vendor.test/v1/q?key", "code=403"),
    "an echo of what arrives": ("-X TRACE " + CARRIED, "code=403"),
    "no key at all": ("https://api.vendor.test/v1/models", "code=403"),
    "another name": ("-k --connect-to other.test:443:api.vendor.test:443 https://other.test/v1/x", "rc=(35|52|56)"),
    "plain text": ("http://api.vendor.test:443/v1/x", "rc=(52|56)"),
}


@pytest.mark.docker
@pytest.mark.timeout(180)
def test_a_request_gets_the_credential_and_leads_nowhere_else(lab: Lab) -> None:
    """S18: another `Host` is rewritten, another path is refused, the vendor sees the credential."""
    credential = canary()
    with injecting(lab, credential) as (fence, agent):
        for what, (arguments, seen) in PASSES.items():
            before = len(lab.outside.seen)
            said = ask(lab, agent, arguments.format(placeholder=PLACEHOLDER))
            assert said == "host=api.vendor.test code=200 rc=0", what
            there = list(lab.outside.seen[before:])
            assert there[0] == "TLS api.vendor.test" or there[0].startswith("GET api.vendor.test /v"), what
            assert [line for line in there if ": " in line] == [seen.format(credential=credential)], what
        report = fence.report()
    assert report.requests_injected == len(PASSES)
    assert report.requests_refused == {}


@pytest.mark.docker
@pytest.mark.timeout(180)
def test_whatever_else_is_asked_goes_nowhere(lab: Lab) -> None:
    credential = canary()
    with injecting(lab, credential) as (fence, agent):
        before = len(lab.outside.seen)
        for what, (arguments, expected) in REFUSED.items():
            said = ask(lab, agent, arguments.format(placeholder=PLACEHOLDER))
            assert re.search(expected, said), f"{what}: {said}"
        assert "code=200" in ask(lab, agent, CARRIED.format(placeholder=PLACEHOLDER))
        report = fence.report()
    asked = [line for line in lab.outside.seen[before:] if not line.startswith("TLS")]
    assert asked == ["GET api.vendor.test /v1/messages", f"x-api-key: {credential}"]
    no_path, no_placeholder = "not below a path of the entry", "without this run's placeholder"
    assert report.requests_refused == {
        f"api.vendor.test/admin: {no_path}": 1,
        f"api.vendor.test/v1/../x: {no_path}": 1,
        f"api.vendor.test/v1/%2E%2e/x: {no_path}": 1,
        f"api.vendor.test/v1/messages: {no_placeholder}": 5,
        f"api.vendor.test/v1/models: {no_placeholder}": 1,
        "api.vendor.test/v1/q: a credential in the query, where none is put in": 12,
        "api.vendor.test/v1/messages: asks to be sent back as it arrives": 1,
    }
    assert report.requests_injected == 1
    assert report.servers_refused == {"other.test": 1, "-": 1}


@pytest.mark.docker
def test_a_request_is_answered_as_it_comes(lab: Lab) -> None:
    """The second event is sent only once the first was seen: a gate that holds events back hangs here."""
    with injecting(lab, canary()) as (_, agent):
        call = f"curl -sN -m40 --cacert /gate.pem -H 'x-api-key: {PLACEHOLDER}' https://api.vendor.test/v1"
        said = lab.shell(agent, f"{call}/stream | {{ read -r one; echo $one; {call}/go >/dev/null; cat; }}; echo rc=$?")
    assert said.split() == ["data:", "one", "data:", "two", "rc=0"]


UPGRADE = """
import socket, ssl, sys
context = ssl.create_default_context(cafile="/gate.pem")
one = context.wrap_socket(socket.create_connection(("api.vendor.test", 443)), server_hostname="api.vendor.test")
head = ("GET /v1/live HTTP/1.1", "Host: api.vendor.test", "Connection: Upgrade", "Upgrade: websocket",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Authorization: Bearer " + sys.argv[1], "", "")
one.sendall("\\r\\n".join(head).encode())
answer = one.recv(4096)
for word in (b"there", b"and back"):
    one.sendall(word)
    print(answer.split()[1].decode(), one.recv(100).decode())
"""


@pytest.mark.docker
def test_a_websocket_stays_open_both_ways(lab: Lab) -> None:
    credential = canary()
    with injecting(lab, credential) as (fence, agent):
        lab.engine.put(agent, tar({"upgrade.py": UPGRADE.encode()}))
        assert lab.shell(agent, f"python3 /upgrade.py {PLACEHOLDER}") == "101 there\n101 and back\n"
        assert fence.report().requests_injected == 1
    assert f"authorization: Bearer {credential}" in lab.outside.seen


@pytest.mark.docker
def test_who_cannot_prove_to_be_the_vendor_gets_nothing(lab: Lab) -> None:
    """Somebody answers at the address, with a certificate of an authority that nobody trusts, or of another host."""
    credential = canary()
    strange = Authority(["api.vendor.test"]).pem
    other = (Pin("api2.vendor.test", (lab.outside.vendor,), private=True),)
    for pins, ca in ((lab.pins, strange), (other, None)):
        with injecting(lab, credential, pins=pins, ca=ca) as (fence, agent):
            host = pins[0].host
            assert "code=503" in ask(
                lab, agent, CARRIED.format(placeholder=PLACEHOLDER).replace("api.vendor.test", host)
            )
            refused = fence.report().requests_refused
        assert refused == {f"{host}: no answer there that its certificate vouches for": 1}
    assert not [line for line in lab.outside.seen if credential in line]


@pytest.mark.docker
def test_a_credential_may_hold_any_character(lab: Lab) -> None:
    credential = """ a"b'c\\1 %[x] ${HOME} #z """.strip()
    with injecting(lab, credential) as (_, agent):
        assert "code=200" in ask(lab, agent, CARRIED.format(placeholder=PLACEHOLDER))
    assert f"x-api-key: {credential}" in lab.outside.seen


@pytest.mark.docker
def test_each_host_has_its_own_entrance(lab: Lab) -> None:
    """Within the connection to one host, the other cannot be asked for."""
    pins = (*lab.pins, Pin("auth.vendor.test", (lab.outside.second,), private=True))
    with injecting(lab, canary(), pins=pins) as (_, agent):
        for asked, host in (("api", "auth"), ("auth", "api")):
            arguments = f"-H 'Host: {host}.vendor.test' -H 'x-api-key: {PLACEHOLDER}' https://{asked}.vendor.test/v1/x"
            assert ask(lab, agent, arguments) == f"host={asked}.vendor.test code=200 rc=0"


@pytest.mark.docker
@pytest.mark.timeout(120)
def test_further_addresses_and_another_process(lab: Lab) -> None:
    """What was put in at the start is put in after a refresh, and whoever takes over sees what was counted."""
    pin = Pin("api.vendor.test", ("198.18.9.9",), private=True)
    credential = canary()
    with injecting(lab, credential, pins=(pin,)) as (fence, agent):
        fence.extend((pin._replace(addresses=("198.18.9.9", lab.outside.vendor)),))
        call = f"--retry 3 --retry-delay 0 {CARRIED.format(placeholder=PLACEHOLDER)}"
        assert "code=200" in ask(lab, agent, call)
        gate = f"{fence.name}-gate"
        assert lab.engine.run_in(gate, ["ls", "/run/fence/keys"])[1] == b""
        other = Fence.attach(lab.engine, fence.network.removeprefix("container:"), INJECT, gate)
        other.ready()
        assert (other.report().requests_injected or 0) >= 1
    assert f"x-api-key: {credential}" in lab.outside.seen


@pytest.mark.docker
@pytest.mark.timeout(120)
def test_the_credential_is_in_the_gates_memory_alone(lab: Lab) -> None:
    """So are the keys of the gate's certificates, of which a line is looked for."""
    put_in, trusted = injection(lab, ["api.vendor.test"], canary())
    secrets = [put_in.credential, put_in.leaves[0][1].splitlines()[-2]]
    with lab.fence(INJECT, injection=put_in) as fence, lab.agent(fence) as agent:
        lab.engine.put(agent, tar({"gate.pem": trusted}))
        assert "code=200" in ask(lab, agent, CARRIED.format(placeholder=PLACEHOLDER))
        gate = f"{fence.name}-gate"
        # Written so that a pattern does not match itself, where the search finds its own command line.
        patterns = " ".join(f"-e '[{secret[0]}]{secret[1:]}'" for secret in secrets)
        search = f"cat /proc/*/environ /proc/*/cmdline; grep -rsa {patterns} /run /tmp /etc /var /opt/fence; true"
        for container in (gate, agent):
            code, found = lab.engine.run_in(container, ["sh", "-c", search])
            assert (code, b"PATH=" in found) == (0, True)
            assert [secret for secret in secrets if secret.encode() in found] == []
            told = f"{lab.engine.inspect(container)} {list(lab.engine.log(container, follow=False))}"
            assert [secret for secret in secrets if secret in told] == []
        image = lab.engine.commit(gate, "assay-test", uuid.uuid4().hex[:12], lab.labels)
        try:
            assert in_image([secret.encode() for secret in secrets], lab.engine, image) == []
        finally:
            lab.engine.remove_image(image)
