"""From what was asked on the command line to a climb that can start. Everything that can be refused is refused here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.model.errors import AssayError, ConfigError, UsageError
from assay.model.place import as_named
from assay.model.project import PlannedRung, Project
from assay.model.registry import BUILT_IN, ChoiceError
from assay.model.task import Task, load_task
from assay.run import inject, prepare
from assay.run.job import Job
from assay.stage.climb import Climb
from assay.stage.plan import Plan, Rung, Step


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked: tasks, and a stage or one agent.

    Attributes:
        rehearse: None for what the stage says, else the path of a script, or "" for each task's own.
        command: Of the built-in agent `script`.
        runs: Runs of each rung, instead of what the stage says.
        first: Rung to begin at, by number or name.
        only: The one rung to climb.
    """

    tasks: Sequence[Path]
    stage: str | None = None
    agent: str | None = None
    model: str | None = None
    effort: str | None = None
    rehearse: str | None = None
    command: str | None = None
    runs: int | None = None
    first: str | None = None
    only: str | None = None


def lay_out(project: Project, wanted: Wanted) -> Climb:
    """The climb, with every job of every rung checked.

    Raises:
        Refused: Anything does not fit; nothing was started.
    """
    tasks = _tasks(wanted)
    wanted = _with_defaults(project, wanted)
    _refuse_contradictions(wanted)
    rungs = _rungs(project, wanted)
    stage = project.stage(wanted.stage) if wanted.stage is not None else None
    plan = Plan(
        ladders=len(tasks),
        rungs=tuple(Rung(rung.number, wanted.runs or rung.runs) for rung in rungs),
        jobs=project.settings(None, wanted.stage).jobs,
        stop_on_pass=stage is not None and stage.stop_on_pass,
        budget=stage.budget_usd if stage is not None else None,
    )
    if plan.stop_on_pass:
        _refuse_unjudgeable(tasks, wanted.stage or "")
    jobs: dict[Step, Job] = {}
    for ladder, task in enumerate(tasks):
        _ = task.digest  # reads every file of the task: what cannot be read is told before anything starts
        for rung in rungs:
            jobs[Step(ladder, rung.number)] = _job(project, wanted, task, rung)
    return Climb(wanted.stage, tuple(tasks), plan, jobs)


def _with_defaults(project: Project, wanted: Wanted) -> Wanted:
    """What `[defaults]` says where neither stage nor agent was named."""
    if wanted.stage is not None or wanted.agent is not None:
        return wanted
    defaults = project.defaults
    if wanted.command is not None:
        return replace(wanted, agent="script")
    if defaults.stage is not None and wanted.model is None and wanted.effort is None:
        return replace(wanted, stage=defaults.stage)
    if defaults.agent is not None:
        model, effort = wanted.model or defaults.model, wanted.effort or defaults.effort
        return replace(wanted, agent=defaults.agent, model=model, effort=effort)
    stages = ", ".join(name for name, stage in project.stages.items() if stage.kind == "run") or "none yet"
    msg = f"say --stage NAME ({stages}) or --agent NAME ({', '.join(project.registry.names)})"
    raise UsageError(msg)


def _refuse_contradictions(wanted: Wanted) -> None:
    """Options that would be ignored in silence."""
    if wanted.stage is not None:
        given: Mapping[str, object] = {
            "--agent": wanted.agent,
            "--model": wanted.model,
            "--effort": wanted.effort,
            "--command": wanted.command,
        }
        for option, value in given.items():
            if value is not None:
                msg = f"{option} and --stage contradict each other: the rungs of a stage say who runs; leave one out"
                raise UsageError(msg)
    elif wanted.first is not None or wanted.only is not None:
        msg = f"{'--from' if wanted.first is not None else '--only'} picks a rung of a stage; say --stage NAME too"
        raise UsageError(msg)
    if wanted.first is not None and wanted.only is not None:
        msg = "--from and --only contradict each other: begin at a rung, or climb that one alone; leave one out"
        raise UsageError(msg)


def _rungs(project: Project, wanted: Wanted) -> Sequence[PlannedRung]:
    if wanted.stage is None:
        choice = project.registry.validate_choice(wanted.agent or "", wanted.model, wanted.effort)
        return [PlannedRung(1, choice, 1, None)]
    stage = project.stage(wanted.stage)
    if stage.kind == "ask":
        msg = f"the stage {wanted.stage!r} answers questions about a repository; use assay ask --stage {wanted.stage}"
        raise UsageError(msg)
    rungs = project.rungs(wanted.stage)
    if wanted.only is not None:
        return [_rung_named(rungs, wanted.only, "--only")]
    if wanted.first is not None:
        first = _rung_named(rungs, wanted.first, "--from").number
        return [rung for rung in rungs if rung.number >= first]
    return rungs


def _rung_named(rungs: Sequence[PlannedRung], name: str, option: str) -> PlannedRung:
    """The rung of that number, or the only one of that agent, model, or both."""
    words = set(name.split())
    found = [rung for rung in rungs if name == str(rung.number)]
    found = found or [rung for rung in rungs if words and words <= set(rung.choice.label.split())]
    if len(found) == 1:
        return found[0]
    problem = f"{name!r} means {len(found)} rungs" if found else f"no rung {name!r}"
    known = ", ".join(f"{rung.number} ({rung.choice.label})" for rung in rungs)
    msg = f"{option}: {problem}; the rungs are {known}"
    raise UsageError(msg)


def _tasks(wanted: Wanted) -> list[Task]:
    if not wanted.tasks:
        msg = "which task? name its folder, one with a prompt.md, such as tasks/hello"
        raise UsageError(msg)
    tasks: list[Task] = []
    for path in wanted.tasks:
        task = load_task(path)
        if any(known.path == task.path for known in tasks):
            msg = f"{path}: the same task twice; to try it several times write --runs 2"
            raise UsageError(msg)
        tasks.append(task)
    return tasks


def _refuse_unjudgeable(tasks: Sequence[Task], stage: str) -> None:
    for task in tasks:
        if task.checker is None:
            msg = (
                f"{as_named(task.path)}: has no checker/, so nothing could ever pass and stage {stage!r} "
                "(stop_on_pass) would climb to its dearest rung; write one"
            )
            raise UsageError(msg)


def _job(project: Project, wanted: Wanted, task: Task, rung: PlannedRung) -> Job:
    """One rung's job, with everything that the stage says."""
    stage = project.stage(wanted.stage) if wanted.stage is not None else None
    rehearse = wanted.rehearse
    if stage is not None:
        rehearse = rehearse if rehearse is not None or not stage.rehearse else ""
        rehearse = rehearse if rung.choice.agent not in BUILT_IN else None
    settings = project.settings(task, wanted.stage, rung.number if stage is not None else None)
    try:
        job = prepare.check(project, task, rung.choice, rehearse=rehearse, command=wanted.command, settings=settings)
        job = inject.checked(replace(job, fence_mode="open" if settings.internet else project.fence.mode))
    except (ChoiceError, ConfigError):
        raise
    except AssayError as error:
        if stage is not None:
            error.args = (f"stage {wanted.stage!r}, rung {rung.number} ({rung.choice.label}): {error}",)
        raise
    return replace(
        job,
        stage=wanted.stage,
        rung=rung.number if stage is not None else None,
    )
