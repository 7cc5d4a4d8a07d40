"""Follow an agent's output: write it, decode it, show it; one thread a run.

Following the engine's log live is a view that may lose the tail of a burst. The record is therefore completed from
one whole read after the process has ended, skipping what is on disk already; secrets are overwritten in place, so the
offsets hold. A harness that takes a run over skips in the same way what an earlier one kept, after a line that was
torn in half was cut off.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from assay.model.errors import EngineError
from assay.model.events import Decoder, Event, Facts
from assay.run.record import cut_torn
from assay.run.redact import Redactor
from assay.sandbox.engine import Engine

EVENTS = "events.jsonl"
STDERR = "stderr.log"
STDOUT_STREAM = 1
SHORTEST_FRAME = 64


class Follower(threading.Thread):
    """Reads a container's output from its start to its end.

    Args:
        engine: Where the container is.
        container: Its id.
        run: The run directory; events.jsonl and stderr.log grow in it.
        decoder: Of the agent's stream.
        redactor: Knows the secrets.
        on_output: Called with all output, before secrets are looked for in it.
        on_event: Called for each event, in order.
        on_failure: Called once if the output cannot be read or kept any more.
        most: Bytes of output, both streams together, that are kept; beyond them `on_flood` is called.
        on_flood: Ends the agent: it would fill the disks of this machine and of the engine's.

    Attributes:
        facts: What the stream stated; complete once the thread has ended.
        heard: When the last output came (monotonic seconds).
        fault: Why the decoder gave up, if it did; the bytes are kept all the same.
        failure: Why the output could not be read or kept to its end.
    """

    def __init__(
        self,
        engine: Engine,
        container: str,
        run: Path,
        decoder: Decoder,
        redactor: Redactor,
        on_output: Callable[[bytes], None],
        on_event: Callable[[Event], None],
        on_failure: Callable[[Exception], None],
        most: int,
        on_flood: Callable[[], None],
    ) -> None:
        super().__init__(name=f"follow {container[:12]}", daemon=True)
        self._engine, self._container, self._decoder, self._redactor = engine, container, decoder, redactor
        self._on_output, self._on_event, self._on_failure = on_output, on_event, on_failure
        self._room, self._on_flood = most, on_flood
        self._events = run / EVENTS
        self._kept = {1: cut_torn(run / EVENTS), 2: cut_torn(run / STDERR)}
        self._files: dict[int, IO[bytes]] = {
            1: (run / EVENTS).open("ab", buffering=0),
            2: (run / STDERR).open("ab", buffering=0),
        }
        self._partial: dict[int, list[bytes]] = {1: [], 2: []}
        self._ended = threading.Event()
        self._given_up = threading.Event()
        self.facts = Facts()
        self.heard = time.monotonic()
        self.fault: BaseException | None = None
        self.failure: Exception | None = None

    def run(self) -> None:
        """Follow until the process has ended and everything is kept."""
        lines = self._lines()
        try:
            self._decode(lines)
            for _ in lines:
                pass
        except (OSError, EngineError) as error:
            self.failure = error
            self._cut()
            self._on_failure(error)
        finally:
            for file in self._files.values():
                file.close()

    def process_ended(self) -> None:
        """Say that the process has ended: what is in the log now is all there will be."""
        self._ended.set()

    def _cut(self) -> None:
        """Leave whole lines only, where a write got no further (a full disk)."""
        for stream, file in self._files.items():
            with contextlib.suppress(OSError):
                file.truncate(self._kept[stream])

    def give_up(self) -> None:
        """Take no more output: what is kept by now has to do."""
        self._given_up.set()

    def _decode(self, lines: Iterator[bytes]) -> None:
        decoding = self._decoder.decode(lines)
        try:
            while True:
                event = next(decoding)
                self._on_event(event)
        except StopIteration as end:
            self.facts = end.value
        except (OSError, EngineError):
            raise
        except Exception as error:  # noqa: BLE001 - a decoder's fault must not cost the run its output
            self.fault = error

    def _lines(self) -> Iterator[bytes]:
        """Lines of standard output: what an earlier harness kept, then what comes, after it was kept."""
        if self._kept[STDOUT_STREAM]:
            with self._events.open("rb") as kept:
                for line in kept:
                    yield line[:-1]
        # If the container is gone, and not only the view of it, the whole read below says so.
        with contextlib.suppress(EngineError):
            yield from self._new(follow=True)
        self._ended.wait()
        yield from self._new(follow=False)
        for stream in (2, 1):
            if rest := b"".join(self._partial[stream]):
                self._partial[stream] = []
                cleaned = self._clean(rest)
                _write_all(self._files[stream], cleaned)
                if stream == STDOUT_STREAM:
                    yield cleaned

    def _new(self, *, follow: bool) -> Iterator[bytes]:
        """Read the log from its start, passing over what we have."""
        skip = {stream: size + sum(map(len, self._partial[stream])) for stream, size in self._kept.items()}
        for stream, data in self._engine.log(self._container, follow=follow):
            had = skip.get(stream, 0)
            if had:
                skip[stream] = max(0, had - len(data))
                data = data[had:]
            if self._given_up.is_set():
                return
            if not data:
                continue
            if self._room < 0:
                # What is beyond is not kept: reading it would take longer than the run.
                self._on_flood()
                return
            yield from self._keep(stream, data)

    def _keep(self, stream: int, data: bytes) -> Iterator[bytes]:
        """Write the complete lines of a chunk; yield those of standard output."""
        self.heard = time.monotonic()
        # A frame costs time whatever its length: short lines count for more than their bytes.
        self._room -= max(len(data), SHORTEST_FRAME)
        whole, newline, rest = data.rpartition(b"\n")
        partial = self._partial[stream]
        if not newline:
            partial.append(data)
            return
        block = self._clean(b"".join([*partial, whole, b"\n"]))
        partial[:] = [rest] if rest else []
        _write_all(self._files[stream], block)
        self._kept[stream] += len(block)
        if stream == STDOUT_STREAM:
            yield from block[:-1].split(b"\n")

    def _clean(self, data: bytes) -> bytes:
        self._on_output(data)
        return self._redactor.clean(data)


def _write_all(file: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
