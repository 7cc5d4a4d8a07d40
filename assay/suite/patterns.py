"""Regular expressions as RE2 has them, matched in bounded time whatever pattern and text are.

RE2 is what suites of the Go harness are written for, and never takes more than linear time. What it does not know
(look-around, back-references) is Python's `re`, whose time knows no bound: that runs in a process of its own, which
ends when its time is over. So does a large pattern on a long text.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import warnings
from typing import Any

MATCH_SECONDS = 5.0
"""What matching may take for one score, all its patterns together."""
TOO_DEEP = "it is nested too deeply to be compared, so there is no score"
_HERE_MOST = 10**8
"""Instructions times bytes that are matched in this process: less than a second at 8 ns each, the slowest seen."""
_LONGEST = 10_000
"""Characters of a pattern that RE2 refuses and `re` is shown; its compiler is not made for strangers."""
_CHILD = """
import json, signal, sys, warnings
warnings.simplefilter("ignore")
pattern, text, linear, seconds = json.loads(sys.stdin.buffer.read())
if hasattr(signal, "alarm"):
    signal.alarm(seconds)  # should nobody be left to end it
if linear:
    import re2
    print(re2.search(pattern.encode(), text.encode()) is not None)
else:
    import re
    print(re.search(pattern, text) is not None)
"""


class BadPattern(ValueError):
    """No regular expression; the text says why."""


class Undecided(Exception):
    """Whether something holds could not be told, so there is no score; the text says why."""


class Pattern:
    """A compiled regular expression.

    Attributes:
        pattern: As it was written.

    Raises:
        BadPattern: Neither RE2 nor `re` can read it.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._re2 = _compiled(pattern)

    def search(self, text: str, end: float | None = None) -> bool:
        """Whether it is found anywhere in a text; `end` is the monotonic time at which this must be over.

        Raises:
            Undecided: It was not.
        """
        text = _encodable(text)
        if self._re2 is not None:
            data = text.encode()
            if self._re2.programsize * len(data) <= _HERE_MOST:
                return self._re2.search(data) is not None
        left = MATCH_SECONDS if end is None else max(end - time.monotonic(), 0.001)
        given = json.dumps([_encodable(self.pattern), text, self._re2 is not None, int(left) + 2]).encode()
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-c", _CHILD], input=given, capture_output=True, timeout=left, check=False
            )
        except subprocess.TimeoutExpired:
            msg = f"matching {_short(self.pattern)} took longer than {left:.1f} s, so there is no score"
            raise Undecided(msg) from None
        if done.returncode:
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no reason given"]
            msg = f"matching {_short(self.pattern)} failed: {last[0]}"
            raise Undecided(msg)
        return done.stdout.strip() == b"True"


def in_time(end: float) -> None:
    """Raise `Undecided` when it is later than `end`."""
    if time.monotonic() > end:
        msg = "comparing the answer with its schema took too long, so there is no score"
        raise Undecided(msg)


def _compiled(pattern: str) -> Any:
    """The pattern as RE2 has it, None if only `re` reads it."""
    import re2

    options = re2.Options()
    options.log_errors, options.never_capture = False, True
    try:
        return re2.compile(_encodable(pattern).encode(), options)
    except re2.error as error:
        why = error.args[0] if error.args else b""
    told = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
    if len(pattern) <= _LONGEST:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                re.compile(pattern)
        except (re.error, RecursionError, OverflowError):
            pass
        else:
            return None
    raise BadPattern(told if len(told) <= 200 else f"{told[:200]}…")


def _encodable(text: str) -> str:
    """A text whose lone surrogates, which UTF-8 does not have, are replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _short(pattern: str) -> str:
    text = repr(pattern)
    return text if len(text) <= 80 else f"{text[:80]}…"
