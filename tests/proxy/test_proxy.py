"""Behind a corporate proxy: a real run goes out through it, to its vendor's hosts and nowhere else, or is refused."""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from assay.model.errors import UsageError
from assay.sandbox.archive import Put, pack
from assay.sandbox.engine import Engine
from assay.sandbox.fence_image.tunnel import server_name
from assay.sandbox.images import Builder
from assay.sandbox.proxy import Proxy, chosen
from assay.sandbox.rules import Pin, Plan, Via, read
from assay.sandbox.rules import written as plan_written
from assay.sandbox.spec import Spec
from tests.ask.conftest import forget
from tests.conftest import MakeProject
from tests.credentials.shelly import AGENT
from tests.credentials.traces import Sampler, in_files, on_the_engine, written

HOSTS = ["api.vendor.test", "auth.vendor.test"]
PASSWORD = "p@ss-canary-7f3a9c"


@pytest.mark.parametrize(
    ("environ", "shown"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://proxy.corp:3128"}, "proxy.corp:3128 (HTTPS_PROXY)"),
        ({"HTTPS_PROXY": "http://a:1", "https_proxy": "b:2"}, "b:2 (https_proxy)"),
        ({"ALL_PROXY": "http://a"}, "a:80 (ALL_PROXY)"),
        ({"HTTP_PROXY": "http://a:1"}, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "localhost,.vendor.test"}, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "*"}, None),
        ({"HTTPS_PROXY": "http://a:1", "no_proxy": "api.vendor.test"}, "a:1 (HTTPS_PROXY)"),
        ({"HTTPS_PROXY": "http://a:1", "no_proxy": "ndor.test"}, "a:1 (HTTPS_PROXY)"),
        ({"HTTPS_PROXY": "http://[fd00::1]:3128"}, "fd00::1:3128 (HTTPS_PROXY)"),
    ],
)
def test_the_environment_says_which(environ: dict[str, str], shown: str | None) -> None:
    found = chosen(environ, HOSTS)
    assert (found.shown if found else None) == shown
    assert chosen(environ, []) is None


def test_a_password_is_known_and_not_shown() -> None:
    found = chosen({"HTTPS_PROXY": "http://user:p%40ss-canary@proxy.corp:3128"}, HOSTS)
    assert isinstance(found, Proxy)
    assert found.auth == "dXNlcjpwQHNzLWNhbmFyeQ=="
    assert {"p@ss-canary", "p%40ss-canary", found.auth} == set(found.secrets)
    assert "canary" not in found.shown


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("http://localhost:3128", "this machine itself"),
        ("127.0.0.1:3128", "this machine itself"),
        ("https://proxy.corp:3128", "not https://"),
        ("socks5://proxy.corp:1080", "not socks5://"),
        ("http://", "is not the address of a proxy"),
        ("http://proxy:port", "is not the address of a proxy"),
    ],
)
def test_what_no_container_can_use_is_refused(value: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        chosen({"HTTPS_PROXY": value}, HOSTS)
    assert "no way to api.vendor.test" in str(refused.value)


def test_a_plan_comes_back_as_it_was_written() -> None:
    plan = Plan(
        "closed", (Pin("proxy", ("10.0.0.1",), (3128,)),), (443,), via=Via("10.0.0.1", 3128, "YQ=="), names=("a", "b")
    )
    assert read(plan_written(plan)) == plan
    assert read(plan_written(plan._replace(via=Via("fd00::1", 80)))).via == Via("fd00::1", 80, "")


def test_hostile_hellos_have_no_name() -> None:
    for n in range(300):
        assert server_name(bytes([1]) + n.to_bytes(3, "big") + b"\x03\x03" + bytes(32) + bytes([n % 256]) * n) in ("",)
    assert server_name(b"") == ""


@dataclass
class Network:
    """The container of a corporate network."""

    engine: Engine
    container: str
    address: str
    ca: bytes

    def asked(self) -> list[str]:
        said = b"".join(data for stream, data in self.engine.log(self.container, follow=False) if stream == 1)
        return [line for line in said.decode().splitlines() if line != "ready"]


@pytest.fixture
def network() -> Iterator[Network]:
    engine, authority = Engine.connect(), trustme.CA()
    cert = authority.issue_cert("api.vendor.test", "other.vendor.test")
    pem = cert.private_key_pem.bytes() + b"".join(blob.bytes() for blob in cert.cert_chain_pems)
    spec = Spec(
        image=Builder(engine).environment().id,
        argv=["python3", "/net/corporate.py", "/net/cert.pem", f"user:{PASSWORD}"],
        name=f"assay-test-proxy-{time.time_ns()}",
        labels={"assay.test": "proxy"},
        network="bridge",
        caps=("NET_BIND_SERVICE",),
    )
    with closing(engine.api):
        container = engine.create(spec)
        try:
            code = (Path(__file__).parent / "corporate.py").read_bytes()
            engine.put(container, pack([Put("net"), Put("net/corporate.py", code), Put("net/cert.pem", pem)]))
            engine.start(container)
            assert any(b"ready" in data for _, data in engine.log(container, follow=True))
            yield Network(engine, container, engine.address(container), authority.cert_pem.bytes())
        finally:
            engine.remove(container)


LOOK = """
curl -sS -m 20 https://api.vendor.test/ | head -c 26; echo "; allowed"
for n in 1 2 3 4 5; do curl -sS -m 20 -o big$n https://api.vendor.test/big & done; wait; cat big* | wc -c
gate=$(getent hosts api.vendor.test | cut -d' ' -f1)
curl -sS -m 10 --resolve other.vendor.test:443:$gate https://other.vendor.test/; echo "another name: $?"
curl -sSk -m 10 https://$gate/; echo "no name: $?"
curl -sS -m 10 http://$gate:443/; echo "no TLS: $?"
curl -sS -m 5 http://PROXY:3128/; echo "the proxy itself: $?"
curl -sS -m 5 -x http://PROXY:3128 https://other.vendor.test/; echo "through the proxy: $?"
env | grep -i proxy; echo "no variable: $?"
"""


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_a_run_goes_out_through_the_proxy_and_nowhere_else(project: MakeProject, network: Network) -> None:
    agent = AGENT.replace("hosts = []", 'hosts = ["api.vendor.test"]').replace(
        'session = "given"', 'session = "given"\nca_env = ["CURL_CA_BUNDLE"]'
    )
    here = project(
        {
            "agents.toml": agent,
            "assay.toml": '[defaults]\nca_bundle = "ca.pem"\n',
            "ca.pem": network.ca,
            "tasks/t/prompt.md": LOOK.replace("PROXY", network.address),
        }
    )
    here.run("build", "shelly", timeout=200).assert_code(0)
    quoted = PASSWORD.replace("@", "%40")
    way = {"HTTPS_PROXY": f"http://user:{quoted}@{network.address}:3128", "SHELLY_TOKEN": "token-0123456789"}
    needles = [PASSWORD.encode(), quoted.encode()]
    planned = here.run("run", "tasks/t", "--agent", "shelly", "--dry-run", env=way).assert_code(0)
    planned.assert_says(f"api.vendor.test through {network.address}:3128 (HTTPS_PROXY)")
    sampler = Sampler(needles, here.root)
    sampler.start()
    out = here.run("run", "tasks/t", "--agent", "shelly", env=way, timeout=120).assert_code(0)
    sampler.stop()
    said = (here.runs[0] / "transcript.txt").read_text()
    assert "hello from api.vendor.test; allowed" in said, said
    assert str(5 * (200_000 + len("hello from api.vendor.test\n") + 1)) in said
    for line in ("another name", "no name", "no TLS", "the proxy itself", "through the proxy"):
        assert f"{line}: 0" not in said, said
        assert f"{line}: 28" not in said, f"{line} hung: {said}"
    assert "no variable: 1" in said
    assert set(network.asked()) == {"CONNECT api.vendor.test:443 HTTP/1.1 allowed"}
    fence = json.loads((here.runs[0] / "fence.json").read_text())
    assert fence["servers_refused"] == {"other.vendor.test": 1, "-": 2}
    assert f"tcp {network.address}:3128" in fence["addresses_refused"]
    # The test's own container has the password on its command line; ours have it nowhere.
    assert [seen for seen in sampler.seen if "corporate.py" not in seen] == []
    assert [needle for needle in needles if needle in (planned.out + out.out + out.err).encode()] == []
    assert in_files(needles, here.root / "runs") == []


SPEND = """
echo "inside: $SHELLY_TOKEN"; env >env.txt; cat /proc/self/environ >>env.txt
curl -sS -m 20 -H "x-api-key: $SHELLY_TOKEN" https://api.vendor.test/v1/x | head -c 26; echo "; allowed"
curl -sS -m 20 -o body -w '%{http_code}' -H "x-api-key: sk-theirs" https://api.vendor.test/v1/x; echo "; their key"
curl -sS -m 20 -o body -w '%{http_code}' -H "x-api-key: $SHELLY_TOKEN" https://api.vendor.test/admin; echo "; no path"
curl -sS -m 20 --connect-to auth.vendor.test::api.vendor.test https://auth.vendor.test/v1/x; echo "another name: $?"
"""


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_a_credential_that_stays_outside_is_put_in_before_the_proxy(project: MakeProject, network: Network) -> None:
    """A real run: the vendor sees the credential, the container and all that is left of it never had it."""
    agent = AGENT.replace("hosts = []", 'hosts = ["api.vendor.test"]').replace(
        'session = "given"', 'session = "given"\nca_env = ["CURL_CA_BUNDLE"]'
    )
    inject = '\ninject = { headers = ["x-api-key"], paths = ["/v1/"], placeholder = "sk-shelly-" }'
    here = project(
        {
            "agents.toml": agent.replace('env = "SHELLY_TOKEN"', f'env = "SHELLY_TOKEN"{inject}'),
            "assay.toml": 'fence.mode = "inject"\n[defaults]\nca_bundle = "ca.pem"\n',
            "ca.pem": network.ca,
            "tasks/t/prompt.md": SPEND,
        }
    )
    here.run("build", "shelly", timeout=200).assert_code(0)
    credential = f"sk-live-{uuid.uuid4().hex}"
    way = {"HTTPS_PROXY": f"http://user:{PASSWORD}@{network.address}:3128", "SHELLY_TOKEN": credential}
    planned = here.run("run", "tasks/t", "--agent", "shelly", "--dry-run", env=way).assert_code(0)
    planned.assert_says("SHELLY_TOKEN (stays outside)")
    needles = written([credential])
    sampler = Sampler(needles, here.root)
    sampler.start()
    out = here.run("run", "tasks/t", "--agent", "shelly", env=way, timeout=120).assert_code(0)
    sampler.stop()
    said = (here.runs[0] / "transcript.txt").read_text()
    assert re.search("inside: sk-shelly-[0-9a-f]{40}\n", said)
    for line in ("hello from api.vendor.test; allowed", "403; their key", "403; no path"):
        assert line in said
    assert "another name: 0" not in said
    digest = hashlib.sha256(credential.encode()).hexdigest()
    assert network.asked() == ["CONNECT api.vendor.test:443 HTTP/1.1 allowed", f"key {digest}"]
    fence = json.loads((here.runs[0] / "fence.json").read_text())
    assert (fence["requests_injected"], sum(fence["requests_refused"].values())) == (1, 2)
    assert sampler.seen == []
    assert sampler.launched
    assert len(sampler.containers) >= 3
    assert [needle for needle in needles if needle in (out.out + out.err).encode()] == []
    assert in_files(needles, here.root / "runs") == []
    assert list(on_the_engine(needles, sampler.containers)) == []
    # Not struck out: it never was there.
    assert "secrets_redacted" not in (here.runs[0] / "run.toml").read_text()


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_a_proxy_that_refuses_lets_nothing_pass(project: MakeProject, network: Network) -> None:
    agent = AGENT.replace("hosts = []", 'hosts = ["api.vendor.test"]')
    here = project(
        {"agents.toml": agent, "tasks/t/prompt.md": "curl -sSk -m 20 https://api.vendor.test/; echo code $?"}
    )
    here.run("build", "shelly", timeout=200).assert_code(0)
    way = {"HTTPS_PROXY": f"http://user:wrong@{network.address}:3128", "SHELLY_TOKEN": "token-0123456789"}
    here.run("run", "tasks/t", "--agent", "shelly", env=way, timeout=120)
    said = (here.runs[0] / "transcript.txt").read_text()
    assert "hello" not in said
    assert "code 0" not in said
    assert "code 28" not in said
    assert network.asked() == ["CONNECT api.vendor.test:443 HTTP/1.1 refused"]


def test_the_command_refuses_what_cannot_be(project: MakeProject) -> None:
    agent = AGENT.replace("hosts = []", 'hosts = ["api.vendor.test"]')
    here = project({"agents.toml": agent, "tasks/t/prompt.md": "true"})
    run = ("run", "tasks/t", "--agent", "shelly")
    token = {"SHELLY_TOKEN": "token-0123456789", "DOCKER_HOST": "tcp://127.0.0.1:1"}
    local = here.run(*run, env={**token, "HTTPS_PROXY": "http://localhost:3128"})
    local.assert_refused("HTTPS_PROXY", "this machine itself", "use its address")
    corporate = {**token, "HTTPS_PROXY": "http://10.0.0.1:3128"}
    here.run(*run, "--internet", env=corporate).assert_refused("HTTPS_PROXY", "internet = true", "NO_PROXY")
    ask = ("ask", "--agent", "shelly", "--repo", "tasks", "Eh?")
    here.run(*ask, env=corporate).assert_refused("HTTPS_PROXY", "internet = false in the stage", "ASSAY_INTERNET=false")
    here.run(*ask, "--dry-run", env={**corporate, "ASSAY_INTERNET": "false"}).assert_code(0).assert_says(
        "connects to  api.vendor.test", "through      10.0.0.1:3128 (HTTPS_PROXY)"
    )


@pytest.mark.docker
@pytest.mark.timeout(300)
@pytest.mark.parametrize("way_in", ["stage", "environment"])
def test_an_ask_without_internet_goes_through_the_proxy(project: MakeProject, network: Network, way_in: str) -> None:
    agent = AGENT.replace("hosts = []", 'hosts = ["api.vendor.test"]').replace(
        'session = "given"', 'session = "given"\nca_env = ["CURL_CA_BUNDLE"]'
    )
    stage = '[stage.ask]\nkind = "ask"\ninternet = false\nrungs = [{ agent = "shelly" }]\n'
    here = project(
        {
            "agents.toml": agent,
            "assay.toml": f'[defaults]\nca_bundle = "ca.pem"\n{stage if way_in == "stage" else ""}',
            "ca.pem": network.ca,
            "repository/file": "x",
        }
    )
    quoted = PASSWORD.replace("@", "%40")
    env = {"HTTPS_PROXY": f"http://user:{quoted}@{network.address}:3128", "SHELLY_TOKEN": "token-0123456789"}
    env |= {"ASSAY_INTERNET": "false"} if way_in == "environment" else {}
    question = "curl -sS -m 20 https://api.vendor.test/ | head -c 26; exit"
    try:
        here.run("ask", "--agent", "shelly", "--repo", "repository", question, env=env, timeout=200).assert_code(0)
    finally:
        forget(network.engine, here.root)
    assert "hello from api.vendor.test" in (here.runs[0] / "answer.md").read_text()
    assert set(network.asked()) == {"CONNECT api.vendor.test:443 HTTP/1.1 allowed"}
