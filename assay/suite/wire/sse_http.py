"""HTTP with SSE (2024-11-05): a stream of events to listen to, and an address for messages that it names first."""

from __future__ import annotations

from collections import deque
from urllib.parse import urljoin, urlsplit

from assay.suite.wire.faults import Closed, HttpRefused
from assay.suite.wire.sse import Event, Events
from assay.suite.wire.transport import Message, Server, Stray, clean, encode, shown_url
from assay.suite.wire.web import Reply, Web, messages_in, refusal


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
        self._stream = self._listen.request("GET", deadline, {"Accept": "text/event-stream"})
        self._status = f"{self._stream.status} {self._stream.response.reason}".strip()
        if self._stream.status != 200 or self._stream.kind != "text/event-stream":
            body = b"" if self._stream.kind == "text/event-stream" else self._stream.body(deadline)
            raise HttpRefused(self._stream.status, refusal(self._stream, body))
        while self._post is None:
            self._read(deadline)

    def send(self, message: Message, deadline: float) -> None:
        """POST one message to the address; see `Transport.send`."""
        headers = {"Content-Type": "application/json", "MCP-Protocol-Version": self.protocol}
        reply = self._address().request("POST", deadline, headers, encode(message))
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
            self._queue.extend(messages_in(event.data.encode(), self.stray))
            return
        url = urljoin(self.server.url, event.data)
        if urlsplit(url)[:2] != urlsplit(self.server.url)[:2]:
            msg = f"the server names an address for messages on another host: {clean(url.encode())}"
            raise Closed(msg)
        self._post = Web(url, dict(self.server.headers))
