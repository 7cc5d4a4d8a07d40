"""Plain text on standard output: the built-in agents, and any command without a stream of its own."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from assay.model.events import Event, Exit, Facts, Text
from assay.model.outcome import Ending


def decode(lines: Iterable[bytes]) -> Generator[Event, None, Facts]:
    """Each line is a Text; the last one that is not blank is the answer."""
    facts = Facts()
    for line in lines:
        text = line.decode("utf-8", "replace")
        if text.strip():
            facts.text = text
        yield Text(text)
    return facts


def conclude(facts: Facts, exit_: Exit) -> Facts:
    """Exit 0 has finished; another code gave up and is graded all the same; a signal is a crash."""
    if exit_.stopped:
        facts.ending = Ending.INTERRUPTED
    elif exit_.code == 0:
        facts.ending = Ending.FINISHED
    elif exit_.code is None or exit_.code > 128:
        facts.ending, facts.reason = Ending.CRASHED, f"killed (exit code {exit_.code})"
    else:
        facts.ending, facts.reason = Ending.GAVE_UP, f"exit code {exit_.code}"
    return facts
