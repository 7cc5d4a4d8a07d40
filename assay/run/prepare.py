"""From what was asked to a job that can start: everything is validated here, before any container."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from assay import decoders
from assay.model.errors import UsageError
from assay.model.place import as_named
from assay.model.project import Project, Settings
from assay.model.record import RunRecord
from assay.model.registry import Choice
from assay.model.task import Task
from assay.run import ask
from assay.run.job import Images, Job
from assay.sandbox import credentials, proxy
from assay.sandbox.credentials import Held
from assay.sandbox.engine import Engine
from assay.sandbox.proxy import Proxy

if TYPE_CHECKING:
    from assay.rehearsal.script import Script

Say = Callable[[str], None]


def check(
    project: Project,
    task: Task,
    choice: Choice,
    *,
    rehearse: str | None = None,
    command: str | None = None,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    settings: Settings | None = None,
    lasting: bool = True,
    signed: bool = True,
) -> Job:
    """A job without images: everything that can be refused without an engine.

    Args:
        project: Settings, registry, where runs are kept.
        task: What is to be done.
        choice: By whom.
        rehearse: None for a real run; the path of a script, or "" for the task's own (else the canonical one).
        command: What the built-in agent `script` runs.
        environ: Instead of the process's own environment.
        home: Instead of the user's home.
        settings: Instead of what holds outside of any stage.
        lasting: Whether the credential must outlast the run; one that is in use already may have expired.
        signed: False leaves the credential out: no agent is to be started.

    Raises:
        UsageError: Something does not fit together.
        ConfigError: A rehearsal script says something wrong.
        CredentialMissing: A real run of a vendor's agent has none.
    """
    if (command is not None) != (choice.agent == "script"):
        msg = (
            "the agent script needs --command: what it runs with sh -c"
            if command is None
            else f"--command is for the agent script; {choice.agent} would ignore it"
        )
        raise UsageError(msg)
    if choice.agent == "oracle" and task.solution is None:
        msg = f"{task.path}: the agent oracle runs solution/solve.sh, and this task has no solution/"
        raise UsageError(msg)
    if choice.entry is not None:
        try:
            decoders.get(choice.entry.decoder)
        except UsageError as error:
            msg = f"agents.toml: agents.{choice.agent}.decoder: {error}"
            raise UsageError(msg) from None
    environ = os.environ if environ is None else environ
    settings = settings or project.settings(task)
    script, script_text, held, way = None, None, Held(), None
    if choice.entry is None:
        if rehearse is not None:
            msg = f"{choice.agent} speaks to no vendor: there is nothing to rehearse; leave --rehearse out"
            raise UsageError(msg)
    elif rehearse is not None:
        script, script_text, held = _rehearsal(task, choice, rehearse)
    elif signed:
        lasts = settings.timeout if lasting else None
        held = credentials.choose(choice.agent, choice.entry, environ, Path.home() if home is None else home, lasts)
        way = _proxy(environ, held.hosts(choice.entry), internet=settings.internet) if lasting else None
    nothing = Images("", "", "", "")
    return Job(
        task=task,
        choice=choice,
        settings=settings,
        images=nothing,
        runs=project.runs,
        project=project.root,
        held=held,
        script=script,
        script_text=script_text,
        command=command,
        fence_mode=project.fence.mode,
        fence_backend=project.fence.backend,
        ca=_bundle(project),
        proxy=way,
    )


def _proxy(environ: Mapping[str, str], hosts: list[str], *, internet: bool) -> Proxy | None:
    """The proxy that a real run goes out through."""
    found = proxy.chosen(environ, hosts)
    if found is not None and internet:
        msg = (
            f"{found.variable}: with internet = true, as in every ask unless its stage says no, a run connects "
            "directly and goes through no proxy; write internet = false in the stage or say ASSAY_INTERNET=false, or "
            "put the agent's hosts into NO_PROXY if they can be reached directly"
        )
        raise UsageError(msg)
    return found


def _rehearsal(task: Task, choice: Choice, rehearse: str) -> tuple[Script, bytes, Held]:
    from assay.rehearsal.script import CANONICAL, parse

    entry = choice.entry
    if entry is None or entry.rehearsal is None or entry.rehearsal.api == "none":
        msg = f"{choice.agent} cannot be rehearsed: no stand-in speaks its API"
        raise UsageError(msg)
    path = Path(rehearse) if rehearse else task.rehearsal_for(choice.model)
    try:
        text = path.read_bytes() if path is not None else (files("assay.rehearsal") / CANONICAL).read_bytes()
    except OSError as error:
        msg = f"the rehearsal script {path} cannot be read: {error.strerror}"
        raise UsageError(msg) from None
    return parse(text, path or CANONICAL), text, Held(env=entry.rehearsal.env)


def unscripted(job: Job) -> str | None:
    """That a rehearsal plays a script which knows nothing of the task, because the task has none; None if it has."""
    from assay.rehearsal.script import CANONICAL

    if job.script is None or job.task.rehearsal_for(job.choice.model) is not None:
        return None
    if job.script_text != (files("assay.rehearsal") / CANONICAL).read_bytes():
        return None
    return (
        f"{as_named(job.task.path)} has no rehearsal.toml: the canonical script is played, which only writes hello.txt"
    )


def _bundle(project: Project) -> bytes | None:
    if project.ca_bundle is None:
        return None
    try:
        return project.ca_bundle.read_bytes()
    except OSError as error:
        msg = f"defaults.ca_bundle: {project.ca_bundle} cannot be read: {error.strerror}"
        raise UsageError(msg) from None


def build(engine: Engine, project: Project, job: Job, say: Say) -> Job:
    """The job with its images, built where they are missing.

    Raises:
        BuildFailed: An image cannot be had.
        UsageError: A run is to be resumed whose images are gone, or more is asked for than the engine has.
        EngineError: The engine failed.
    """
    from assay.sandbox import fence_image
    from assay.sandbox.images import Builder, neutral_env

    _check_processors(engine, job)
    builder = Builder(engine, base=project.defaults.base_image, ca=project.ca_bundle, say=say)
    task, choice = job.task, job.choice
    environment = builder.environment()
    own = builder.of_task(task.dockerfile, task.settings.image)
    hand_over = task.settings.workdir if task.settings.user == "agent" and job.ask is None else None
    agent = builder.for_agent(own, choice.agent, choice.entry, hand_over)
    checker = own
    if task.checker is not None and task.checker.dockerfile is not None:
        checker = builder.of_checker(task.checker.dockerfile)
    made = Images(
        task=own.id,
        agent=agent.id,
        checker=checker.id,
        support=environment.id,
        fence=fence_image.ensure(engine, say, builder.host),
        volumes=own.volumes,
        own=own.id != environment.id,
        env=neutral_env(own, [choice.entry] if choice.entry is not None else []),
    )
    if job.ask is not None:
        ask.fill(engine, job.ask, environment.id, project.root, say)
    return replace(job, images=made if job.earlier is None else _same_images(engine, job.earlier.record, made))


def refuse_other_version(record: RunRecord, choice: Choice) -> None:
    """See that the CLI whose session is to be gone on with is the one that would be launched.

    Raises:
        UsageError: The registry pins another version now; says what to write.
    """
    was = record.agent_version or record.cli_version
    if choice.entry is not None and was is not None and choice.entry.version != was:
        msg = (
            f"{record.id} cannot be resumed: agents.toml pins {choice.agent} {choice.entry.version} now, and the run "
            f"was {was}: its session would be gone on with as if by the other; write version = {json.dumps(was)} below "
            f"[agents.{choice.agent}] in the project's agents.toml, or run the task anew"
        )
        raise UsageError(msg)


def _check_processors(engine: Engine, job: Job) -> None:
    asked = {"cpus": job.settings.cpus, "checker.cpus": job.task.settings.checker.cpus}
    for name, cpus in asked.items():
        if cpus is not None and 0 < (there := engine.processors()) < cpus:
            msg = f"{name} = {cpus:g}: the engine has {there} and would start no container; write no more than that"
            raise UsageError(msg)


def _same_images(engine: Engine, record: RunRecord, made: Images) -> Images:
    """The very images of the run that is resumed.

    Raises:
        UsageError: One of them is gone.
    """
    for what, image in (("snapshot", record.snapshot), ("image", record.image), ("task's image", record.task_image)):
        if image is not None and engine.image(image) is None:
            msg = f"{record.id} cannot be resumed: its {what} {image[:19]} is no longer on the engine"
            raise UsageError(msg)
    return replace(
        made,
        task=record.task_image or made.task,
        agent=record.image or made.agent,
        checker=record.checker_image or made.checker,
    )
