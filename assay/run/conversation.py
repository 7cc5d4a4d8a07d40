"""An ask and those it follows up, as one conversation. Light: it is read from run directories alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assay.model.record import RunRecord
from assay.run.chain import chain

QUESTION = "question.md"
ANSWER = "answer.md"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question and its answer, "" where there is none."""

    record: RunRecord
    question: str
    answer: str


def conversation(runs: Path, record: RunRecord) -> list[Exchange]:
    """Every exchange up to this run, oldest first."""
    told: list[Exchange] = []
    for one in chain(runs, record):
        exchange = Exchange(one, _text(runs / one.id / QUESTION), _text(runs / one.id / ANSWER))
        if told and (told[-1].question, told[-1].answer) == (exchange.question, ""):
            # Cut short, and gone on with under the same question.
            told.pop()
        told.append(exchange)
    return told


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""
