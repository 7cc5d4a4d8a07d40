"""Server-sent events: bytes in, events out."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass

from assay.suite.wire.faults import Closed
from assay.suite.wire.transport import MAX_MESSAGE


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `name` is `message` where the stream names none."""

    name: str
    data: str


class Events:
    """Reads a stream piece by piece."""

    def __init__(self) -> None:
        self.last_id = ""
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._pending: list[str] = []
        self._pending_size = 0
        self._after_cr = False
        self._data: list[str] = []
        self._name = ""

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that a piece completes.

        Raises:
            Closed: One event grows beyond every measure.
        """
        text = self._decoder.decode(chunk)
        if self._after_cr and text.startswith("\n"):
            text = text[1:]
        self._after_cr = text.endswith("\r") or (self._after_cr and not text)
        first, *others = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._pending.append(first)
        self._pending_size += len(first)
        if self._pending_size > MAX_MESSAGE:
            msg = f"sent one event of more than {MAX_MESSAGE >> 20} MiB"
            raise Closed(msg)
        for nxt in others:
            line, self._pending = "".join(self._pending), [nxt]
            self._pending_size = len(nxt) + sum(map(len, self._data))
            if (event := self._line(line)) is not None:
                yield event

    def _line(self, line: str) -> Event | None:
        if not line:
            event = Event(self._name or "message", "\n".join(self._data)) if self._data else None
            self._data, self._name = [], ""
            return event
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if key == "data":
            self._data.append(value)
        elif key == "event":
            self._name = value
        elif key == "id" and "\0" not in value:
            self.last_id = value
        return None
