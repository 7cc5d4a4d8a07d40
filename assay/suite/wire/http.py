"""Servers behind an address: streamable HTTP (2025-03-26 and later) and HTTP with SSE (2024-11-05).

On `http.client`, whose socket is at hand: every wait then has exactly the time that is left until the deadline.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
from collections import deque
from urllib.parse import SplitResult, urljoin, urlsplit

from assay.suite.wire.faults import Closed, HttpRefused, TimedOut
from assay.suite.wire.sse import Event, Events
from assay.suite.wire.transport import (
    MAX_MESSAGE,
    Message,
    Server,
    Stray,
    clean,
    encode,
    parse_message,
    remaining,
    shown_url,
)

_ACCEPT = "application/json, text/event-stream"
MAX_RESUMES = 3
"""How often the rest of one answer is asked for when the server ends its stream early."""
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Reply:
    """One HTTP answer, read piece by piece."""

    def __init__(self, connection: http.client.HTTPConnection, sock: socket.socket) -> None:
        self._connection, self._sock = connection, sock
        self.response = connection.getresponse()
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
        with _translated():
            self._sock.settimeout(remaining(deadline))
            return self.response.read1(65536)

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
        if not self.response.isclosed():
            self._connection.close()
        self.response.close()


class Web:
    """An address, and one kept connection to it."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.url, self.headers = url, headers
        self.parts: SplitResult = urlsplit(url)
        self._kept: http.client.HTTPConnection | None = None
        self._last: Reply | None = None

    def request(self, method: str, deadline: float, body: bytes | None = None, **headers: str) -> Reply:
        """Send a request and wait for the head of its answer.

        Raises:
            Closed: Nothing listens there, or the connection broke.
            TimedOut: The deadline passed.
        """
        connection = self._connection(deadline)
        target = (self.parts.path or "/") + (f"?{self.parts.query}" if self.parts.query else "")
        sent = {"User-Agent": "assay", **self.headers, **{k.replace("_", "-"): v for k, v in headers.items() if v}}
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
            read_to_end = self._last is not None and self._last.response.isclosed()
            if read_to_end and kept.sock is not None and not _hung_up(kept.sock):
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


class StreamableHttp:
    """One address; every message is a POST, its answer JSON or a stream of events."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.stray = Stray()
        self.protocol = ""
        self._web = Web(server.url, dict(server.headers))
        self._side = Web(server.url, dict(server.headers))
        self._session = ""
        self._status = ""
        self._queue: deque[Message] = deque()
        self._reply: Reply | None = None
        self._events: Events | None = None
        self._resumed = 0

    def open(self, deadline: float) -> None:
        """Nothing to do before the first message."""

    def send(self, message: Message, deadline: float) -> None:
        """POST one message; see `Transport.send`."""
        is_request = "method" in message and "id" in message
        if is_request:
            self._end_stream()
            self._resumed = 0
        web = self._web if self._reply is None else self._side
        reply = web.request(
            "POST",
            deadline,
            encode(message),
            Accept=_ACCEPT,
            Content_Type="application/json",
            Mcp_Session_Id=self._session,
            MCP_Protocol_Version=self.protocol,
            **self._modern_headers(message),
        )
        self._status = f"{reply.status} {reply.response.reason}".strip()
        self._session = reply.header("mcp-session-id") or self._session
        if reply.status >= 300:
            self._refused(reply, deadline, is_request=is_request)
        elif not is_request:
            reply.body(deadline)
        elif reply.kind == "text/event-stream":
            self._reply, self._events = reply, Events()
        else:
            self._whole(reply, deadline)

    def receive(self, deadline: float) -> Message:
        """The next message of the answer; see `Transport.receive`."""
        while not self._queue:
            if self._reply is None or self._events is None:
                msg = "the HTTP answer ended before the message that was asked for"
                raise Closed(msg)
            chunk = self._reply.chunk(deadline)
            if not chunk:
                self._resume(deadline)
                continue
            for event in self._events.feed(chunk):
                self._queue.extend(_messages(event.data.encode(), self.stray))
        return self._queue.popleft()

    def close(self, *, patient: bool = True) -> None:
        """End the session at the server, where it gave one; never raises."""
        import time

        self._end_stream()
        if self._session and patient:
            try:
                reply = self._side.request(
                    "DELETE",
                    time.monotonic() + 2,
                    Mcp_Session_Id=self._session,
                    MCP_Protocol_Version=self.protocol,
                )
                reply.finish()
            except (Closed, TimedOut):
                pass
        self._web.close()
        self._side.close()

    def evidence(self) -> dict[str, str]:
        """Address and last status; see `Transport.evidence`."""
        return {"url": shown_url(self.server.url), **({"status": self._status} if self._status else {})}

    def _modern_headers(self, message: Message) -> dict[str, str]:
        """What 2026-07-28 wants repeated in the HTTP head."""
        params, method = message.get("params"), message.get("method")
        if not isinstance(params, dict) or not isinstance(method, str) or "_meta" not in params:
            return {}
        name = params.get(_NAMED.get(method, ""))
        return {"Mcp_Method": method, **({"Mcp_Name": _header_value(name)} if isinstance(name, str) else {})}

    def _whole(self, reply: Reply, deadline: float) -> None:
        body = reply.body(deadline)
        found = _messages(body, None)
        if not found:
            what = f"content type {reply.kind or 'not given'}, body: {clean(body[:200]) or '(empty)'}"
            raise HttpRefused(reply.status, f"HTTP {self._status} without a message ({what})")
        self._queue.extend(found)

    def _refused(self, reply: Reply, deadline: float, *, is_request: bool) -> None:
        body = b"" if 300 <= reply.status < 400 else reply.body(deadline)
        found = [m for m in _messages(body, None) if is_request and "error" in m and m.get("id") is not None]
        reply.finish()
        if found:
            self._queue.extend(found)
            return
        raise HttpRefused(reply.status, refusal(reply, body))

    def _resume(self, deadline: float) -> None:
        """Ask for the rest of a stream that the server ended early, if its events are numbered."""
        events, self._reply = self._events, None
        if events is None or not events.last_id or self._resumed >= MAX_RESUMES:
            return
        self._resumed += 1
        reply = self._web.request(
            "GET",
            deadline,
            Accept="text/event-stream",
            Mcp_Session_Id=self._session,
            MCP_Protocol_Version=self.protocol,
            Last_Event_ID=events.last_id,
        )
        if reply.status == 200 and reply.kind == "text/event-stream":
            self._reply, self._events = reply, Events()
            self._events.last_id = events.last_id
        else:
            reply.finish()

    def _end_stream(self) -> None:
        if self._reply is not None:
            self._reply.finish()
            self._reply = self._events = None


class SseHttp:
    """A stream of events to listen to, and an address for messages that the stream names first."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.stray = Stray()
        self.protocol = ""
        self._listen = Web(server.url, dict(server.headers))
        self._post: Web | None = None
        self._stream: Reply | None = None
        self._events = Events()
        self._queue: deque[Message] = deque()
        self._status = ""

    def open(self, deadline: float) -> None:
        """Open the stream and wait for the address; see `Transport.open`."""
        self._stream = self._listen.request("GET", deadline, Accept="text/event-stream")
        self._status = f"{self._stream.status} {self._stream.response.reason}".strip()
        if self._stream.status != 200 or self._stream.kind != "text/event-stream":
            body = b"" if self._stream.kind == "text/event-stream" else self._stream.body(deadline)
            raise HttpRefused(self._stream.status, refusal(self._stream, body))
        while self._post is None:
            self._read(deadline)

    def send(self, message: Message, deadline: float) -> None:
        """POST one message to the address; see `Transport.send`."""
        reply = self._address().request(
            "POST", deadline, encode(message), Content_Type="application/json", MCP_Protocol_Version=self.protocol
        )
        body = reply.body(deadline)
        self._status = f"{reply.status} {reply.response.reason}".strip()
        if reply.status >= 300:
            raise HttpRefused(reply.status, refusal(reply, body))

    def receive(self, deadline: float) -> Message:
        """The next message of the stream; see `Transport.receive`."""
        while not self._queue:
            self._read(deadline)
        return self._queue.popleft()

    def close(self, *, patient: bool = True) -> None:  # noqa: ARG002 - hanging up does not wait
        """Hang up; never raises."""
        if self._stream is not None:
            self._stream.finish()
        self._listen.close()
        if self._post is not None:
            self._post.close()

    def evidence(self) -> dict[str, str]:
        """Address and last status; see `Transport.evidence`."""
        return {"url": shown_url(self.server.url), **({"status": self._status} if self._status else {})}

    def _address(self) -> Web:
        if self._post is None:
            msg = "the server has not named an address for messages"
            raise Closed(msg)
        return self._post

    def _read(self, deadline: float) -> None:
        chunk = self._stream.chunk(deadline) if self._stream is not None else b""
        if not chunk:
            msg = "the server ended its event stream"
            raise Closed(msg)
        for event in self._events.feed(chunk):
            self._take(event)

    def _take(self, event: Event) -> None:
        if event.name != "endpoint":
            self._queue.extend(_messages(event.data.encode(), self.stray))
            return
        url = urljoin(self.server.url, event.data)
        if urlsplit(url)[:2] != urlsplit(self.server.url)[:2]:
            msg = f"the server names an address for messages on another host: {clean(url.encode())}"
            raise Closed(msg)
        self._post = Web(url, dict(self.server.headers))


def refusal(reply: Reply, body: bytes) -> str:
    """An HTTP status that is no answer, in words."""
    text = f"HTTP {reply.status} {reply.response.reason}".strip()
    if where := reply.header("location"):
        return f"{text}: it points to {shown_url(where) if '://' in where else clean(where.encode()[:200])}"
    if asked := reply.header("www-authenticate"):
        text += f", it wants: {clean(asked.encode()[:200])}"
    first = clean(body[:200].strip().split(b"\n")[0])
    return f"{text}: {first}" if first else text


def _messages(raw: bytes, stray: Stray | None) -> list[Message]:
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


def _header_value(text: str) -> str:
    """A name in an HTTP head; what is not plain ASCII goes as marked base64 (2026-07-28)."""
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?base64?"):
        return text
    import base64

    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="
