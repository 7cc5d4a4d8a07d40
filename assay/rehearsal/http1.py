"""As much of HTTP/1.1 as a stand-in needs, on the bare socket.

The standard library's server costs 60 ms of imports at each start, which is a fifth of what a stand-in may take until
it is ready. Limits are here because the other end is an agent: it may send anything.
"""

from __future__ import annotations

import contextlib
import select
import ssl
from typing import TYPE_CHECKING

from assay.rehearsal.protocol import Heard

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from io import BufferedReader

MAX_HEAD = 64 << 10
MAX_BODY = 32 << 20
"""As the vendors' own limits."""
REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 413: "Content Too Large", 426: "Upgrade Required"}


class Malformed(Exception):
    """The request cannot be read; the connection is answered once and closed."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


class Connection:
    """One client connection: requests in, answers out, in turn."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._in: BufferedReader = sock.makefile("rb")

    def hear(self) -> Heard | None:
        """The next request, None when the client has closed.

        Raises:
            Malformed: It is not HTTP/1.1, or larger than the limits.
            OSError: The connection broke or was idle too long.
        """
        line = self._line()
        if not line:
            return None
        parts = line.decode("latin-1").split()
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            raise Malformed(400, "not an HTTP/1.1 request")
        headers = self._headers()
        if headers.get("expect", "").lower() == "100-continue":
            self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return Heard(parts[0], parts[1], headers, self._body(headers))

    def send_whole(self, status: int, headers: Mapping[str, str], body: bytes, *, bare: bool = False) -> None:
        """An answer with a known length; `bare` leaves the body out (HEAD)."""
        head = self.head(status, {**headers, "content-length": str(len(body))})
        self.sock.sendall(head if bare else head + body)

    def send_head(self, status: int, headers: Mapping[str, str]) -> None:
        """The start of an answer sent in chunks."""
        self.sock.sendall(self.head(status, {**headers, "transfer-encoding": "chunked"}))

    def send_chunk(self, data: bytes) -> None:
        """One chunk; an empty one ends the answer."""
        self.sock.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def gone(self, seconds: float | None) -> bool:
        """Wait for so long, None for ever; true as soon as the client has closed or speaks out of turn."""
        watch = select.poll()
        watch.register(self.sock, select.POLLIN)
        return bool(watch.poll(None if seconds is None else seconds * 1000))

    def close(self) -> None:
        """Close both directions at once."""
        with contextlib.suppress(OSError):
            self._in.close()
        with contextlib.suppress(OSError):
            self.sock.close()

    def head(self, status: int, headers: dict[str, str]) -> bytes:
        """The status line and the headers."""
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Scripted')}", *(f"{k}: {v}" for k, v in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")

    def _line(self) -> bytes:
        line = self._in.readline(MAX_HEAD + 1)
        if len(line) > MAX_HEAD:
            raise Malformed(400, "a header line is too long")
        return line.rstrip(b"\r\n")

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        size = 0
        while line := self._line():
            size += len(line)
            if size > MAX_HEAD:
                raise Malformed(400, "the headers are too long")
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        return headers

    def _body(self, headers: dict[str, str]) -> bytes:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._chunks()
        length = headers.get("content-length", "0")
        if not length.isdigit():
            raise Malformed(400, "the content length is not a number")
        if int(length) > MAX_BODY:
            raise Malformed(413, "the body is too large")
        return self._exactly(int(length))

    def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            try:
                size = int(self._line().partition(b";")[0], 16)
            except ValueError:
                raise Malformed(400, "a chunk has no size") from None
            if not 0 <= size <= MAX_BODY - len(body):
                raise Malformed(413, "the body is too large")
            if size == 0:
                while self._line():
                    pass
                return bytes(body)
            body += self._exactly(size)
            self._line()

    def _exactly(self, n: int) -> bytes:
        data = self._in.read(n)
        if len(data) < n:
            msg = "the client closed in the middle of a body"
            raise ConnectionError(msg)
        return data


def tls(cert: str, key: str, names: list[str]) -> ssl.SSLContext:
    """A context that serves the pinned names only: a client that asks for another gets no handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    context.set_alpn_protocols(["http/1.1"])

    def check(_sock: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> int | None:
        return None if name in names else ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    context.sni_callback = check
    return context
