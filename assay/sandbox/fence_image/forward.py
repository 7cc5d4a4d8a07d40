"""In an open fence names go on to the engine's resolvers: datagrams by a fresh id, connections byte for byte."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct

DNS_PORT = 53
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
        self.server, self.selector, self.resolvers = server, selector, resolvers
        self.pending: dict[int, tuple[bytes, tuple[str, int]]] = {}
        self.turn = 0
        self.connections = 0
        self.upstreams = [self._connected(address, socket.SOCK_DGRAM) for address in resolvers]
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
        if self.connections >= MOST_CONNECTIONS:
            client.close()
            return
        try:
            upstream = self._connected(self.resolvers[self.turn % len(self.resolvers)], socket.SOCK_STREAM)
        except OSError:
            client.close()
            return
        self.connections += 1
        self.selector.register(client, selectors.EVENT_READ, lambda: self._copy(client, upstream))
        self.selector.register(upstream, selectors.EVENT_READ, lambda: self._copy(upstream, client))

    def _connected(self, address: str, kind: socket.SocketKind) -> socket.socket:
        made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
        made.settimeout(2)
        made.connect((address, DNS_PORT))
        return made

    def _reply(self, upstream: socket.socket) -> None:
        with contextlib.suppress(OSError):
            reply = upstream.recv(MOST_BYTES)
            number, client = self.pending.pop(struct.unpack_from(">H", reply)[0], (b"", None))
            if client:
                self.server.sendto(number + reply[2:], client)

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        if source.fileno() < 0:
            return
        try:
            data = source.recv(MOST_BYTES)
            if data:
                target.sendall(data)
                return
        except OSError:
            pass
        for end in (source, target):
            self.selector.unregister(end)
            end.close()
        self.connections -= 1
