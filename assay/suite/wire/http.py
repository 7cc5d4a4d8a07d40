"""Streamable HTTP (2025-03-26 and later): every message is a POST, its answer JSON or a stream of events."""

from __future__ import annotations

import contextlib
import time
from collections import deque

from assay.suite.wire.faults import Closed, HttpRefused, TimedOut
from assay.suite.wire.sse import Events
from assay.suite.wire.transport import Message, Server, Stray, clean, encode, shown_url
from assay.suite.wire.web import Reply, Web, messages_in, refusal

_ACCEPT = "application/json, text/event-stream"
MAX_RESUMES = 3
"""How often the rest of one answer is asked for when the server ends its stream early."""
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


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
        headers = {"Accept": _ACCEPT, "Content-Type": "application/json", **self._ids(), **_modern_headers(message)}
        reply = web.request("POST", deadline, headers, encode(message))
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
                self._queue.extend(messages_in(event.data.encode(), self.stray))
        return self._queue.popleft()

    def close(self, *, patient: bool = True) -> None:
        """End the session at the server, where it gave one; never raises."""
        self._end_stream()
        if self._session and patient:
            with contextlib.suppress(Closed, TimedOut):
                self._web.request("DELETE", time.monotonic() + 2, self._ids()).finish()
        self._web.close()
        self._side.close()

    def evidence(self) -> dict[str, str]:
        """Address and last status; see `Transport.evidence`."""
        return {"url": shown_url(self.server.url), **({"status": self._status} if self._status else {})}

    def _ids(self) -> dict[str, str]:
        return {"Mcp-Session-Id": self._session, "MCP-Protocol-Version": self.protocol}

    def _whole(self, reply: Reply, deadline: float) -> None:
        body = reply.body(deadline)
        found = messages_in(body, None)
        if not found:
            what = f"content type {reply.kind or 'not given'}, body: {clean(body[:200]) or '(empty)'}"
            raise HttpRefused(reply.status, f"HTTP {self._status} without a message ({what})")
        self._queue.extend(found)

    def _refused(self, reply: Reply, deadline: float, *, is_request: bool) -> None:
        body = b"" if 300 <= reply.status < 400 else reply.body(deadline)
        found = [m for m in messages_in(body, None) if is_request and "error" in m and m.get("id") is not None]
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
        headers = {"Accept": "text/event-stream", "Last-Event-ID": events.last_id, **self._ids()}
        reply = self._web.request("GET", deadline, headers)
        if reply.status == 200 and reply.kind == "text/event-stream":
            self._reply, self._events = reply, Events()
            self._events.last_id = events.last_id
        else:
            reply.finish()

    def _end_stream(self) -> None:
        """Give up the stream of the last answer; one that has ended meanwhile leaves its connection usable."""
        if self._reply is not None:
            with contextlib.suppress(Closed, TimedOut):
                while self._reply.chunk(time.monotonic() + 0.02):
                    pass
            self._reply.finish()
            self._reply = self._events = None


def _modern_headers(message: Message) -> dict[str, str]:
    """What 2026-07-28 wants repeated in the HTTP head."""
    params, method = message.get("params"), message.get("method")
    if not isinstance(params, dict) or not isinstance(method, str) or "_meta" not in params:
        return {}
    name = params.get(_NAMED.get(method, ""))
    return {"Mcp-Method": method, **({"Mcp-Name": _header_value(name)} if isinstance(name, str) else {})}


def _header_value(text: str) -> str:
    """A name in an HTTP head; what is not plain ASCII goes as marked base64 (2026-07-28)."""
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?base64?"):
        return text
    import base64

    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="
