"""`assay rehearse`: one script on the real CLIs, each against a stand-in for its vendor's API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.model.units import MOST_JOBS

if TYPE_CHECKING:
    from assay.model.project import Project
    from assay.model.registry import Agent
    from assay.run.job import Job
    from assay.sandbox.engine import Engine
    from assay.stage.climb import Climbed

EXAMPLES = """\b
Examples:
  assay rehearse                            every CLI that can be installed, one after the other
  assay rehearse codex grok --jobs 2        two of them, side by side
  assay rehearse claude --script mine.toml  another script than the canonical one
  assay rehearse gemini --record            keep its stream and rendering as golden files
  assay rehearse codex --version 0.172.0    what another version changes in what Assay reads"""


@dataclass(frozen=True, slots=True)
class Part:
    """One CLI's part in the rehearsal.

    Attributes:
        name: Of the agent.
        entry: Its entry, at the version that plays.
        job: What it runs; None where nothing can be rehearsed.
        why: Why not, then.
    """

    name: str
    entry: Agent
    job: Job | None
    why: str = ""

    @property
    def title(self) -> str:
        """Agent and version."""
        return f"{self.name} {self.entry.version}"


@click.command(epilog=EXAMPLES)
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
@click.option("--script", metavar="FILE", help="What the stand-in says; the canonical script if left out.")
@click.option("--jobs", type=click.IntRange(1, MOST_JOBS), default=1, metavar="N", help="How many at once.")
@click.option("--record", is_flag=True, help="Keep each raw stream and its rendering as golden files.")
@click.option("--version", "version", metavar="X", help="Try another version of one CLI and compare what it writes.")
@click.option("-q", "--quiet", is_flag=True, help="Only how each came out.")
def command(
    agents: tuple[str, ...], script: str | None, jobs: int, record: bool, version: str | None, quiet: bool
) -> int:
    """Play one script on the real CLIs: no key, no spend, no internet.

    Each CLI is launched as in a real run, through the same fence; what answers at its vendor's address is a stand-in.
    Exit 0: every CLI that could be tried did what the script expects. 1: one did not. 3: one could not be tried.
    """
    from assay.model.errors import UsageError
    from assay.model.project import find_project
    from assay.sandbox.engine import Engine

    if version is not None and len(agents) != 1:
        msg = "--version is another version of one CLI: name that one agent"
        raise UsageError(msg)
    if version is not None and record:
        msg = "--version and --record contradict each other: golden files are those of the pinned version"
        raise UsageError(msg)
    project = find_project()
    with as_file(files("assay.commands") / "rehearse_files" / "rehearsal") as task:
        parts = list(_parts(project, agents, task, script or ""))
        if version is not None:
            parts = _with_version(project, parts[0], version)
        engine = Engine.connect()
        climbed = _play(project, engine, parts, jobs, quiet=quiet)
    return _tell(project, engine, parts, climbed, record=record, compare=version is not None, named=bool(agents))


def _parts(project: Project, agents: Sequence[str], task: Path, script: str) -> Iterator[Part]:
    from assay.model.errors import UsageError
    from assay.model.registry import BUILT_IN
    from assay.model.task import load_task
    from assay.run.prepare import check

    loaded = load_task(task)
    registry = project.registry
    for name in agents or registry.agents:
        if name in BUILT_IN:
            msg = f"{name} speaks to no vendor: there is nothing to rehearse"
            raise UsageError(msg)
        entry = registry.agents.get(name)
        model = entry.rehearsal.model if entry is not None and entry.rehearsal is not None else ""
        choice = registry.validate_choice(name, model or None)
        if choice.entry is None or choice.entry.rehearsal is None or choice.entry.rehearsal.api == "none":
            why = "no stand-in speaks its API"
            yield Part(name, choice.entry or _missing(name), None, why)
            continue
        job = check(project, loaded, choice, rehearse=script)
        yield Part(name, choice.entry, replace(job, fence_mode="closed"))


def _missing(name: str) -> Agent:
    msg = f"{name} has no entry"
    raise LookupError(msg)


def _with_version(project: Project, part: Part, version: str) -> list[Part]:
    """The part at another version, after that of the pinned one where no golden file tells what it writes."""
    from assay.commands.recording import Golden
    from assay.model.errors import UsageError

    if part.job is None:
        msg = f"{part.name} cannot be rehearsed: {part.why}"
        raise UsageError(msg)
    entry = part.entry.model_copy(update={"version": version})
    other = Part(part.name, entry, replace(part.job, choice=replace(part.job.choice, entry=entry)))
    kept = Golden.of(project.root, part.name, part.entry.decoder).stream.exists()
    return [other] if kept else [part, other]


def _play(project: Project, engine: Engine, parts: Sequence[Part], jobs: int, *, quiet: bool) -> Climbed:
    """Every part that can be played, each as a ladder of one rung and one run."""
    from assay.commands.stopping import stop_on_signals
    from assay.commands.views import view_for
    from assay.stage.climb import Climb, climb
    from assay.stage.earlier import Earlier
    from assay.stage.executor import LocalExecutor
    from assay.stage.plan import Plan, Rung, Step

    playing = [part.job for part in parts if part.job is not None]
    what = Climb(
        stage=None,
        tasks=tuple(job.task for job in playing),
        plan=Plan(ladders=len(playing), rungs=(Rung(1, 1),), jobs=jobs),
        jobs={Step(ladder, 1): job for ladder, job in enumerate(playing)},
    )
    executor = LocalExecutor(engine, project, jobs)
    with (
        view_for(what, quiet=quiet, as_json=False) as view,
        stop_on_signals(lambda reason, *, hard: executor.stop(None, reason, hard=hard)),
    ):
        try:
            return climb(what, executor, Earlier([], None), view)
        finally:
            executor.close()


def _tell(
    project: Project,
    engine: Engine,
    parts: Sequence[Part],
    climbed: Climbed,
    *,
    record: bool,
    compare: bool,
    named: bool,
) -> int:
    """One line a part, then golden files or differences; the exit code."""
    from assay.model.outcome import ExitCode
    from assay.terminal.sanitise import one_line

    codes = [climbed.exit_code] if climbed.exit_code == ExitCode.INTERRUPTED else []
    recordings = []
    width = max(len(part.title) for part in parts)
    ladder = 0
    for part in parts:
        if part.job is None:
            words, code = _unplayable(project, engine, part), ExitCode.UNMEASURED if named else ExitCode.DONE
        else:
            words, code, found = _outcome(project, part, climbed, ladder)
            recordings += found
            ladder += 1
        codes.append(code)
        click.echo(f"{part.title:{width}}  {one_line(words)}")
    if record:
        _keep(project, parts, recordings)
    if compare:
        codes.append(_compare(project, parts, recordings))
    return ExitCode.worst(codes)


def _outcome(project: Project, part: Part, climbed: Climbed, ladder: int) -> tuple[str, int, list[Any]]:
    """How one part came out, in words and as an exit code, and its recording."""
    from assay.commands.recording import Recording
    from assay.commands.words import ending_words
    from assay.model.outcome import ExitCode
    from assay.stage.plan import Slot, Step
    from assay.terminal import figures

    slot = Slot(ladder, 1, 1)
    error = climbed.errors.get(Step(ladder, 1)) or climbed.errors.get(slot)
    if error is not None or slot not in climbed.runs:
        return f"! could not be tried: {error or 'stopped before it began'}", ExitCode.UNMEASURED, []
    run = climbed.runs[slot]
    path = project.runs / run["id"]
    told = json.loads((path / "rehearsal.json").read_bytes())
    offered = {tool for request in told["requests"] if request.get("kind") == "main" for tool in request["tools"]}
    problems = [*told["problems"]]
    if run.get("ending") != "finished":
        problems.insert(0, ending_words(run))
    if web := sorted(offered & set(part.entry.web_tools)):
        problems.append(f"web tools were offered to the model: {', '.join(web)}")
    recording = Recording.of_run(path, part.entry.decoder, part.title)
    if problems:
        return f"✗ {'; '.join(problems)}", ExitCode.NOTHING_PASSED, [recording]
    calls = f"{run.get('tool_calls', 0)} tool calls"
    took = figures.seconds(run.get("times", {}).get("seconds"))
    return f"✓ as the script expects · {calls} · no web tools · {took}", ExitCode.DONE, [recording]


def _unplayable(project: Project, engine: Engine, part: Part) -> str:
    """Why a CLI was not rehearsed: it cannot be had here, or nothing speaks its vendor's API."""
    from assay.model.errors import Unmeasured
    from assay.sandbox.images import Builder

    builder = Builder(engine, base=project.defaults.base_image, ca=project.ca_bundle)
    try:
        builder.for_agent(builder.environment(), part.name, part.entry)
    except Unmeasured as error:
        return f"- not installable here: {error}"
    return f"- can be installed, but not rehearsed: {part.why}"


def _keep(project: Project, parts: Sequence[Part], recordings: Sequence[Any]) -> None:
    from assay.commands.recording import Golden
    from assay.model.place import as_named

    entries = {part.title: part for part in parts}
    for recording in recordings:
        part = entries[recording.title]
        for path in Golden.of(project.root, part.name, part.entry.decoder).write(recording):
            click.echo(f"wrote {as_named(path)}")


def _compare(project: Project, parts: Sequence[Part], recordings: Sequence[Any]) -> int:
    """What the other version changes; 1 if anything."""
    from assay.commands.recording import Golden, differences
    from assay.model.outcome import ExitCode
    from assay.terminal.sanitise import sanitise

    if not recordings or recordings[-1].title != parts[-1].title:
        return ExitCode.UNMEASURED
    part, new = parts[-1], recordings[-1]
    pinned = f"{part.name} {project.registry.agents[part.name].version}"
    old = recordings[0] if len(recordings) > 1 else None
    old = old or Golden.of(project.root, part.name, part.entry.decoder).read(part.entry.decoder, pinned)
    if old is None:
        return ExitCode.UNMEASURED
    said = differences(old, new)
    for line in said:
        click.echo(sanitise(line))
    if not said:
        click.echo(f"{new.title} writes what {old.title} writes: the same rendering, the same fields")
    return ExitCode.NOTHING_PASSED if said else ExitCode.DONE
