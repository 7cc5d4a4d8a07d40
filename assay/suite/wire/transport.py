"""What a server is, and what every way of reaching one offers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from assay.suite.wire.faults import TimedOut

Message = dict[str, object]

CONNECT_TIMEOUT, CALL_TIMEOUT = 30.0, 30.0
"""Seconds."""
MAX_MESSAGE = 256 * 1024 * 1024
"""Bytes of one message; more than this is a fault of the server's, not an answer."""


@dataclass(frozen=True, slots=True)
class Server:
    """How to start or reach a server under test.

    Attributes:
        command: Program and arguments; empty when `url` is given.
        url: Address of an HTTP server; empty when `command` is given.
        transport: How to speak to `url`: auto, http (streamable HTTP) or sse (HTTP with SSE, 2024-11-05).
        env: Variables for the server, on top of what it inherits.
        inherit_env: Whether the server inherits the whole environment; else only HOME, LANG, PATH, SHELL, TERM, USER.
        cwd: Where the server starts; None is the current folder.
        headers: HTTP headers sent with every request.
        capabilities: What the client declares; a server may offer more tools to a client that can do more.
        roots: Folders (`file://` addresses) told to a server that asks.
        protocol: Protocol version to insist on; "" negotiates.
        connect_timeout: Seconds for starting and opening a session.
        call_timeout: Seconds for one request.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    transport: str = "auto"
    env: Mapping[str, str] = field(default_factory=dict)
    inherit_env: bool = True
    cwd: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    capabilities: Mapping[str, object] = field(default_factory=dict)
    roots: tuple[str, ...] = ()
    protocol: str = ""
    connect_timeout: float = CONNECT_TIMEOUT
    call_timeout: float = CALL_TIMEOUT


@dataclass(slots=True)
class Stray:
    """What came on standard output that is no message: it breaks strict clients."""

    count: int = 0
    samples: list[str] = field(default_factory=list)

    def add(self, line: bytes) -> None:
        """Count a line and keep the first few, cut."""
        self.count += 1
        if len(self.samples) < 3:
            self.samples.append(clean(line[:200]))


class Transport(Protocol):
    """One connection to one server."""

    stray: Stray

    def open(self, deadline: float) -> None:
        """Start or reach the server.

        Raises:
            Closed: It cannot be started or reached.
            TimedOut: The deadline passed.
        """
        ...

    def send(self, message: Message, deadline: float) -> None:
        """Send one message; the same errors."""
        ...

    def receive(self, deadline: float) -> Message:
        """The next message; the same errors."""
        ...

    def close(self, *, patient: bool = True) -> None:
        """End the connection, and the server if this started it; never raises. A server known to hang gets no time."""
        ...

    def evidence(self) -> dict[str, str]:
        """What helps to find out why something failed, label to text."""
        ...


def remaining(deadline: float) -> float:
    """Seconds left until a deadline of the monotonic clock.

    Raises:
        TimedOut: None are left.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimedOut
    return left


def in_words(seconds: float) -> str:
    """A time limit as a person says it."""
    return f"{seconds:.3g} s" if seconds < 1 else f"{round(seconds, 1):g} s"


def parse_message(raw: bytes) -> Message | None:
    """The JSON-RPC message in a line, or None if it is none."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and ("method" in value or "id" in value) else None


def encode(message: Message) -> bytes:
    """A message as one line of UTF-8 without its newline; lone surrogates are sent as escapes."""
    try:
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(message, separators=(",", ":")).encode()


def clean(raw: bytes) -> str:
    """Bytes from a server as text on one line that no terminal acts on."""
    text = raw.decode("utf-8", "backslashreplace").rstrip("\r\n")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown_url(url: str) -> str:
    """An address without user, password and query, where secrets may be."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" + ("?…" if parts.query else "")
