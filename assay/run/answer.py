"""What came of an ask: the answer as a file, the places it cites looked up, several answers side by side."""

from __future__ import annotations

import json
import posixpath
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.model.errors import EngineError
from assay.model.outcome import Ending
from assay.model.record import RunRecord, slug
from assay.run.ask import Ask
from assay.run.attempt import Attempt
from assay.run.conversation import ANSWER
from assay.run.record import now, write_atomic
from assay.sandbox.archive import REGULAR, TarReader
from assay.sandbox.engine import Engine

CITED = "citations.json"
TOGETHER = "answers.md"
MOST_FILES = 300
"""Cited files that are looked up."""
LARGEST = 64 << 20
"""Bytes of a file whose lines are counted."""
SECONDS = 30.0
NO_ANSWER = (Ending.SESSION_LIMIT, Ending.API_ERROR)
"""Endings whose last words are the vendor's, not the model's."""

_QUOTED = re.compile(r"`([^`\n]{1,400}?):(\d{1,9})(?:[-\u2013](\d{1,9}))?(?::\d+)?`")
_BARE = re.compile(
    r"(?<![\w/.:@+~-])((?:[\w.@+~-]+/)*[\w.@+~-]*[^\W\d][\w.@+~-]*):(\d{1,9})(?:[-\u2013](\d{1,9}))?(?::\d+)?(?![\w/])"
)
_NAMED_LIKE_A_FILE = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,5}$")


@dataclass(frozen=True, slots=True)
class Place:
    """A line, or a few, that an answer cites."""

    path: str
    first: int
    last: int

    def __str__(self) -> str:
        """As it is cited."""
        return f"{self.path}:{self.first}" + (f"-{self.last}" if self.last != self.first else "")


def places(text: str, ask: Ask) -> list[Place]:
    """Places of the repository that a text cites as `path:line`, each once, in order.

    What merely looks like one is passed over: a port of a host, a time, a word with a number.
    """
    found: dict[Place, None] = {}
    text = text.replace(f"{ask.workdir}/", "")
    for pattern, where in ((_QUOTED, text), (_BARE, _QUOTED.sub(" ", text))):
        for match in pattern.finditer(where):
            path = match[1].removeprefix("./")
            if _is_path(path, ask):
                first = int(match[2])
                found[Place(path, first, int(match[3] or first))] = None
    return list(found)


def _is_path(path: str, ask: Ask) -> bool:
    name = posixpath.basename(path)
    if "://" in path or not name or path != path.strip():
        return False
    if posixpath.splitext(name)[1] in ask.names or name in ask.names:
        return True
    return "/" in path and _NAMED_LIKE_A_FILE.search(name) is not None


def keep(attempt: Attempt, container: str, text: str, ask: Ask) -> None:
    """Write the answer down, if there is one, and which of the places it cites do not exist."""
    if not text.strip() or attempt.record.ending in NO_ANSWER:
        return
    data = attempt.redactor.clean(text.encode("utf-8", "replace"))
    attempt.dir.write(ANSWER, data if data.endswith(b"\n") else data + b"\n")
    try:
        cited = look_up(attempt.engine, container, ask, places(data.decode("utf-8", "replace"), ask))
    except EngineError as error:
        attempt.say(f"the places that the answer cites could not be looked up: {error}")
        return
    attempt.dir.write(CITED, json.dumps(cited, indent=1).encode())
    attempt.log.info("answered", bytes=len(data), cited=cited["cited"], dead=len(cited["dead"]))


def look_up(engine: Engine, container: str, ask: Ask, cited: Sequence[Place]) -> dict[str, Any]:
    """Which places are dead, in the very copy that the agent saw.

    Raises:
        EngineError: The engine failed.
    """
    lengths: dict[str, int | None] = {}
    dead, unchecked, until = [], 0, time.monotonic() + SECONDS
    for place in cited:
        if place.path not in lengths:
            if len(lengths) >= MOST_FILES or time.monotonic() > until:
                unchecked += 1
                continue
            lengths[place.path] = _lines(engine, container, ask, place.path)
        why = _why_dead(place, lengths[place.path])
        if why:
            dead.append({"place": str(place), "why": why})
    return {"cited": len(cited), "dead": dead, "unchecked": unchecked}


def _why_dead(place: Place, lines: int | None) -> str:
    if lines is None:
        return "there is no such file"
    if not 1 <= place.first <= place.last <= lines:
        return f"the file has {lines} line{'' if lines == 1 else 's'}"
    return ""


def _lines(engine: Engine, container: str, ask: Ask, path: str) -> int | None:
    """Lines of a file of the copy; None if there is no such file."""
    inside = posixpath.normpath(path)
    if inside.startswith(("/", "../")) or inside in (".", ".."):
        return None
    # Not a mere failure: the engine takes some odd names for an error of its own.
    try:
        _, stream = engine.get(container, f"{ask.workdir}/{inside}")
    except EngineError:
        return None
    with stream:
        reader = TarReader(stream)
        for member in reader:
            if member.type != REGULAR or member.size > LARGEST:
                return None
            lines, last = 0, b"\n"
            for part in reader.content():
                lines += part.count(b"\n")
                last = part[-1:] or last
            return lines + (last != b"\n")
    return None


# -- afterwards -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """What one agent answered.

    Attributes:
        path: The run directory.
        text: "" where there is no answer.
        cited: As citations.json has it.
    """

    record: RunRecord
    path: Path
    text: str = ""
    cited: dict[str, Any] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether the agent had its full say and said something."""
        return self.record.ending is Ending.FINISHED and bool(self.text)

    @property
    def label(self) -> str:
        """Agent, model and effort."""
        return " ".join(part for part in (self.record.agent, self.record.model, self.record.effort) if part)

    @property
    def dead(self) -> list[dict[str, str]]:
        """Places that do not exist, and why."""
        return list(self.cited.get("dead", ()))


def answer_of(path: Path, record: RunRecord) -> Answer:
    """Read what a run answered."""
    try:
        text = (path / ANSWER).read_text("utf-8", "replace")
    except OSError:
        text = ""
    try:
        cited = json.loads((path / CITED).read_bytes())
    except (OSError, ValueError):
        cited = {}
    return Answer(record, path, text, cited)


def file_names(answers: Sequence[Answer]) -> list[str]:
    """A file name for each answer: agent and model, and a number where that is not enough."""
    names: list[str] = []
    for answer in answers:
        stem = slug("-".join(part for part in (answer.record.agent, answer.record.model) if part))
        name, number = f"{stem}.md", 1
        while name in names:
            number += 1
            name = f"{stem}-{number}.md"
        names.append(name)
    return names


def write_together(folder: Path, question: str, answers: Sequence[Answer], facts: Sequence[str]) -> Path:
    """One file for each answer, and one that sets them side by side; the latter's path.

    Args:
        folder: Where; made if it is not there.
        question: What was asked.
        answers: In the order of the stage.
        facts: A line about each: time, cost.

    Raises:
        OSError: It cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = file_names(answers)
    for name, answer in zip(names, answers, strict=True):
        if answer.text:
            write_atomic(folder / name, answer.text.encode("utf-8", "replace"))
    text = "".join(_together(question, list(zip(names, answers, facts, strict=True))))
    write_atomic(folder / TOGETHER, text.encode("utf-8", "replace"))
    return folder / TOGETHER


def _together(question: str, answers: Sequence[tuple[str, Answer, str]]) -> Iterator[str]:
    yield "# Answers\n\n"
    yield "".join(f"> {line}".rstrip() + "\n" for line in question.strip().splitlines())
    yield "\n| answer of | file | |\n| --- | --- | --- |\n"
    for name, answer, facts in answers:
        shown = f"[{name}]({name})" if answer.text else "none"
        yield f"| {_cell(answer.label)} | {shown} | {_cell(facts)} |\n"
    for _, answer, _ in answers:
        yield f"\n---\n\n# {answer.label}\n\n"
        yield answer.text or f"No answer: {answer.record.ending or 'the run did not begin'}.\n"
        if answer.text and not answer.whole:
            yield f"\n*Unfinished: {answer.record.ending}.*\n"
        if answer.dead:
            yield "\nCited and not there:\n\n"
            yield "".join(f"- `{dead['place']}`: {dead['why']}\n" for dead in answer.dead)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def folder_for(runs: Path, root: Path) -> Path:
    """Where several answers to one question are kept together."""
    return runs / "asks" / f"{now():%Y%m%dT%H%M%S}Z-{slug(root.name)}"
