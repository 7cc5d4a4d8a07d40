"""Opening a session with whatever kind of server it is."""

from __future__ import annotations

import time
from collections.abc import Callable

from assay.suite.wire.faults import BadAnswer, Closed, Gone, HttpRefused, NoAnswer, StartFault, TimedOut, WireFault
from assay.suite.wire.session import MODERN, Refusal, Session
from assay.suite.wire.stdio import Stdio
from assay.suite.wire.transport import Server, Transport, in_words

_MAYBE_OLD = (400, 404, 405)
"""What a server of 2024-11-05, which knows no POST at its address, may answer to one."""


def connect(server: Server) -> Session:
    """Start or reach a server and open a session.

    `initialize` comes first, at the newest version that has it; a server that has no handshake is asked with
    `server/discover` in a new process, since real servers have died of requests that they did not expect.

    Raises:
        StartFault: No session could be opened; carries phase, cause and evidence.
    """
    deadline = time.monotonic() + server.connect_timeout
    try:
        if not server.url:
            return _handshake(server, lambda: Stdio(server), deadline)
        from assay.suite.wire.http import StreamableHttp
        from assay.suite.wire.sse_http import SseHttp

        if server.transport == "sse":
            return _handshake(server, lambda: SseHttp(server), deadline)
        try:
            return _handshake(server, lambda: StreamableHttp(server), deadline)
        except Refusal as first:
            if server.transport == "http" or first.status not in _MAYBE_OLD:
                raise
            try:
                return _handshake(server, lambda: SseHttp(server), deadline)
            except WireFault:
                raise first from None
    except (Gone, NoAnswer, BadAnswer) as fault:
        raise StartFault(fault.phase, fault.cause, fault.evidence) from None


def _handshake(server: Server, transport: Callable[[], Transport], deadline: float) -> Session:
    session = _opened(server, transport(), deadline)
    version = server.protocol
    if server.protocol not in MODERN:
        try:
            version = session.initialize(_left(deadline))
        except BaseException:
            session.close()
            raise
        if not version:
            return session
        session.close()
        session = _opened(server, transport(), deadline)
    try:
        session.discover(version, _left(deadline))
    except BaseException:
        session.close()
        raise
    return session


def _opened(server: Server, transport: Transport, deadline: float) -> Session:
    phase = "connect" if server.url else "start"
    try:
        transport.open(deadline)
    except TimedOut:
        transport.close()
        why = f"no answer within {in_words(server.connect_timeout)}"
        raise StartFault(phase, why, transport.evidence()) from None
    except HttpRefused as error:
        transport.close()
        raise Refusal(phase, str(error), transport.evidence(), error.status) from None
    except Closed as error:
        transport.close()
        raise StartFault(phase, str(error), _but_exit(transport.evidence())) from None
    return Session(server, transport)


def _but_exit(evidence: dict[str, str]) -> dict[str, str]:
    """Evidence of what never ran has no exit and no stderr."""
    return {label: text for label, text in evidence.items() if label not in ("exit", "stderr")}


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.001)
