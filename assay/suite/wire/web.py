"""HTTP requests whose every wait has exactly the time that is left until a deadline.

On `http.client`, whose socket is at hand: libraries above it set a time limit for each read, which a server that sends
a byte now and then can stretch for ever.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from assay.suite.wire.faults import Closed, TimedOut
from assay.suite.wire.transport import MAX_MESSAGE, Message, Stray, clean, parse_message, remaining, shown_url


class Reply:
    """One HTTP answer, read piece by piece."""

    def __init__(self, connection: http.client.HTTPConnection, sock: socket.socket) -> None:
        self._connection, self._sock = connection, sock
        self.response = connection.getresponse()
        self.ended = False
        self.status = self.response.status

    def header(self, name: str) -> str:
        """A header's value, "" when it is not there."""
        return self.response.headers.get(name) or ""

    @property
    def kind(self) -> str:
        """The media type, without parameters."""
        return self.header("content-type").partition(";")[0].strip().lower()

    def chunk(self, deadline: float) -> bytes:
        """What has arrived, b"" at the end."""
        if self.ended:
            return b""
        with _translated():
            self._sock.settimeout(remaining(deadline))
            data = self.response.read1(65536)
        if not data:
            self.ended = True
            self.response.close()
        return data

    def body(self, deadline: float) -> bytes:
        """All of it."""
        chunks, size = [], 0
        while chunk := self.chunk(deadline):
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_MESSAGE:
                msg = f"sent more than {MAX_MESSAGE >> 20} MiB"
                raise Closed(msg)
        return b"".join(chunks)

    def finish(self) -> None:
        """Give the connection up, unless all was read and it may be used again."""
        if not self.ended:
            self._connection.close()
        self.response.close()


class Web:
    """An address, and one kept connection to it."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.url, self.headers = url, headers
        self.parts: SplitResult = urlsplit(url)
        self._kept: http.client.HTTPConnection | None = None
        self._last: Reply | None = None

    def request(self, method: str, deadline: float, headers: Mapping[str, str], body: bytes | None = None) -> Reply:
        """Send a request and wait for the head of its answer.

        Raises:
            Closed: Nothing listens there, or the connection broke.
            TimedOut: The deadline passed.
        """
        connection = self._connection(deadline)
        target = (self.parts.path or "/") + (f"?{self.parts.query}" if self.parts.query else "")
        sent = {"User-Agent": "assay", **self.headers, **{k: v for k, v in headers.items() if v}}
        with _translated():
            try:
                sock: socket.socket = connection.sock
                sock.settimeout(remaining(deadline))
                connection.request(method, target, body, sent)
                sock.settimeout(remaining(deadline))
                reply = Reply(connection, sock)
            except BaseException:
                connection.close()
                raise
        self._kept, self._last = connection, reply
        return reply

    def close(self) -> None:
        """Close the kept connection."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _connection(self, deadline: float) -> http.client.HTTPConnection:
        kept, self._kept = self._kept, None
        if kept is not None:
            if self._last is not None and self._last.ended and kept.sock is not None and not _hung_up(kept.sock):
                return kept
            kept.close()
        host, port = self.parts.hostname or "", self.parts.port
        with _translated():
            left = remaining(deadline)
            fresh: http.client.HTTPConnection
            if self.parts.scheme == "https":
                import ssl

                fresh = http.client.HTTPSConnection(host, port, timeout=left, context=ssl.create_default_context())
            else:
                fresh = http.client.HTTPConnection(host, port, timeout=left)
            fresh.connect()
        fresh.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return fresh


def _hung_up(sock: socket.socket) -> bool:
    """Whether the server closed an idle connection (anything to read on one is that, or out of turn)."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


class _translated:  # noqa: N801 - reads as a statement
    """Turns what sockets raise into `Closed` and `TimedOut`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, Closed | TimedOut):
            return
        if isinstance(error, TimeoutError):
            raise TimedOut from None
        if isinstance(error, ConnectionRefusedError):
            msg = "nothing listens at that address (connection refused)"
            raise Closed(msg) from None
        if isinstance(error, socket.gaierror):
            msg = f"the host name is not known ({error.strerror})"
            raise Closed(msg) from None
        if isinstance(error, http.client.RemoteDisconnected):
            msg = "the server hung up without an answer"
            raise Closed(msg) from None
        if isinstance(error, http.client.HTTPException | OSError | ValueError):
            msg = f"the connection broke: {type(error).__name__}: {error}"
            raise Closed(msg) from None


def refusal(reply: Reply, body: bytes) -> str:
    """An HTTP status that is no answer, in words."""
    text = f"HTTP {reply.status} {reply.response.reason}".strip()
    if where := reply.header("location"):
        return f"{text}: it points to {shown_url(where) if '://' in where else clean(where.encode()[:200])}"
    if asked := reply.header("www-authenticate"):
        text += f", it wants: {clean(asked.encode()[:200])}"
    first = clean(body[:200].strip().split(b"\n")[0])
    return f"{text}: {first}" if first else text


def messages_in(raw: bytes, stray: Stray | None) -> list[Message]:
    """The messages in a body or an event: one, or a batch as 2025-03-26 had it."""
    if raw.lstrip()[:1] == b"[":
        try:
            items = json.loads(raw)
        except (ValueError, RecursionError):
            items = []
        return [item for item in items if isinstance(item, dict)]
    message = parse_message(raw)
    if message is None and stray is not None and raw.strip():
        stray.add(raw)
    return [message] if message is not None else []
