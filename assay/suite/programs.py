"""Running a program that reads a text and writes one: an agent or a judge that is a command."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.suite.wire.processes import Mark, end_left_behind
from assay.suite.wire.transport import clean, in_words

MAX_OUTPUT = 64 * 1024 * 1024
"""Bytes of standard output that are read."""


class Failed(Exception):
    """The program could not be run, took too long, or said that it failed; the text says which, with its stderr."""


def run_program(
    command: Sequence[str],
    given: bytes,
    seconds: float,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> bytes:
    """Run a program to its end and return its standard output; whatever it started ends with it.

    Input and output are files, so that neither a program that does not read nor a child of it that keeps the output
    open can block: it is over when the process is.

    Raises:
        Failed: It could not be started, ran out of time, or did not exit with 0.
    """
    mark = Mark()
    prepare = mark.before_exec()
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        source.write(given)
        source.seek(0)
        try:
            process = subprocess.Popen(
                command,
                stdin=source,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env={**os.environ, **(env or {}), **mark.env},
                start_new_session=True,
                preexec_fn=prepare,  # noqa: PLW1509 - a main thread only, see there
            )
        except OSError as error:
            msg = f"{shlex.join(command)} cannot be started: {(error.strerror or str(error)).lower()}"
            raise Failed(msg) from None
        if prepare is None:
            mark.put_on(process.pid)
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            end_left_behind(mark, but_not=process.pid, patience=0)
        err.seek(max(err.seek(0, os.SEEK_END) - 4096, 0))
        last = "; ".join(clean(line)[:300] for line in err.read().splitlines()[-3:])
        told = f" (stderr: {last})" if last else ""
        if code is None:
            msg = f"{shlex.join(command)} did not end within {in_words(seconds)}{told}"
            raise Failed(msg)
        if code != 0:
            how = f"exited with code {code}" if code > 0 else f"was killed by {signal.Signals(-code).name}"
            msg = f"{shlex.join(command)} {how}{told}"
            raise Failed(msg)
        out.seek(0)
        return out.read(MAX_OUTPUT)
