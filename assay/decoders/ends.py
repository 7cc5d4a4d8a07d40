"""What several decoders do alike: pair calls with results, gather deltas into blocks, conclude without a last word."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

from assay.model.events import Facts, ToolUse
from assay.model.outcome import Ending

if TYPE_CHECKING:
    from assay.model.events import Exit

BLOCK_LIMIT = 64 << 10
"""Characters of deltas after which a block is handed on unfinished, so that memory stays flat."""

_STDERR_TAIL = 64 << 10
_ERROR = re.compile(r"\berror\b", re.IGNORECASE)
_RULES = (
    ("auth", r"\b40[13]\b|unauthori[sz]ed|forbidden|api.?key|authenticat|log(ged)? ?in|sign(ed)? in|credential"),
    ("auth", r"missing environment variable"),
    ("billing", r"\b402\b|billing|credits?\b|insufficient.quota|quota exceeded"),
    ("rate", r"\b429\b|rate.?limit|too many requests|resource.{1,10}exhausted"),
    ("model", r"\b404\b|model.{0,80}(not (found|recogni[sz]ed|exist)|does not exist)|unknown model|invalid model"),
    ("server", r"\b5\d\d\b|overloaded|at capacity|high demand|unavailable|internal (server )?error|interrupted"),
    ("network", r"connect|network|stream|socket|timed? ?out|dns|fetch failed"),
)


class Calls:
    """The tool calls of a run in order; only the ones still open are kept by id."""

    def __init__(self) -> None:
        self.uses: list[ToolUse] = []
        self._open: dict[str, ToolUse] = {}

    def start(self, name: str, id_: str) -> bool:
        """A call began; False if it is open already. An id used again after its result is a call of its own."""
        if id_ in self._open:
            return False
        use = ToolUse(name)
        self.uses.append(use)
        if id_:
            self._open[id_] = use
        return True

    def end(self, id_: str, *, ok: bool | None) -> bool:
        """A call gave its result; False if no such call is open."""
        use = self._open.pop(id_, None)
        if use is None:
            return False
        use.ok = ok
        return True


class Deltas:
    """Pieces of text that belong to one block."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    def add(self, text: str) -> bool:
        """Take a piece; True when the block has grown so large that it should be handed on."""
        self._parts.append(text)
        self._size += len(text)
        return self._size >= BLOCK_LIMIT

    def take(self) -> str:
        """The block so far, and begin a new one."""
        if not self._parts:
            return ""
        text = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        return text


def error_kind(message: str) -> str:
    """auth, billing, rate, model, server, network or other, by the words of an API error."""
    return next((kind for kind, words in _RULES if re.search(words, message, re.IGNORECASE)), "other")


def last_words(stderr: bytes, noise: tuple[str, ...] = ()) -> str:
    """What stderr says of the end in one line: its first line that calls itself an error, else its last line.

    Args:
        stderr: As kept; only the end is looked at.
        noise: Beginnings of lines that mean nothing.
    """
    lines = [line.strip() for line in stderr[-_STDERR_TAIL:].decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith(noise)]
    for n, line in enumerate(lines):
        if _ERROR.match(line):
            # "Error loading config.toml:" says what in the lines after it.
            return " ".join(lines[n : n + 2]) if line.endswith((":", "{")) else line
    return lines[-1] if lines else ""


def signal_name(code: int | None) -> str:
    """The signal that an exit code stands for, "" if none."""
    number = 0 if code is None else -code if code < 0 else code - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def without_last_word(facts: Facts, exit_: Exit, words: str) -> Facts:
    """Conclude a stream that broke off: interrupted if the harness stopped it, else crashed."""
    if exit_.stopped:
        return replace(facts, ending=Ending.INTERRUPTED)
    code = "an unknown exit code" if exit_.code is None else f"exit code {exit_.code}"
    if by := signal_name(exit_.code):
        # What stands in stderr was then said of something else.
        reason = f"ended by {by}; {f'the last it said: {words}' if words else 'the stream has no last word'}"
    else:
        reason = words or f"the stream has no last word; the CLI ended with {code}"
    return replace(facts, ending=Ending.CRASHED, reason=reason)
