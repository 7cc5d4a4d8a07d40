"""The gate of an `sni` or `inject` fence: haproxy lets a connection pass to a pinned host only if TLS asks for it.

It stands in a network namespace of its own, so that its way out is not also the agent's.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Sequence

from assay.sandbox.fence_image import inject
from assay.sandbox.rules import Pin

LOG = "/run/fence/gate.sock"
FOLDER = "/run/fence"
PID_FILE = "/run/fence/haproxy/pid"
NOBODY = 65534
PASSED, TURNED_AWAY = "passed", "refused"


def config(pins: Sequence[Pin], *, ipv6: bool, injection: inject.Injection | None = None) -> str:
    """The configuration of haproxy 2.6: one entrance a port, one back end a host and port.

    Args:
        pins: Who may be reached; one without an address, through a tunnel.
        ipv6: Whether IPv6 leads out.
        injection: What is put into requests; None lets TLS pass as it is.
    """
    lines = [
        "global",
        f"  log {LOG} format raw local0",
        "  maxconn 512",
        # By default it starts one thread a processor, which a large machine has more of than the container may.
        "  nbthread 2",
        *(inject.settings(injection) if injection else ()),
        "defaults",
        "  mode tcp",
        "  timeout connect 10s",
        "  timeout client 1h",
        "  timeout server 1h",
        "  log global",
    ]
    for port in sorted({port for pin in pins for port in pin.ports}):
        hosts = [(n, pin) for n, pin in enumerate(pins) if port in pin.ports]
        lines += [
            f"frontend port_{port}",
            f"  bind :{port}",
            "  tcp-request inspect-delay 5s",
            "  tcp-request content capture req.ssl_sni len 253",
            f'  log-format "%[var(sess.{PASSED},{TURNED_AWAY})] %[capture.req.hdr(0)]"',
            "  acl hello req.ssl_hello_type 1",
        ]
        for n, pin in hosts:
            lines.append(f"  acl host_{n} req.ssl_sni -i {pin.host}")
            lines.append(f"  tcp-request content set-var(sess.{PASSED}) str({PASSED}) if hello host_{n}")
            lines.append(f"  tcp-request content accept if hello host_{n}")
        lines.append("  tcp-request content reject")
        lines += [f"  use_backend host_{n}_{port} if host_{n}" for n, _ in hosts]
    for n, pin in enumerate(pins):
        addresses = [_bracketed(a) for a in pin.addresses if ipv6 or ":" not in a]
        for port in pin.ports:
            servers = [f"{address}:{port}" for address in addresses] or [f"unix@{inject.way_out(port)}"]
            inner = [inject.entrance(n, port)] if injection else servers
            lines += [f"backend host_{n}_{port}", "  balance roundrobin", "  option redispatch 1"]
            lines += [f"  server s{k} {server}" for k, server in enumerate(inner)]
            lines += inject.host(n, pin, port, servers, injection) if injection else ()
    return "\n".join(lines) + "\n"


def listen() -> socket.socket:
    """The socket on which haproxy tells of each connection; reading it keeps the log bounded."""
    log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    log.bind(LOG)
    os.chmod(LOG, 0o666)  # noqa: S103, PTH101 (haproxy runs as nobody; nobody else lives here)
    log.setblocking(False)
    return log


def start(text: str, replacing: int | None = None, injection: inject.Injection | None = None) -> int:
    """Run haproxy as nobody, back once it listens; its process id. One that it replaces goes when its connections end.

    Raises:
        OSError: It would not start; the message has its own words.
    """
    with inject.laid_out(injection) if injection else contextlib.nullcontext(FOLDER) as folder:
        path = f"{folder}/haproxy.cfg"
        with open(path, "w", encoding="ascii") as file:  # noqa: PTH123 (pathlib costs start-up time)
            file.write(text)
        argv = ["haproxy", "-D", "-q", "-f", path, "-p", PID_FILE]
        if replacing:
            argv += ["-sf", str(replacing)]
        done = subprocess.run(
            argv, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, timeout=20, check=False
        )
    if done.returncode:
        words = " ".join(done.stderr.split())
        words = words.replace(injection.credential, "…") if injection else words
        msg = f"haproxy would not start: {words[:300]}"
        raise OSError(msg)
    with open(PID_FILE, encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[0])


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
