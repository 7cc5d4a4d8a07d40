"""Tokens that a CLI renews while it runs, learnt before anything that could show them is kept or shown.

What shows a new token was said after the file that holds it was written. So the file is looked at between the two: when
output has come, and before it goes anywhere. Output in which no token has room costs nothing.
"""

from __future__ import annotations

import re
import time

from assay.run import account
from assay.run.attempt import Attempt
from assay.sandbox import credential_file

_ROOM = re.compile(rb"[A-Za-z0-9._~+/=:|-]{%d}" % credential_file.SHORTEST_RENEWED)

MOST_SECONDS, SHARE = 1.0, 0.5
"""Of a burst of output, how long every part of it is looked at, and then for which share of the time: a renewal takes
longer than the moments in between."""

MOST_CHANGES = 16
"""Changes of a file that are followed: an agent may write to it as often as it likes."""


class Renewals:
    """Looks for renewed tokens in the credential files of one container.

    Args:
        attempt: The run; its redactor learns.
        container: The agent's.
    """

    def __init__(self, attempt: Attempt, container: str) -> None:
        self._attempt, self._container = attempt, container
        self._last = dict(attempt.job.held.files)
        self._changes = 0
        self._left, self._at = MOST_SECONDS, time.monotonic()

    def look(self, output: bytes) -> None:
        """Learn what is new in the files, if this output may show it; called with all output before it is kept."""
        if not self._last or self._changes >= MOST_CHANGES or not _ROOM.search(output):
            return
        began = time.monotonic()
        self._left, self._at = min(MOST_SECONDS, self._left + SHARE * (began - self._at)), began
        if self._left <= 0:
            return
        for path, last in self._last.items():
            found, _ = account.read_file(self._attempt, self._container, path)
            if found is not None and found != last:
                self._changes += 1
                self._last[path] = found
                self._attempt.redactor.know(credential_file.renewed_values(found))
        self._left -= time.monotonic() - began
