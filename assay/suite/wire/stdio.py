"""A server that is a child process and speaks JSON lines on its standard input and output.

One thread, one poll loop: while a request is written, output and stderr are read, so no full pipe can block either
side.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import time
from collections import deque

from assay.suite.wire.faults import Closed, TimedOut
from assay.suite.wire.processes import Mark, end_left_behind
from assay.suite.wire.transport import MAX_MESSAGE, Message, Server, Stray, clean, encode, parse_message, remaining

TICK = 0.1
"""Seconds after which a silent server is looked at: has it exited while a child of its own holds the pipe?"""
PATIENT, HURRIED = (1.5, 0.7, 1.0), (0.1, 0.2, 1.0)
"""Seconds for a server to end after its input was closed, after SIGTERM, after SIGKILL."""
_CHUNK = 1 << 16
_STDERR_KEPT = 64 * 1024
_MINIMAL_ENV = ("HOME", "LANG", "PATH", "SHELL", "TERM", "USER")


class Stdio:
    """A server process, in a process group of its own."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.stray = Stray()
        self.left: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._mark = Mark()
        self._lines: deque[bytes] = deque()
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._stderr = bytearray()
        self._open: dict[int, str] = {}
        self._in = -1

    def open(self, deadline: float) -> None:  # noqa: ARG002 - starting a process does not wait
        """Start the process; see `Transport.open`."""
        server = self.server
        prepare = self._mark.before_exec()
        base = os.environ if server.inherit_env else {k: v for k in _MINIMAL_ENV if (v := os.environ.get(k))}
        try:
            self._process = subprocess.Popen(
                server.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=server.cwd,
                env={**base, **server.env, **self._mark.env},
                start_new_session=True,
                bufsize=0,
                preexec_fn=prepare,  # noqa: PLW1509 - a main thread only, see there
            )
        except OSError as error:
            raise Closed(_not_started(server, error)) from None
        if prepare is None:
            self._mark.put_on(self._process.pid)
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, out, err = (pipe.fileno() for pipe in pipes if pipe is not None)
        self._open = {out: "out", err: "err"}
        for fd in (self._in, *self._open):
            os.set_blocking(fd, False)
        self._poll = select.poll()
        for fd in self._open:
            self._poll.register(fd, select.POLLIN)

    def send(self, message: Message, deadline: float) -> None:
        """Write one line; see `Transport.send`."""
        data = memoryview(encode(message) + b"\n")
        while data:
            if self._in < 0:
                raise Closed(self._how_it_ended())
            try:
                data = data[os.write(self._in, data) :]
            except BlockingIOError:
                self._poll.register(self._in, select.POLLOUT)
                try:
                    self._step(remaining(deadline))
                finally:
                    self._poll.unregister(self._in)
            except OSError:
                self._close_input()

    def receive(self, deadline: float) -> Message:
        """The next message; see `Transport.receive`."""
        while True:
            while self._lines:
                line = self._lines.popleft()
                if (message := parse_message(line)) is not None:
                    return message
                if line.strip():
                    self.stray.add(line)
            if "out" not in self._open.values():
                raise Closed(self._how_it_ended())
            if self._partial_size > MAX_MESSAGE:
                msg = f"sent one line of more than {MAX_MESSAGE >> 20} MiB"
                raise Closed(msg)
            if not self._step(min(remaining(deadline), TICK)) and self._exited():
                self._drain(0.0)
                if not self._lines:
                    raise Closed(self._how_it_ended())

    def close(self, *, patient: bool = True) -> None:
        """Close the input, then SIGTERM, then SIGKILL, each with its own patience; nothing is left running."""
        process = self._process
        if process is None:
            return
        self._close_input()
        for seconds, number in zip(PATIENT if patient else HURRIED, (0, signal.SIGTERM, signal.SIGKILL), strict=True):
            self._signal(number)
            if self._wait(seconds):
                break
        self.left = end_left_behind(self._mark, but_not=process.pid)
        self._signal(signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        self._open, self._process = {}, None

    def evidence(self) -> dict[str, str]:
        """Command, exit and last stderr lines; see `Transport.evidence`."""
        out = {"command": shlex.join(self.server.command)}
        if self._process is not None and self._exited():
            self._drain(0.05)
        if (ended := self._exit_text()) is not None:
            out["exit"] = ended
        lines = [clean(line)[:500] for line in bytes(self._stderr).splitlines() if line.strip()]
        out["stderr"] = "\n".join(lines[-5:]) if lines else "(nothing)"
        if self.stray.count:
            out["stray output"] = f"{self.stray.count} lines, first: {self.stray.samples[0]}"
        return out

    def _step(self, seconds: float) -> bool:
        """Wait for the pipes and read what is there; False if nothing came."""
        moved = False
        for fd, _ in self._poll.poll(max(seconds, 0) * 1000):
            moved = True
            if (name := self._open.get(fd)) is None:
                continue
            try:
                chunk = os.read(fd, _CHUNK)
            except BlockingIOError:
                continue
            if not chunk:
                self._poll.unregister(fd)
                del self._open[fd]
                if name == "out" and self._partial:
                    self._take(b"\n")
            elif name == "out":
                self._take(chunk)
            else:
                self._stderr += chunk
                del self._stderr[:-_STDERR_KEPT]
        return moved

    def _take(self, chunk: bytes) -> None:
        """Cut output into lines; a long line is a list of chunks until its end, never a growing string."""
        first, *others = chunk.split(b"\n")
        self._partial.append(first)
        self._partial_size += len(first)
        if others:
            self._lines.append(b"".join(self._partial))
            self._lines.extend(others[:-1])
            self._partial, self._partial_size = [others[-1]], len(others[-1])

    def _exited(self) -> bool:
        """Whether the process has ended; it is not reaped yet, so that its group's number stays its own."""
        process = self._process
        if process is None or process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):
            return process.poll() is not None
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _wait(self, patience: float) -> bool:
        end = time.monotonic() + patience
        while not self._exited():
            if (left := end - time.monotonic()) <= 0:
                return False
            if self._open:
                self._step(min(left, 0.02))
            else:
                time.sleep(min(left, 0.005))
            self._lines.clear()
            self._partial, self._partial_size = [], 0
        return True

    def _drain(self, patience: float) -> None:
        """Read what an ended server left in its pipes."""
        end = time.monotonic() + patience
        while self._open and self._step(max(end - time.monotonic(), 0)):
            pass

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._in = -1
            self._process.stdin.close()

    def _exit_text(self) -> str | None:
        process = self._process
        if process is None or not self._exited():
            return None
        if process.returncode is None and hasattr(os, "waitid"):
            seen = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if seen is None:
                return None
            code = seen.si_status if seen.si_code == os.CLD_EXITED else -seen.si_status
        else:
            code = process.returncode
        return f"code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"

    def _how_it_ended(self) -> str:
        """Words for a server that no longer speaks."""
        end = time.monotonic() + 0.5
        while not self._exited() and time.monotonic() < end:
            try:
                self._step(0.01) if self._open else time.sleep(0.01)
            except TimedOut:
                break
        ended = self._exit_text()
        if ended is None:
            return "the server closed its standard output but is still running"
        return f"the server exited with {ended}" if ended.startswith("code") else f"the server was killed by {ended}"


def _not_started(server: Server, error: OSError) -> str:
    program = server.command[0]
    if server.cwd is not None and not server.cwd.is_dir():
        return f"the folder {server.cwd} to start it in is not there"
    if isinstance(error, FileNotFoundError):
        hint = "; it looks like a whole line: write it as a list" if " " in program else ""
        return f"no such program: {program}{hint}"
    if isinstance(error, PermissionError):
        return f"{program} may not be executed (no permission)"
    return f"{program} cannot be executed: {error.strerror or error}"
