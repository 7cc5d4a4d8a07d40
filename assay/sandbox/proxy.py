"""The proxy of a corporate network, where the user's environment names one: a real run goes out through it."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from assay.model.errors import FenceFailed, UsageError
from assay.sandbox.pins import RESOLVE_SECONDS, look_up
from assay.sandbox.rules import Via

VARIABLES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
EXCEPTIONS = ("no_proxy", "NO_PROXY")


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy that opens tunnels.

    Attributes:
        variable: Which variable named it.
        auth: `user:password` in base64; "" for none.
        secrets: Values that must not be kept anywhere.
    """

    variable: str
    host: str
    port: int
    auth: str = ""
    secrets: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """What may be shown: no password."""
        return f"{self.host}:{self.port} ({self.variable})"


def chosen(environ: Mapping[str, str], hosts: Iterable[str]) -> Proxy | None:
    """The proxy that leads to these hosts; None if they are reached without one.

    If `NO_PROXY` names only some of them, all go through the proxy: it can be asked for any name.

    Raises:
        UsageError: What a variable names cannot be used from a container.
    """
    variable = next((name for name in VARIABLES if environ.get(name, "").strip()), None)
    exceptions = next((environ[name] for name in EXCEPTIONS if environ.get(name, "").strip()), "")
    names = list(hosts)
    if variable is None or not names or all(_excepted(name, exceptions) for name in names):
        return None
    value = environ[variable].strip()
    try:
        url = urlsplit(value if "://" in value else f"http://{value}")
        host, port = url.hostname or "", url.port or 80
    except ValueError:
        host, port = "", 0
    why = _unusable(url.scheme if host else "", host)
    if why is not None:
        msg = f"{variable}: {why}; the run would find no way to {names[0]}"
        raise UsageError(msg)
    if url.username is None:
        return Proxy(variable, host, port)
    password = unquote(url.password or "")
    pair = f"{unquote(url.username)}:{password}"
    auth = base64.b64encode(pair.encode()).decode()
    return Proxy(variable, host, port, auth, tuple(dict.fromkeys(s for s in (password, auth, url.password or "") if s)))


def looked_up(proxy: Proxy) -> Via:
    """Where the proxy is. It may well be in a private network: only the gate of the fence may reach it.

    Raises:
        FenceFailed: It has no address that a container could reach.
    """
    found = look_up([proxy.host], proxy.port, RESOLVE_SECONDS)[0]
    if isinstance(found, str):
        msg = f"{proxy.variable}: the proxy {proxy.host} cannot be looked up: {found}"
        raise FenceFailed(msg)
    usable = [a for a in found if not (ip := ipaddress.ip_address(a)).is_loopback and not ip.is_link_local]
    if not usable:
        msg = f"{proxy.variable}: the proxy {proxy.host} is at {found[0]}, which no container reaches"
        raise FenceFailed(msg)
    return Via(sorted(usable, key=lambda address: ":" in address)[0], proxy.port, proxy.auth)


def _unusable(scheme: str, host: str) -> str | None:
    if not host:
        return "is not the address of a proxy (http://HOST:PORT)"
    if scheme != "http":
        return f"only proxies that are spoken to by http:// can be used, not {scheme}://"
    if host == "localhost" or host.startswith("127.") or host == "::1":
        return f"{host} is this machine itself, which a container does not reach by that name: use its address"
    return None


def _excepted(host: str, exceptions: str) -> bool:
    """Whether `NO_PROXY` names a host: by itself, by a domain above it, or by `*`."""
    for word in exceptions.replace(",", " ").split():
        domain = word.lower().removeprefix("*").lstrip(".").partition(":")[0]
        if word == "*" or (domain and (host == domain or host.endswith(f".{domain}"))):
            return True
    return False
