"""A disk that is full while a run is graded: what it is told as, and how the grading is had all the same."""

from __future__ import annotations

import errno
from dataclasses import replace

from assay.model.errors import AssayError
from assay.model.outcome import Verdict
from assay.run.judge import Graded

WORDS = (b"no space left on device", b"disk quota exceeded")


def is_full(error: BaseException) -> bool:
    """Whether this machine's disk or the engine's had no room."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, AssayError) and says_full(str(error).encode("utf-8", "replace"))


def says_full(output: bytes) -> bool:
    """Whether a text has the kernel's words for it."""
    output = output.lower()
    return any(words in output for words in WORDS)


def not_graded(run: str, error: Exception) -> str:
    """Why a run whose files are kept has no result, and what to do, in one line."""
    said = str(error) if isinstance(error, AssayError | OSError) else repr(error)
    if is_full(error):
        return f"not graded, the disk is full: make room and run assay grade {run} ({said})"
    return f"{said}; assay grade {run} grades its files again"


def told(graded: Graded, run: str, output: bytes) -> Graded:
    """The same result, which says so where the checker met a full disk: the verdict then is not about the files."""
    if graded.verdict is Verdict.PASS or not says_full(output):
        return graded
    hint = f"its output speaks of a full disk: make room and run assay grade {run}"
    return replace(graded, reason=f"{hint}; {graded.reason}" if graded.reason else hint)
