"""`assay ask`: a second opinion on a repository."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.commands import completion

if TYPE_CHECKING:
    from assay.model.project import Project
    from assay.run.repository import Repository
    from assay.stage.climb import Climb, Climbed

EXAMPLES = """\b
Examples:
  assay ask "Where are the races in the scheduler?"
  assay ask --repo ~/code/engine --file question.md -o opinion.md
  git diff main | assay ask -                       the question from standard input
  assay ask --all "Is this design sound?"           every agent of the stage, side by side
  assay ask --agent codex --effort xhigh "Why is the cache slow?"
  assay ask --followup last "And with two writers?"
  assay ask --dry-run --history "..."               what would be seen, by whom
  assay ask --rehearse "Does it work?"              against a stand-in: no key, no spend

\b
The agent sees a read-only copy: what git tracks or does not ignore, never .env files and keys. [stage.ask] of
assay.toml says who is asked, strongest first.
Exit codes: 0 answered (with --all: by one at least); 1 no whole answer; 2 refused before anything started;
3 could not be measured; 4 stopped and resumable; 130 interrupted."""

EDITED = "\n\n<!-- Write the question above this line, save and close; nothing above it asks nothing. -->\n"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be carried out.

    Attributes:
        notes: What the user should know beforehand.
    """

    what: Climb
    question: str
    root: Path
    repository: Repository
    notes: tuple[str, ...]


@click.command(epilog=EXAMPLES)
@click.argument("question", required=False, metavar="[QUESTION | -]")
@click.option("--repo", metavar="DIR", help="The repository; this folder if left out.")
@click.option("--file", "file", metavar="FILE", help="Read the question from a file.")
@click.option(
    "--stage", metavar="NAME", shell_complete=completion.stages, help="Another stage of asks than [stage.ask]."
)
@click.option("--agent", metavar="NAME", shell_complete=completion.agents, help="Ask this agent.")
@click.option("--model", metavar="MODEL", shell_complete=completion.models, help="Ask this model.")
@click.option("--effort", metavar="LEVEL", shell_complete=completion.efforts, help="How hard it thinks.")
@click.option("--all", "everyone", is_flag=True, help="Ask everyone of the stage whose credential is there, at once.")
@click.option("--followup", metavar="RUN", shell_complete=completion.runs, help="A further question in that session.")
@click.option("--history", is_flag=True, help="Show git's history too, with all that was ever committed.")
@click.option("--rehearse", is_flag=False, flag_value="", metavar="[SCRIPT]", help="Against a scripted stand-in.")
@click.option("--timeout", metavar="DURATION", help="How long an agent may take: 90s, 30m.")
@click.option("-o", "--output", metavar="PATH", help="Write the answer to a file; with --all, the answers to a folder.")
@click.option("--dry-run", is_flag=True, help="List what would be visible, which hosts open, whose credential is used.")
@click.option("-q", "--quiet", is_flag=True, help="Only the answer.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as things happen; answers in the last.")
def command(question: str | None, **given: Any) -> int:
    """Ask coding agents a QUESTION about a repository; the answer is kept, and printed as Markdown."""
    from assay.model.project import find_project

    question, given = _question_after_rehearse(question, given)
    _refuse_contradictions(given)
    project = find_project(flags={"timeout": given["timeout"]})
    if given["dry_run"] and question is None and given["file"] is None:
        question = "What would be asked?"
    words = _words(question, given["file"])
    _refuse_output(given)
    asked = _follow_up(project, words, given) if given["followup"] else _ask(project, words, given)
    if asked is None:
        return 0
    return _carry_out(project, asked, given)


def _question_after_rehearse(question: str | None, given: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """`--rehearse "Does it work?"` asks a question: a script is a file."""
    value = given["rehearse"]
    if value and question is None and given["file"] is None and not Path(value).is_file():
        return value, {**given, "rehearse": ""}
    return question, given


def _refuse_contradictions(given: dict[str, Any]) -> None:
    from assay.model.errors import UsageError

    if given["followup"]:
        for name in ("repo", "stage", "agent", "model", "effort", "everyone", "history", "dry_run"):
            if given[name]:
                option = {"everyone": "--all", "dry_run": "--dry-run"}.get(name, f"--{name}")
                msg = f"{option} and --followup contradict each other: the session goes on with what it began with"
                raise UsageError(msg)
    if given["everyone"] and (given["agent"] or given["model"]):
        msg = "--all and --agent or --model contradict each other: everyone of the stage is asked; leave one out"
        raise UsageError(msg)


def _refuse_output(given: dict[str, Any]) -> None:
    """Find out before anything is spent that the answer could not be written."""
    from assay.model.errors import UsageError

    if given["output"] is None:
        return
    path, problem = Path(given["output"]), None
    if given["everyone"]:
        problem = "is a file; several answers go to a folder" if path.is_file() else None
    elif path.is_dir():
        problem = "is a folder; one answer goes to a file"
    if problem is None and not path.absolute().parent.is_dir():
        problem = "lies in a folder that is not there; make it first"
    if problem is not None:
        msg = f"--output: {path} {problem}"
        raise UsageError(msg)


def _words(question: str | None, file: str | None) -> str:
    """The question, from wherever it comes.

    Raises:
        UsageError: There is none, or two.
    """
    from assay.model.errors import UsageError
    from assay.run.ask import check_question

    if question is not None and file is not None:
        msg = "QUESTION and --file contradict each other: one of them would be ignored; leave one out"
        raise UsageError(msg)
    if file is not None:
        try:
            words = _text(Path(file).read_bytes(), file)
        except OSError as error:
            msg = f"--file: {file} cannot be read: {(error.strerror or str(error)).lower()}"
            raise UsageError(msg) from None
    elif question == "-":
        words = _text(sys.stdin.buffer.read(), "standard input")
    elif question is not None:
        words = question
    elif sys.stdin.isatty():
        edited = click.edit(EDITED, extension=".md")
        words = (edited or "").partition(EDITED.strip())[0]
        if not words.strip():
            msg = "no question was written, so none is asked"
            raise UsageError(msg)
    else:
        msg = "which question? give QUESTION, --file FILE, or - to read it from standard input"
        raise UsageError(msg)
    check_question(words)
    return words


def _text(data: bytes, source: str) -> str:
    from assay.model.errors import UsageError

    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        msg = f"the question in {source} is not UTF-8 text (byte {error.start})"
        raise UsageError(msg) from None


def _ask(project: Project, question: str, given: dict[str, Any]) -> Asked | None:
    """A new question; None where it was only to be told what would be."""
    from assay.commands.ask_output import show_plan, show_visible
    from assay.model.errors import CredentialMissing
    from assay.run.repository import look
    from assay.stage.asks import Wanted, lay_out

    folder = Path(given["repo"] or ".").expanduser()
    repository = look(folder, exclude=project.ask.exclude, runs=project.runs, history=given["history"])
    names = ("stage", "agent", "model", "effort", "everyone", "rehearse")
    wanted = Wanted(repository, question, **{name: given[name] for name in names})
    if not given["dry_run"]:
        laid = lay_out(project, wanted)
        return Asked(laid.climb, question, repository.root, repository, (*repository.notes, *laid.notes))
    try:
        show_plan(project, repository, lay_out(project, wanted), as_json=given["as_json"])
    except CredentialMissing:
        if not given["as_json"]:
            show_visible(repository)
        raise
    return None


def _follow_up(project: Project, question: str, given: dict[str, Any]) -> Asked:
    from assay.run.ask import follow_up
    from assay.run.find import find_run
    from assay.stage.climb import Climb
    from assay.stage.plan import Plan, Rung, Step

    run = find_run(project.runs, given["followup"])
    job = follow_up(project, run, question, rehearse=given["rehearse"])
    what = Climb(None, (job.task,), Plan(1, (Rung(1, 1),)), {Step(0, 1): job})
    assert job.ask is not None  # noqa: S101 - that is what makes it one
    assert job.ask.repository is not None  # noqa: S101 - it was looked at just now
    return Asked(what, question, job.ask.root, job.ask.repository, tuple(job.ask.repository.notes))


def _carry_out(project: Project, asked: Asked, given: dict[str, Any]) -> int:
    """Ask, show what happens, hand out what came of it; the exit code."""
    from assay.commands.ask_output import hand_out, view_of
    from assay.commands.stopping import stop_on_signals
    from assay.sandbox.engine import Engine
    from assay.stage.climb import climb
    from assay.stage.earlier import Earlier
    from assay.stage.executor import LocalExecutor

    warnings = [*project.warnings, *(job.choice.warning for job in asked.what.jobs.values())]
    for warning in dict.fromkeys(warnings):
        if warning:
            click.echo(f"warning: {warning}", err=True)
    executor = LocalExecutor(Engine.connect(), project, asked.what.plan.jobs)

    def stop(reason: str, *, hard: bool) -> None:
        executor.stop(None, reason, hard=hard)

    with view_of(asked, quiet=given["quiet"], as_json=given["as_json"]) as view, stop_on_signals(stop):
        try:
            climbed: Climbed = climb(asked.what, executor, Earlier(), view)
        finally:
            executor.close()
    return hand_out(project, asked, climbed, given)
