"""In an open fence names go on to the engine's resolvers: datagrams by a fresh id, connections byte for byte."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct

DNS_PORT = 53
CONNECT_SECONDS = 2
MOST_PENDING = 512
MOST_CONNECTIONS = 32
MOST_BYTES = 65535


class Forwarder:
    """Passes queries on and replies back.

    Args:
        server: The resolver's own socket, on which clients wait for their replies.
        resolvers: Addresses in order; a query goes to the next one each time, so a client's retry meets another.
        selector: Readable sockets are registered here with a callback as their data.
    """

    def __init__(self, server: socket.socket, resolvers: tuple[str, ...], selector: selectors.BaseSelector) -> None:
        self.server, self.selector = server, selector
        self.pending: dict[int, tuple[bytes, tuple[str, int]]] = {}
        self.turn = 0
        self.connections = 0
        self.upstreams: list[socket.socket] = []
        for address in resolvers:
            # One of a family that leads nowhere from here does no harm beside one that works.
            with contextlib.suppress(OSError):
                self.upstreams.append(connected(address, socket.SOCK_DGRAM))
        if not self.upstreams:
            msg = f"none of the engine's resolvers can be reached: {', '.join(resolvers) or 'it has none'}"
            raise OSError(msg)
        for upstream in self.upstreams:
            selector.register(upstream, selectors.EVENT_READ, lambda upstream=upstream: self._reply(upstream))

    def pass_on(self, query: bytes, client: tuple[str, int]) -> None:
        """Send a query to the engine's resolver."""
        if len(self.pending) >= MOST_PENDING:
            self.pending.pop(next(iter(self.pending)))
        number = struct.unpack(">H", os.urandom(2))[0]
        self.pending[number] = (query[:2], client)
        upstream = self.upstreams[self.turn % len(self.upstreams)]
        self.turn += 1
        with contextlib.suppress(OSError):
            upstream.send(struct.pack(">H", number) + query[2:])

    def accept(self, listener: socket.socket) -> None:
        """Join a client that came by TCP (its answer was too long) with the engine's resolver."""
        client, _ = listener.accept()
        try:
            if self.connections >= MOST_CONNECTIONS:
                raise ConnectionRefusedError
            address = self.upstreams[self.turn % len(self.upstreams)].getpeername()[0]
            upstream = connected(address, socket.SOCK_STREAM)
        except OSError:
            client.close()
            return
        self.connections += 1
        client.setblocking(False)
        upstream.setblocking(False)
        self.selector.register(client, selectors.EVENT_READ, lambda: self._copy(client, upstream))
        self.selector.register(upstream, selectors.EVENT_READ, lambda: self._copy(upstream, client))

    def _reply(self, upstream: socket.socket) -> None:
        with contextlib.suppress(OSError):
            reply = upstream.recv(MOST_BYTES)
            number, client = self.pending.pop(int.from_bytes(reply[:2], "big"), (b"", None))
            if client:
                self.server.sendto(number + reply[2:], client)

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        if source.fileno() < 0:
            return
        try:
            data = source.recv(MOST_BYTES)
            # Names fit in a socket's buffer; whoever does not take them must not hold up the others.
            if data and target.send(data) == len(data):
                return
        except OSError:
            pass
        for end in (source, target):
            self.selector.unregister(end)
            end.close()
        self.connections -= 1


def connected(address: str, kind: socket.SocketKind) -> socket.socket:
    """A socket to a resolver.

    Raises:
        OSError: There is no way to it.
    """
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
    made.settimeout(CONNECT_SECONDS)
    try:
        made.connect((address, DNS_PORT))
    except OSError:
        made.close()
        raise
    return made
