"""What the two suite commands have in common: how a report leaves them, and that SIGTERM ends them as Ctrl-C does."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from assay.model.errors import UsageError
from assay.model.report import Report, junit_xml
from assay.model.score import exact
from assay.terminal.suite_tables import print_report, print_text


def put_out(report: Report, *, as_json: bool, junit: Path | None) -> int:
    """Write a report where it was asked for; returns the exit code.

    Raises:
        UsageError: The JUnit file cannot be written.
    """
    if junit is not None:
        try:
            junit.write_text(junit_xml(report), encoding="utf-8")
        except OSError as error:
            msg = f"{junit} cannot be written: {(error.strerror or str(error)).lower()}"
            raise UsageError(msg) from None
    if as_json:
        print_text(json.dumps(report.as_dict(), indent=2, allow_nan=False) + "\n")
    else:
        print_report(report)
    return report.exit_code


def read_threshold(text: str) -> Fraction:
    """The value of `--threshold`, exact.

    Raises:
        UsageError: It is no number from 0 to 1.
    """
    try:
        value = exact(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(-1)
    if not 0 <= value <= 1:
        msg = f"--threshold is a number from 0 to 1, not {text!r}"
        raise UsageError(msg)
    return value


def write_new(file: Path, text: str, *, force: bool) -> None:
    """Write a file that is not there yet.

    Raises:
        UsageError: It is there and `force` is not given, or it cannot be written.
    """
    try:
        with file.open("w" if force else "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        msg = f"{file} is there already; give another name with -o, or --force to replace it"
        raise UsageError(msg) from None
    except OSError as error:
        msg = f"{file} cannot be written: {(error.strerror or str(error)).lower()}"
        raise UsageError(msg) from None


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM, which CI systems send, unwind like Ctrl-C, so that servers are closed."""

    def unwind(number: int, frame: object) -> None:  # noqa: ARG001 - the signal module's signature
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
