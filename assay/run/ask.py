"""A question about a repository, as a run: its task, the copy that the agent looks at, what a follow-up goes on with.

The repository is copied into a volume of the engine and mounted read-only where the agent starts; beside it lies a
scratch directory, the only thing that is collected. What was shown is told in repository.json of the run.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.model.errors import EngineError, UsageError
from assay.model.project import Project
from assay.model.record import RunRecord, State, slug
from assay.model.task import SLASH_COMMAND, Task, TaskSettings
from assay.run.conversation import QUESTION
from assay.run.owner import me
from assay.run.repository import Repository, family, look
from assay.run.withheld import is_private_key
from assay.sandbox import volumes
from assay.sandbox.archive import DIRECTORY
from assay.sandbox.build import Say
from assay.sandbox.volumes import Thing

if TYPE_CHECKING:
    from assay.run.job import Job
    from assay.sandbox.engine import Engine

MOUNT = "/repo"
SCRATCH = "/scratch"
OWNER = 1000
SHOWN = "repository.json"
VOLUME = "assay-repository-"
LABEL = "assay.repository"

WORDS = """\
{question}

---

This is a question about the repository in your working directory, {workdir}. It is a read-only copy, nothing in it can
be changed; where you need to write or to try something, {scratch} is yours. {history}Look at the files before you
answer{internet}.

Your last message is the answer. It is kept as a file and read on its own, so let it be whole, in Markdown. Where it
speaks of a place in the repository, cite it as `path:line`, the path relative to the working directory.
"""
CHANGED = "(The repository has changed since you last saw it; your working directory shows it as it is now.)"


@dataclass(frozen=True)
class Ask:
    """What makes a run an ask.

    Attributes:
        question: As the user put it.
        root: The repository on this machine.
        workdir: Where the agent sees it.
        volume: Name of the copy.
        names: How its files are called: endings such as `.py`, and names without one.
        repository: What the copy is made of; None where it is there already.
    """

    question: str
    root: Path
    workdir: str
    volume: str
    names: frozenset[str]
    history: bool = False
    repository: Repository | None = None

    scratch: str = SCRATCH

    @property
    def mounts(self) -> Mapping[str, tuple[str, str]]:
        """For `Spec.volumes`."""
        return {MOUNT: (self.volume, "ro")}

    def files(self) -> dict[str, bytes | str]:
        """What the run directory says of it from the start."""
        shown = json.dumps(self._shown(), indent=1).encode("ascii")
        return {QUESTION: self.question.strip() + "\n", SHOWN: shown}

    def _shown(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "root": str(self.root),
            "history": self.history,
            "workdir": self.workdir,
            "volume": self.volume,
            "names": sorted(self.names),
        }
        if self.repository is not None:
            facts["files"] = len(self.repository.files)
            facts["bytes"] = self.repository.size
            facts["withheld"] = [{"name": name, "why": why} for name, why in self.repository.withheld]
            facts["notes"] = list(self.repository.notes)
        return facts


@dataclass(frozen=True)
class Question(Task):
    """A question as a task: the prompt is made of it, and there is nothing to grade."""

    state: str = ""

    @cached_property
    def digest(self) -> str:
        """sha256, in hex, over the question and the state of what it is about."""
        return hashlib.sha256(f"{self.state}\0{self.prompt}".encode("utf-8", "surrogateescape")).hexdigest()


def ask_of(repository: Repository, question: str) -> Ask:
    """An ask about a repository as it is now."""
    return Ask(
        question=question,
        root=repository.root,
        workdir=f"{MOUNT}/{slug(repository.root.name)}",
        volume=VOLUME + repository.state[:32],
        names=repository.names,
        history=repository.history,
        repository=repository,
    )


def task_of(ask: Ask, *, internet: bool) -> Question:
    """The task of an ask.

    Raises:
        UsageError: The question cannot be put to a CLI.
    """
    check_question(ask.question)
    words = WORDS.format(
        question=ask.question.strip(),
        workdir=ask.workdir,
        scratch=SCRATCH,
        history="Git's history is there. " if ask.history else "",
        internet="; you may look things up on the internet" if internet else "",
    )
    return Question(
        path=ask.root,
        prompt=words,
        settings=TaskSettings(workdir=ask.workdir),
        rehearsal=Path(str(files("assay.rehearsal") / "ask.toml")),
        state=ask.volume,
    )


def check_question(question: str) -> None:
    """Refuse what no CLI would put to its model.

    Raises:
        UsageError: It is empty, a slash command, or holds a NUL byte.
    """
    words = question.strip()
    if not words:
        msg = "the question is empty; give QUESTION, --file FILE, or - to read it from standard input"
        raise UsageError(msg)
    if "\0" in words:
        msg = "the question holds a NUL byte, at which a CLI may stop reading; take it out"
        raise UsageError(msg)
    if SLASH_COMMAND.fullmatch(words):
        msg = f"{words!r} is exactly a slash command: a CLI would run it itself and ask no model; write a sentence"
        raise UsageError(msg)


# -- in a run -------------------------------------------------------------------------------------------------------


def fill(engine: Engine, ask: Ask, image: str, project: Path, say: Say) -> None:
    """Make the copy, unless it is there; older ones of this repository that nobody uses are removed.

    Raises:
        EngineError: The engine failed.
        BuildFailed: Another process that makes the same copy does not end.
    """
    repository = ask.repository
    if repository is None:
        return
    label = {LABEL: family(repository.root), "assay.root": str(repository.root), "assay.owner": me()}
    title = repository.root.name or "/"

    def content(copied: volumes.Copied) -> Iterable[bytes]:
        say(f"{title}: making a copy of {len(repository.files)} files, {repository.size / 1e6:.1f} MB")
        top = ask.workdir.removeprefix(f"{MOUNT}/").encode()
        placed = (thing._replace(name=top + b"/" + thing.name) for thing in repository.things)
        return volumes.stream(itertools.chain([Thing(top, DIRECTORY)], placed), OWNER, copied, is_private_key)

    labels = {"assay.owner": me(), "assay.project": str(project)}
    volumes.ensure(engine, image, ask.volume, label, content, say, title, container_labels=labels)
    volumes.remove_unused(engine, f"{LABEL}={label[LABEL]}", but=ask.volume)


def verify(engine: Engine, container: str, ask: Ask) -> None:
    """See that the container looks at the whole copy: for one that is gone the engine makes an empty volume.

    Raises:
        EngineError: It does not.
    """
    if volumes.mark_of(engine, container, MOUNT) is None:
        msg = f"the copy of {ask.root} was removed meanwhile (by assay clean, or an ask of a newer state); ask again"
        raise EngineError(msg)


# -- afterwards -----------------------------------------------------------------------------------------------------


def kept(run: Path) -> Ask:
    """The ask of a run, as its directory tells it.

    Raises:
        UsageError: That cannot be read.
    """
    try:
        shown = json.loads((run / SHOWN).read_bytes())
        question = (run / QUESTION).read_text("utf-8", "surrogateescape")
        root, workdir, volume = Path(shown["root"]), str(shown["workdir"]), str(shown["volume"])
        return Ask(question, root, workdir, volume, frozenset(shown["names"]), bool(shown["history"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = f"{run}: what was asked cannot be read ({error})"
        raise UsageError(msg) from None


def as_it_was(run: Path, record: RunRecord) -> tuple[Question, Ask]:
    """Task and ask of a run that is to be brought to its end."""
    ask = kept(run)
    prompt = (run / "prompt.md").read_text("utf-8", "surrogateescape")
    return replace(task_of(ask, internet=record.fence == "open"), prompt=prompt), ask


def as_it_is(project: Project, run: Path, record: RunRecord, question: str | None = None) -> tuple[Question, Ask]:
    """Task and ask of a run that goes on with another, over the repository as it is now.

    Raises:
        UsageError: The repository is gone or cannot be shown.
    """
    before = kept(run)
    repository = look(before.root, exclude=project.ask.exclude, runs=project.runs, history=before.history)
    ask = replace(ask_of(repository, question or before.question), workdir=before.workdir)
    return task_of(ask, internet=record.fence == "open"), ask


def follow_up(project: Project, run: Path, question: str, *, rehearse: str | None = None) -> Job:
    """The job that puts a further question to the agent of a run, in its own session; without images.

    Args:
        project: Settings, registry, what is not shown.
        run: The run directory.
        question: As the user puts it.
        rehearse: Another script for a rehearsal to go on with, at the turn after those that were played.

    Raises:
        UsageError: That run cannot be gone on with; says why.
        CredentialMissing: Its agent has none now.
    """
    from assay.run import inject, prepare
    from assay.run.job import Earlier
    from assay.run.record import read_record, resumed_by
    from assay.run.resume import next_turn

    record = read_record(run)
    why = None
    if record.repository is None:
        why = "it is no ask but a run of a task; assay resume goes on with one that was cut short"
    elif record.state is not State.COMMITTED:
        why = "it is still running, or was left by a killed assay; `assay recover` finishes it"
    elif (by := resumed_by(run)) is not None:
        why = f"it was followed up already, by {by}; follow up that one"
    elif not record.snapshot or not record.session:
        why = f"it ended as {record.ending} and has no session to go on with; ask anew"
    elif rehearse is not None and not record.rehearsal:
        why = "it was no rehearsal, and its session knows what a stand-in would not; leave --rehearse out"
    if why is not None:
        msg = f"{record.id} cannot be followed up: {why}"
        raise UsageError(msg)
    check_question(question)
    task, ask = as_it_is(project, run, record, question)
    choice = project.registry.validate_choice(record.agent, record.model, record.effort)
    prepare.refuse_other_version(record, choice)
    settings = project.settings(task, record.stage if record.stage in project.stages else None)
    settings = replace(settings, internet=record.fence == "open")
    script = str(run / "rehearsal.toml") if record.rehearsal and rehearse is None else rehearse
    job = prepare.check(project, task, choice, rehearse=script, settings=settings)
    job = inject.checked(replace(job, fence_mode=record.fence or job.fence_mode))
    message = question.strip() + (f"\n\n{CHANGED}" if ask.volume != record.repository else "") + "\n"
    return replace(
        job,
        runs=run.parent,
        stage=record.stage,
        rung=record.rung,
        earlier=Earlier(run, record, message, next_turn(run, record)),
        ask=ask,
    )
