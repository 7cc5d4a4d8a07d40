"""From a question to a climb that can start: who is asked, strongest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from assay.model.errors import AssayError, CredentialMissing, UsageError
from assay.model.layers import Source
from assay.model.project import Project, Settings
from assay.model.registry import BUILT_IN, Choice
from assay.model.task import Task
from assay.run import inject, prepare
from assay.run.ask import Ask, ask_of, task_of
from assay.run.job import Job
from assay.run.repository import Repository
from assay.stage.climb import Climb
from assay.stage.plan import Plan, Rung, Step

STAGE = "ask"
"""The stage of an ask that names none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked of whom.

    Attributes:
        everyone: Ask every agent whose credential is there, not only the first.
        rehearse: None for what the stage says, else the path of a script, or "" for the one of asks.
    """

    repository: Repository
    question: str
    stage: str | None = None
    agent: str | None = None
    model: str | None = None
    effort: str | None = None
    everyone: bool = False
    rehearse: str | None = None


@dataclass(frozen=True, slots=True)
class LaidOut:
    """What is to be done, and what the user should know of the choice, a line each."""

    climb: Climb
    ask: Ask
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Somebody who may be asked; `rung` counts from 1 in the stage, None outside any."""

    choice: Choice
    rung: int | None


def lay_out(project: Project, wanted: Wanted) -> LaidOut:
    """The climb: one ladder of one run for each agent that is asked, all side by side.

    Raises:
        Refused: Anything does not fit, or nobody's credential is there; nothing was started.
    """
    stage = _stage(project, wanted)
    candidates = list(_candidates(project, wanted, stage))
    ask = ask_of(wanted.repository, wanted.question)
    chosen: list[Job] = []
    missing: list[str] = []
    for candidate in candidates:
        try:
            chosen.append(_job(project, wanted, stage, candidate, ask))
        except CredentialMissing as error:
            missing.append(str(error))
            continue
        if not wanted.everyone:
            break
    if not chosen:
        # What each of them could do instead is said once.
        ways = "; ".join(why.partition(" (or ")[0] for why in missing)
        rehearsed = any(candidate.choice.entry and candidate.choice.entry.rehearsed for candidate in candidates)
        msg = f"nobody can be asked: {ways}" + (" (or use --rehearse, which needs none)" if rehearsed else "")
        raise CredentialMissing(msg)
    notes = [f"not asked: {why}" for why in missing if wanted.everyone]
    if stage is None and wanted.agent is None and not wanted.everyone:
        notes.append(f"no stage of asks in assay.toml: {chosen[0].choice.label} is asked, the first with a credential")
    tasks: tuple[Task, ...] = tuple(job.task for job in chosen)
    jobs = {Step(ladder, 1): job for ladder, job in enumerate(chosen)}
    # Keys that would say otherwise are refused in a stage of asks.
    plan = Plan(len(chosen), (Rung(1, 1),), jobs=len(chosen))
    return LaidOut(Climb(stage, tasks, plan, jobs), ask, tuple(notes))


def _stage(project: Project, wanted: Wanted) -> str | None:
    """The stage that says who is asked; None where the project has none."""
    if wanted.stage is not None:
        if project.stage(wanted.stage).kind != "ask":
            msg = f'the stage {wanted.stage!r} is a ladder for tasks; write kind = "ask" in one for questions'
            raise UsageError(msg)
        return wanted.stage
    asking = [name for name, stage in project.stages.items() if stage.kind == "ask"]
    if STAGE in asking or not asking:
        return STAGE if asking else None
    if len(asking) > 1:
        msg = f"which stage? {', '.join(asking)} all answer questions; say --stage NAME, or call one {STAGE!r}"
        raise UsageError(msg)
    return asking[0]


def _candidates(project: Project, wanted: Wanted, stage: str | None) -> Iterator[_Candidate]:
    """Who may be asked, in order, with what the command line says instead."""
    registry, found = project.registry, False
    if wanted.agent in BUILT_IN:
        msg = f"{wanted.agent} speaks to no vendor and answers no question; name one of {', '.join(registry.agents)}"
        raise UsageError(msg)
    if stage is not None:
        known = [_Candidate(rung.choice, rung.number) for rung in project.rungs(stage)]
    else:
        known = [
            _Candidate(registry.validate_choice(name), None)
            for name, entry in registry.agents.items()
            if entry.default_model
        ]
    for candidate in known:
        choice = candidate.choice
        if choice.entry is None:
            msg = f"stage {stage!r}: {choice.agent} answers no question; leave it out"
            raise UsageError(msg)
        if wanted.agent not in (None, choice.agent) or not _fits(choice, wanted):
            continue
        found = True
        effort = choice.effort if wanted.model in (None, choice.model) else None
        yield _Candidate(
            registry.validate_choice(choice.agent, wanted.model or choice.model, wanted.effort or effort),
            candidate.rung,
        )
    if found:
        return
    if wanted.agent is None:
        msg = f"no agent that is asked here lists the model {wanted.model!r}; say --agent NAME too"
        raise UsageError(msg)
    yield _Candidate(registry.validate_choice(wanted.agent, wanted.model, wanted.effort), None)


def _fits(choice: Choice, wanted: Wanted) -> bool:
    """Whether a model that was named without an agent is this one's."""
    if wanted.model is None or wanted.agent is not None:
        return True
    return wanted.model == choice.model or (choice.entry is not None and wanted.model in choice.entry.models)


def _job(project: Project, wanted: Wanted, stage: str | None, candidate: _Candidate, ask: Ask) -> Job:
    settings = _settings(project, stage, candidate.rung)
    task = task_of(ask, internet=settings.internet)
    rehearse = wanted.rehearse
    if rehearse is None and stage is not None and project.stage(stage).rehearse:
        rehearse = ""
    try:
        job = prepare.check(project, task, candidate.choice, rehearse=rehearse, settings=settings)
        job = inject.checked(replace(job, fence_mode="open" if settings.internet else project.fence.mode))
    except AssayError as error:
        if candidate.rung is not None and not isinstance(error, CredentialMissing):
            error.args = (f"stage {stage!r}, rung {candidate.rung} ({candidate.choice.label}): {error}",)
        raise
    return replace(job, stage=stage, rung=candidate.rung, ask=ask)


def _settings(project: Project, stage: str | None, rung: int | None) -> Settings:
    """What an ask is held to; outside any stage it reaches the internet, as one without a word in a stage does."""
    settings = project.settings(None, stage, rung)
    told = settings.origins["internet"].source in (Source.FLAG, Source.ENVIRONMENT)
    return settings if stage is not None or told else replace(settings, internet=True)
