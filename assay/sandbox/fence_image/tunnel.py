"""The gate of a fence behind a corporate proxy: TLS for a host that may be reached is passed on through the proxy.

The agent connects to the host's own name as if there were no proxy. Its TLS hello says which host it wants; only for
one that may be reached is the proxy asked for a tunnel, to that very name. Neither the proxy nor its password is within
the agent's reach. Runs as nobody, in the gate's container; what it has to know arrives on standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from assay.sandbox.fence_image.gate import LOG, NOBODY, PASSED, TURNED_AWAY
from assay.sandbox.fence_image.inject import way_out

if TYPE_CHECKING:
    from assay.sandbox.rules import Plan

HELLO_SECONDS = 5.0
PROXY_SECONDS = 20.0
IDLE_SECONDS = 3600.0
LONGEST_HELLO = 64 << 10
STEP = 64 << 10

SERVER_NAME, HANDSHAKE, CLIENT_HELLO = 0, 22, 1


def start(plan: Plan, *, behind: bool = False) -> int:
    """Listen on the ports that a plan serves, with a process of its own; its id.

    Args:
        plan: The gate's.
        behind: Whether only haproxy, in this very container, is listened to.
    """
    sockets = {port: _within(port) if behind else socket.create_server(("", port), backlog=128) for port in plan.serves}
    fds = [sock.fileno() for sock in sockets.values()]
    argv = [sys.executable, "-EsS", "-m", "assay.sandbox.fence_image.tunnel"]
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, pass_fds=fds, user=NOBODY, group=NOBODY, extra_groups=[])
    told = {"ports": list(zip(fds, sockets, strict=True)), "names": plan.names, "via": plan.via}
    with child.stdin or contextlib.nullcontext() as pipe:
        if pipe:
            pipe.write(json.dumps(told).encode())
    for sock in sockets.values():
        sock.close()
    return child.pid


def _within(port: int) -> socket.socket:
    path = way_out(port)
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(path)
    os.chmod(path, 0o666)  # noqa: S103, PTH101 (haproxy runs as nobody; nobody else lives here)
    sock.listen(128)
    return sock


class Tunnel:
    """Passes connections on through the proxy.

    Args:
        names: Hosts that may be reached.
        via: Address and port of the proxy, and what authorises us there, in base64; "" for nothing.
    """

    def __init__(self, names: list[str], via: tuple[str, int, str]) -> None:
        self._names = frozenset(names)
        self._address, self._port, self._auth = via
        self._log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._log.connect(LOG)
        self._log.setblocking(False)

    async def connection(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, from its hello to its end."""
        try:
            hello, name = await asyncio.wait_for(_hello(reader), HELLO_SECONDS)
            if name in self._names:
                self._tell(PASSED, name)
                await self._through(name, port, hello, reader, writer)
            else:
                self._tell(TURNED_AWAY, name or "-")
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def _through(
        self, name: str, port: int, hello: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        opening = asyncio.open_connection(self._address, self._port)
        there, back = await asyncio.wait_for(opening, PROXY_SECONDS)
        try:
            lines = [f"CONNECT {name}:{port} HTTP/1.1", f"Host: {name}:{port}"]
            lines += [f"Proxy-Authorization: Basic {self._auth}"] if self._auth else []
            back.write("\r\n".join([*lines, "", ""]).encode("ascii"))
            answer = await asyncio.wait_for(there.readuntil(b"\r\n\r\n"), PROXY_SECONDS)
            status = answer.split(None, 2)[1:2]
            if status != [b"200"]:
                self._tell("failed", f"{name} {status}")
                return
            back.write(hello)
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        finally:
            back.close()

    def _tell(self, what: str, name: str) -> None:
        with contextlib.suppress(OSError):
            self._log.send(f"{what} {name}".encode("ascii", "replace"))


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await asyncio.wait_for(source.read(STEP), IDLE_SECONDS):
        target.write(data)
        await target.drain()
    if target.can_write_eof():
        target.write_eof()


async def _hello(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """What a client says first, byte for byte, and the server name in it, "" where there is none."""
    raw, message = b"", b""
    while len(raw) < LONGEST_HELLO:
        head = await reader.readexactly(5)
        kind, _, size = struct.unpack(">BHH", head)
        if kind != HANDSHAKE:
            return raw, ""
        body = await reader.readexactly(size)
        raw, message = raw + head + body, message + body
        if len(message) >= 4 and len(message) - 4 >= int.from_bytes(message[1:4], "big"):
            return raw, server_name(message)
    return raw, ""


def server_name(message: bytes) -> str:
    """The server name of a TLS client hello; "" where it has none or is no such thing."""
    try:
        if message[0] != CLIENT_HELLO:
            return ""
        at = 4 + 2 + 32
        at += 1 + message[at]
        at += 2 + struct.unpack_from(">H", message, at)[0]
        at += 1 + message[at]
        end = at + 2 + struct.unpack_from(">H", message, at)[0]
        at += 2
        while at + 4 <= end:
            kind, size = struct.unpack_from(">HH", message, at)
            if kind == SERVER_NAME:
                length = struct.unpack_from(">H", message, at + 7)[0]
                name = message[at + 9 : at + 9 + length]
                return name.decode("ascii").lower().rstrip(".") if message[at + 6] == 0 else ""
            at += 4 + size
    except (IndexError, struct.error, UnicodeDecodeError):
        return ""
    return ""


async def _serve(told: dict[str, Any]) -> None:
    tunnel = Tunnel(told["names"], told["via"])
    servers = [
        await asyncio.start_server(partial(tunnel.connection, port), sock=socket.socket(fileno=fd), limit=STEP)
        for fd, port in told["ports"]
    ]
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    os.umask(0o077)
    asyncio.run(_serve(json.load(sys.stdin)))
