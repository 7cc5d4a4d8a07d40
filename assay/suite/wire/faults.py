"""What can go wrong between a client and a server, each fault with its phase, cause and evidence.

    Unmeasured
    └── WireFault           phase, cause, evidence
        ├── StartFault      no session could be opened
        ├── Gone            the server went away, or the connection to it broke
        ├── NoAnswer        nothing came in time
        └── BadAnswer       an answer came, and it breaks the protocol
    RpcError                an answer: the server refused the request (JSON-RPC error)

`Closed`, `TimedOut` and `HttpRefused` are what transports raise; the session adds the phase and makes them one of the
above.
"""

from __future__ import annotations

from collections.abc import Mapping

from assay.model.errors import Unmeasured


class WireFault(Unmeasured):
    """Something between client and server is broken.

    Args:
        phase: What was being done: `start`, `initialize`, `tools/list`, `tools/call echo`, ...
        cause: What happened, in words.
        evidence: What helps to find out why: command, exit, stderr, status, ...; label to text.
    """

    def __init__(self, phase: str, cause: str, evidence: Mapping[str, str] | None = None) -> None:
        self.phase, self.cause, self.evidence = phase, cause, dict(evidence or {})
        super().__init__(f"{phase}: {cause}")

    def told(self) -> str:
        """The fault with its evidence, a line each."""
        return "\n".join([str(self), *(f"  {label}: {text}" for label, text in self.evidence.items())])


class StartFault(WireFault):
    """No session could be opened."""


class Gone(WireFault):
    """The server went away, or the connection to it broke."""


class NoAnswer(WireFault):
    """Nothing came in time."""


class BadAnswer(WireFault):
    """An answer came, and it breaks the protocol."""


class RpcError(Exception):
    """The server answered a request with a JSON-RPC error.

    Args:
        code: As the server gave it.
        message: As the server gave it.
        data: As the server gave it.
    """

    def __init__(self, code: int, message: str, data: object = None) -> None:
        self.code, self.message, self.data = code, message, data
        super().__init__(f"{code} {message}")


class TimedOut(Exception):
    """The deadline passed; the transport may still be busy."""


class Closed(Exception):
    """The other side is gone; the text says how."""


class HttpRefused(Closed):
    """The server answered with an HTTP status that is no answer.

    Args:
        status: The HTTP status.
        text: What it means, in words.
    """

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)
