"""The server under test: started when it is needed, started again when a fault has ended its session."""

from __future__ import annotations

import time

from assay.suite.wire.connect import connect
from assay.suite.wire.faults import StartFault
from assay.suite.wire.session import ServerInfo, Session
from assay.suite.wire.transport import Server, Stray


class Subject:
    """What checks are made on; a context manager that leaves nothing running.

    Args:
        server: How to start or reach it.
        end: Monotonic time at which the whole suite must be over.
    """

    def __init__(self, server: Server, end: float) -> None:
        self.server, self.end = server, end
        self.info = ServerInfo()
        self.starts = 0
        self.notes: list[str] = []
        self._session: Session | None = None
        self._stray = Stray()
        self._broken: StartFault | None = None

    def __enter__(self) -> Subject:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    @property
    def session(self) -> Session:
        """The open session, opened now if there is none.

        Raises:
            StartFault: It cannot be opened; after a second failure it is not tried again.
        """
        if self._broken is not None:
            raise self._broken
        if self._session is None:
            try:
                self._session = connect(self.server)
            except StartFault as fault:
                self._broken = fault
                raise
            self.starts += 1
            self.info = self._session.info
        return self._session

    def seconds(self, wanted: float | None = None, at_least: float | None = None) -> float:
        """How long one request may take: as wanted, else the server's limit, never beyond the suite's end."""
        limit = wanted or max(self.server.call_timeout, (at_least or 0) * 1.1)
        return max(min(limit, self.end - time.monotonic()), 0.001)

    def drop(self) -> None:
        """Close the session, if there is one; the next check gets a new one."""
        if self._session is not None:
            session, self._session = self._session, None
            session.close()
            self.notes += [note for note in session.notes if note not in self.notes]
            self._stray = _both(self._stray, session.stray)

    @property
    def stray(self) -> Stray:
        """Standard output that was no message, of all sessions so far."""
        return self._stray if self._session is None else _both(self._stray, self._session.stray)


def _both(a: Stray, b: Stray) -> Stray:
    return Stray(a.count + b.count, [*a.samples, *b.samples][:3])
