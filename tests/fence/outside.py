"""A pretend internet: a network namespace with a vendor, somebody else and their records of who called.

Documentation addresses only (198.51.100.0/28 and 2001:db8:f::/64 by slot), so nothing can reach a real machine. Several
test sessions may have one each; a lock says which slot is whose. Needs root and iproute2.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.server
import ipaddress
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

SERVER = Path(__file__).with_name("outside_server.py")
SLOTS = 16


@dataclass
class Outside:
    """Where things are, and what was seen there (`GET host path`, `UDP port`, `TCP port`, `TLS name`)."""

    slot: int
    ca: bytes
    seen: list[str] = field(default_factory=list)

    def _four(self, n: int) -> str:
        return f"198.51.100.{16 * self.slot + n}"

    def _six(self, n: int) -> str:
        return str(ipaddress.ip_address(f"2001:db8:f:{self.slot:x}::{n}"))

    @property
    def host(self) -> str:
        """This machine, on the link to the outside."""
        return self._four(1)

    @property
    def vendor(self) -> str:
        return self._four(2)

    @property
    def second(self) -> str:
        """The vendor's other address."""
        return self._four(3)

    @property
    def other(self) -> str:
        return self._four(4)

    @property
    def vendor6(self) -> str:
        return self._six(2)

    @property
    def other6(self) -> str:
        return self._six(4)

    @property
    def network(self) -> str:
        return f"198.51.100.{16 * self.slot}/28"

    @property
    def network6(self) -> str:
        return str(ipaddress.ip_network(f"2001:db8:f:{self.slot:x}::/64"))

    def wait_for(self, text: str, seconds: float = 10) -> None:
        """Until something was seen."""
        until = time.monotonic() + seconds
        while not any(text in line for line in list(self.seen)):
            if time.monotonic() > until:
                msg = f"nothing like {text!r} was seen outside: {self.seen}"
                raise AssertionError(msg)
            time.sleep(0.02)


@contextlib.contextmanager
def standing(folder: Path) -> Iterator[Outside]:
    """Set a pretend internet up in a free slot, and take it away again."""
    import trustme

    authority = trustme.CA()
    for host in ("api.vendor.test", "auth.vendor.test", "other.test"):
        authority.issue_cert(host).private_key_and_cert_chain_pem.write_to_path(folder / f"{host}.pem")
    with _slot() as slot:
        outside = Outside(slot, authority.cert_pem.bytes())
        space, ours, theirs = f"assay-out{slot}", f"assay-out{slot}h", f"assay-out{slot}n"
        _take_away(space, ours)
        _ip("netns", "add", space)
        try:
            _ip("link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", space)
            _ip("addr", "add", f"{outside.host}/28", "dev", ours)
            _ip("addr", "add", f"{outside._six(1)}/64", "dev", ours, "nodad")
            _ip("link", "set", ours, "up")
            inside = ("-n", space)
            _ip(*inside, "link", "set", "lo", "up")
            _ip(*inside, "link", "set", theirs, "up")
            for n in (2, 3, 4):
                _ip(*inside, "addr", "add", f"{outside._four(n)}/28", "dev", theirs)
            for n in (2, 4):
                _ip(*inside, "addr", "add", f"{outside._six(n)}/64", "dev", theirs, "nodad")
            _ip(*inside, "route", "add", "default", "via", outside.host)
            _ip(*inside, "-6", "route", "add", "default", "via", outside._six(1))
            with _serving(space, folder, outside):
                yield outside
        finally:
            _take_away(space, ours)


def _take_away(space: str, ours: str) -> None:
    # The link too: a namespace outlives its deletion for as long as anything in it is held.
    _ip("link", "del", ours, check=False)
    _ip("netns", "del", space, check=False)


@contextlib.contextmanager
def host_service(*addresses: str) -> Iterator[int]:
    """A service on this machine itself, which no fenced container may reach; its port."""

    class Quiet(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"the host itself")

        def log_message(self, *_: object) -> None:
            return

    servers = [socketserver.ThreadingTCPServer((addresses[0], 0), Quiet)]
    port = int(servers[0].server_address[1])
    servers += [socketserver.ThreadingTCPServer((address, port), Quiet) for address in addresses[1:]]
    threads = [threading.Thread(target=server.serve_forever) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield port
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()


@contextlib.contextmanager
def _serving(space: str, folder: Path, outside: Outside) -> Iterator[None]:
    addresses = (outside.vendor, outside.second, outside.other, outside.vendor6, outside.other6)
    argv = ["ip", "netns", "exec", space, sys.executable, str(SERVER), str(folder), *addresses]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        lines = process.stdout

        def listen() -> None:
            for line in lines:
                outside.seen.append(line.rstrip("\n"))

        reader = threading.Thread(target=listen)
        reader.start()
        try:
            yield
        finally:
            process.kill()
            process.wait()
            reader.join()


@contextlib.contextmanager
def _slot() -> Iterator[int]:
    with contextlib.ExitStack() as stack:
        for slot in range(SLOTS):
            handle = stack.enter_context(Path(f"/tmp/assay-outside-{slot}.lock").open("w"))
            if _locked(handle):
                yield slot
                return
    msg = "every slot of the pretend internet is taken"
    raise RuntimeError(msg)


def _locked(handle: IO[str]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _ip(*words: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if check and done.returncode:
        msg = f"ip {' '.join(words)}: {done.stderr.strip()}"
        raise RuntimeError(msg)
