"""Which addresses a host is pinned to, looked up on the user's machine: what the rules let through is decided here."""

from __future__ import annotations

import itertools
import re
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from assay.model.errors import FenceFailed
from assay.sandbox.rules import MOST_ADDRESSES, Pin, is_global

RESOLVE_SECONDS = 15.0

_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\Z")


def resolve(hosts: Iterable[str], port: int = 443, seconds: float = RESOLVE_SECONDS) -> tuple[Pin, ...]:
    """Look hosts up on this machine and pin them to their addresses.

    Raises:
        FenceFailed: A host has no address in time, or one that is not of the public internet (split DNS and rebinding
            would otherwise open the user's own network).
    """
    names = list(dict.fromkeys(host.lower().rstrip(".") for host in hosts))
    pins = []
    for name, found in zip(names, look_up(names, port, seconds), strict=True):
        if isinstance(found, str):
            msg = f"{name} cannot be looked up on this machine: {found}"
            raise FenceFailed(msg)
        pin = Pin(name, tuple(found[:MOST_ADDRESSES]), (port,))
        check(pin)
        pins.append(pin)
    return tuple(pins)


def look_up(names: Sequence[str], port: int, seconds: float) -> list[list[str] | str]:
    """The addresses of each name, or why there are none."""
    found: dict[str, list[str] | str] = {}

    def ask(name: str) -> None:
        try:
            answers = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            found[name] = str(getattr(error, "strerror", None) or error)
        else:
            found[name] = list(dict.fromkeys(str(answer[4][0]) for answer in answers))

    # The system's resolver has no clock of its own, and a thread that hangs in it must not hold up the program's end.
    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return [found.get(name, f"no answer within {seconds:g} s") for name in names]


def check(pin: Pin) -> None:
    """Refuse a pin that is malformed, or that lies in a network no look-up may open.

    Raises:
        FenceFailed: It is not to be pinned; the message says why.
    """
    if not _HOST.match(pin.host):
        msg = f"{pin.host!r} is no host name that can be pinned"
        raise FenceFailed(msg)
    if not pin.addresses or not pin.ports:
        msg = f"{pin.host} has no address or no port to be pinned to"
        raise FenceFailed(msg)
    for address in pin.addresses:
        try:
            allowed = pin.private or is_global(address)
        except ValueError:
            msg = f"{pin.host} cannot be pinned to {address!r}, which is no address"
            raise FenceFailed(msg) from None
        if not allowed:
            msg = f"{pin.host} resolves to {address}, which is not of the public internet; it is not pinned"
            raise FenceFailed(msg)


def engine_host(base_url: str, docker_host: str) -> tuple[str, ...]:
    """Addresses of the engine's host, as far as this machine knows: its own, or those of the name it connects to.

    Args:
        base_url: What the client is connected to.
        docker_host: `DOCKER_HOST`, which alone names the host of a connection by ssh.
    """
    named = next((urlsplit(url) for url in (docker_host, base_url) if "://" in url), None)
    if named and named.scheme in ("tcp", "http", "https", "ssh") and named.hostname:
        found = look_up([named.hostname], named.port or 0, RESOLVE_SECONDS)[0]
        return () if isinstance(found, str) else tuple(found)
    return _own_addresses()


def _own_addresses() -> tuple[str, ...]:
    """The addresses of this machine where the kernel shows them (Linux); elsewhere the engine runs in a VM."""
    found = []
    tree, six = Path("/proc/net/fib_trie"), Path("/proc/net/if_inet6")
    if tree.exists():
        lines = tree.read_text().split("\n")
        for line, following in itertools.pairwise(lines):
            if following.strip() == "/32 host LOCAL":
                found.append(line.split()[-1])
    if six.exists():
        raw = (bytes.fromhex(line.split()[0]) for line in six.read_text().splitlines())
        found += [socket.inet_ntop(socket.AF_INET6, address) for address in raw]
    return tuple(dict.fromkeys(a for a in found if a != "::1" and not a.startswith("127.")))
