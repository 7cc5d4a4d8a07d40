"""One container of a fence, and the lines it tells the harness.

A thread follows its log for as long as it lives, so that whatever it says, and its end, is an event.
"""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
import threading
from collections.abc import Callable
from typing import Any

from assay.model.errors import AssayError, EngineError, FenceFailed
from assay.sandbox.engine import Engine
from assay.sandbox.rules import Plan, written
from assay.sandbox.spec import Spec

PLAN_PATH = "run/fence/plan"

_NEVER = "0001-01-01T00:00:00Z"


class Sidecar:
    """A container that runs `assay.sandbox.fence_image.sidecar`.

    Attributes:
        id: Of the container.
        ended: Why it is gone, "" while it stands or when it was stopped on purpose.
    """

    def __init__(self, engine: Engine, container: str) -> None:
        self.engine, self.id, self.ended = engine, container, ""
        self._said: dict[str, list[dict[str, Any]]] = {}
        self._changed = threading.Condition()
        self._taken = 0
        self._stopping = False
        self._watchers: list[Callable[[str], None]] = []

    @classmethod
    def create(cls, engine: Engine, spec: Spec) -> Sidecar:
        """Create its container; nothing runs yet."""
        return cls(engine, engine.create(spec))

    def start(self, given: bytes | None = None) -> None:
        """Start it in the background, with this on its standard input, and follow what it says."""
        threading.Thread(target=self._live, args=(given,), name=f"fence {self.id[:12]}", daemon=True).start()

    def attach(self) -> None:
        """Follow one that another process started: first all that it has said, then what comes."""
        self._read(follow=False)
        threading.Thread(target=self._follow, name=f"fence {self.id[:12]}", daemon=True).start()

    def give_plan(self, plan: Plan) -> None:
        """Put a plan where it looks for one."""
        content = written(plan).encode("ascii")
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            entry = tarfile.TarInfo(PLAN_PATH)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        self.engine.put(self.id, buffer.getvalue())

    def expect(self, event: str, seconds: float, after: int = 0) -> dict[str, Any]:
        """Wait for an event of which there are `after` already.

        Raises:
            FenceFailed: It says that it failed, or it ended, or the time is up.
        """
        with self._changed:
            come = self._changed.wait_for(lambda: self.ended or self.heard(event) > after, seconds)
            if self.heard(event) > after:
                return self._said[event][-1]
        why = self.ended if come else f"it did not say {event!r} within {seconds:g} s"
        msg = f"the fence does not stand: {why}"
        raise FenceFailed(msg)

    def ask(self, signal: str, event: str, seconds: float) -> dict[str, Any]:
        """Send a signal and wait for the event that answers it."""
        before = self.heard(event)
        self.engine.signal(self.id, signal)
        return self.expect(event, seconds, before)

    def heard(self, event: str) -> int:
        """How often it said this."""
        return len(self._said.get(event, ()))

    def watch(self, call: Callable[[str], None]) -> None:
        """Call once with the reason if it ends before `stop`; at once if it has."""
        with self._changed:
            if not self.ended:
                self._watchers.append(call)
                return
        call(self.ended)

    def stop(self) -> None:
        """Remove its container."""
        self._stopping = True
        self.engine.remove(self.id)

    def _live(self, given: bytes | None) -> None:
        try:
            if given is None:
                self.engine.start(self.id)
            else:
                self.engine.feed(self.id, given)
        except AssayError as error:
            self._end(str(error))
            return
        self._follow()

    def _follow(self) -> None:
        """Follow the log to the container's end; a stream that merely broke is taken up where it was."""
        while not self._stopping:
            try:
                self._read(follow=True)
                why = self._state()
            except EngineError as error:
                why = "" if self._still_there() else str(error)
            if why:
                self._end(why)
                return

    def _read(self, *, follow: bool) -> None:
        """Take what it says beyond the bytes taken already."""
        skip, rest = self._taken, b""
        for stream, data in self.engine.log(self.id, follow=follow):
            if stream != 1:
                continue
            fresh = data[skip:]
            skip = max(0, skip - len(data))
            *lines, rest = (rest + fresh).split(b"\n")
            for line in lines:
                self._taken += len(line) + 1
                self._hear(line)

    def _hear(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            return
        with self._changed:
            self._said.setdefault(str(said["event"]), []).append(said)
            self._changed.notify_all()

    def _state(self) -> str:
        """Why it no longer stands, "" if it does."""
        state = self.engine.inspect(self.id)["State"]
        if not state["Running"]:
            failed = self._said.get("failed")
            code = state["ExitCode"]
            return str(failed[-1]["why"]) if failed else self._last_words() or f"its container ended (exit {code})"
        # A container that is running and has finished before is another namespace than the agent's.
        return "" if state["FinishedAt"] == _NEVER else "its container was restarted"

    def _last_words(self) -> str:
        """The last line of a traceback."""
        said = b"".join(data for stream, data in self.engine.log(self.id, follow=False) if stream == 2)
        lines = said.decode("utf-8", "replace").split("\n")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")

    def _still_there(self) -> bool:
        with contextlib.suppress(EngineError):
            return not self._state()
        return False

    def _end(self, why: str) -> None:
        with self._changed:
            if self._stopping:
                return
            self.ended = why
            watchers, self._watchers = self._watchers, []
            self._changed.notify_all()
        for call in watchers:
            call(why)
