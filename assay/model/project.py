"""assay.toml: defaults, stages, fence and ask; each value with where it came from.

What decides, strongest first: flag, environment (`ASSAY_…`), rung, stage, task, `[defaults]`, built in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from assay.model.errors import ConfigError, UsageError, did_you_mean
from assay.model.fields import Cpus, Disk, Duration, ImageName, Jobs, Memory, Name, Pids, Runs
from assay.model.ignored import compiled
from assay.model.layers import BUILT_IN, Origin, Source, layered
from assay.model.place import PROJECT_FILE, as_named, find_root
from assay.model.registry import Choice, ChoiceError, Registry, load_registry
from assay.model.table import Table
from assay.model.task import Task
from assay.model.toml import dotted, read_toml, validate


class Defaults(Table):
    """`[defaults]`: what holds for every run unless something nearer says otherwise."""

    stage: Name | None = None
    """Stage of a bare `assay run TASK`."""
    agent: Name | None = None
    """Agent of a command that names neither agent nor stage."""
    model: str | None = None
    """Model of the default agent."""
    effort: str | None = None
    """Effort of the default agent."""
    timeout: Duration = 1800
    """How long an agent may work. Default: 30m."""
    stall: Duration | None = None
    """No output for this long ends a run as stalled. Default: the agent's own."""
    jobs: Jobs = 4
    """Runs at once."""
    cpus: Cpus | None = None
    """CPUs of a run. Default: no limit."""
    memory: Memory | None = 4 * 1024**3
    """Memory of a run. Default: 4GiB."""
    pids: Pids | None = 1024
    """Processes and threads of a run at once."""
    disk: Disk = 2 * 1024**3
    """Bytes that a run may write, and the most that is collected of its working directory. Default: 2GiB."""
    internet: bool = False
    """Whether runs reach the internet, not only their vendor's API. An ask does, unless its own stage says no."""
    base_image: ImageName = "debian:bookworm-slim"
    """Base of the default environment, which adds python3, pytest, git and curl; for tasks that bring none."""
    ca_bundle: str | None = None
    """PEM file of CA certificates to trust too, as behind a corporate proxy. Default: the host's."""


class Rung(Table):
    """One step of a ladder."""

    agent: Name
    """An entry of agents.toml, or `oracle` or `nop`."""
    model: str | None = Field(default=None, min_length=1)
    """Default: the agent's own."""
    effort: str | None = Field(default=None, min_length=1)
    """Default: the CLI's own."""
    runs: Runs | None = None
    """Default: the stage's."""
    timeout: Duration | None = None
    """Default: the stage's."""


NOT_OF_ASKS = {
    "stop_on_pass": "an answer is not graded",
    "runs": "each agent is asked once",
    "jobs": "one agent is asked, or with --all every one at once",
    "budget_usd": "all that are asked start at once, so nothing is left that it could hold back",
}
"""Keys of a ladder that would be ignored in an ask stage, and why."""


class Stage(Table):
    """`[stage.NAME]`: a ladder, cheapest rung first; for `kind = "ask"` strongest first."""

    kind: Literal["run", "ask"] = "run"
    """`ask` answers a question about a repository instead of working on a task."""
    rungs: list[Rung] = Field(min_length=1)
    """What is tried, in this order."""
    stop_on_pass: bool = False
    """Whether the first pass ends the stage, so that dearer rungs never start."""
    runs: Runs = 1
    """Runs of each rung."""
    jobs: Jobs | None = None
    """Runs at once."""
    timeout: Duration | None = None
    """How long each agent may work."""
    stall: Duration | None = None
    """No output for this long ends a run as stalled."""
    budget_usd: float | None = Field(default=None, gt=0)
    """Nothing new is started once the known spend reaches this."""
    rehearse: bool = False
    """Run the real CLIs against the scripted stand-in: no key, no spend."""
    internet: bool | None = None
    """Whether runs reach the internet. Default: the task's; an ask stage: yes."""

    @model_validator(mode="after")
    def _fits_kind(self) -> Self:
        if self.kind != "ask":
            return self
        for key, why in NOT_OF_ASKS.items():
            if getattr(self, key) != type(self).model_fields[key].default:
                msg = f'{key} means nothing for kind = "ask": {why}; leave it out'
                raise ValueError(msg)
        for i, rung in enumerate(self.rungs):
            if rung.runs not in (None, 1):
                msg = f'rungs[{i}].runs means nothing for kind = "ask": {NOT_OF_ASKS["runs"]}; leave it out'
                raise ValueError(msg)
        return self


class Fence(Table):
    """`[fence]`: the network rules around a run."""

    backend: Literal["auto", "nft", "legacy"] = "auto"
    """Which iptables sets the rules; `auto` takes nft where the kernel has it."""
    mode: Literal["closed", "sni", "inject"] = "closed"
    """Without internet: `closed` pins the vendor's addresses, `sni` also checks the name that TLS asks for, `inject`
    also what is asked within TLS, and keeps a credential that is a variable out of the container."""

    @field_validator("mode", mode="before", json_schema_input_type=Literal["closed", "sni", "inject"])
    @classmethod
    def _open_is_internet(cls, value: object) -> object:
        if value == "open":
            msg = (
                "'open' is said by internet = true, in [defaults], a stage or a task; write closed, sni or inject here"
            )
            raise ValueError(msg)
        return value


class Ask(Table):
    """`[ask]`: second opinions on a repository."""

    exclude: list[str] = Field(default_factory=list)
    """Patterns of files that no agent may see, as in .gitignore, besides keys and .env files."""

    @field_validator("exclude")
    @classmethod
    def _mean_something(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            compiled(pattern)
        return patterns


class ProjectFile(Table):
    """The whole of assay.toml."""

    defaults: Defaults = Defaults()
    stage: dict[Name, Stage] = Field(default_factory=dict)
    fence: Fence = Fence()
    ask: Ask = Ask()


@dataclass(frozen=True, slots=True)
class PlannedRung:
    """A rung with everything it leaves out filled in. `number` counts from 1."""

    number: int
    choice: Choice
    runs: int
    timeout: float | None


@dataclass(frozen=True, slots=True)
class Settings:
    """What one run is held to. Seconds and bytes; None is no limit, for `stall` the agent's own."""

    timeout: float
    stall: float | None
    jobs: int
    cpus: float | None
    memory: int | None
    pids: int | None
    disk: int
    internet: bool
    origins: Mapping[str, Origin] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Project:
    """A project: its folder, its assay.toml (None: there is none), its registry, and where each value came from."""

    root: Path
    file: Path | None
    defaults: Defaults
    stages: Mapping[str, Stage]
    fence: Fence
    ask: Ask
    registry: Registry
    origins: Mapping[str, Origin]
    warnings: tuple[str, ...] = ()

    @property
    def runs(self) -> Path:
        """Where run directories are."""
        return self.root / "runs"

    @property
    def ca_bundle(self) -> Path | None:
        """The CA bundle that was set, absolute: relative to the project if its file says so, else to here."""
        if self.defaults.ca_bundle is None:
            return None
        base = self.root if self.origins["defaults.ca_bundle"].source is Source.FILE else Path.cwd()
        return base / Path(self.defaults.ca_bundle).expanduser()

    def stage(self, name: str) -> Stage:
        """A stage by name.

        Raises:
            UsageError: There is none of that name.
        """
        if name in self.stages:
            return self.stages[name]
        known = ", ".join(self.stages) or f"none (write [stage.{name}] in {PROJECT_FILE})"
        hint = did_you_mean(name, self.stages) or f"; known stages: {known}"
        msg = f"unknown stage {name!r}{hint}"
        raise UsageError(msg)

    def rungs(self, stage_name: str) -> tuple[PlannedRung, ...]:
        """The rungs of a stage, checked against the registry, in order."""
        stage = self.stage(stage_name)
        return tuple(
            PlannedRung(
                number=number,
                choice=self.registry.validate_choice(rung.agent, rung.model, rung.effort),
                runs=rung.runs or stage.runs,
                timeout=rung.timeout or stage.timeout,
            )
            for number, rung in enumerate(stage.rungs, 1)
        )

    def settings(self, task: Task | None = None, stage_name: str | None = None, rung: int | None = None) -> Settings:
        """What a run is held to, from the nearest place that says so. `rung` counts from 1."""
        stage = self.stage(stage_name) if stage_name else None
        tables: list[tuple[Table, Origin]] = []
        if stage is not None:
            where = f"{PROJECT_FILE} {dotted((stage_name or '',), 'stage')}"
            if rung is not None:
                tables.append((stage.rungs[rung - 1], Origin(Source.FILE, dotted(("rungs", rung - 1), where))))
            tables.append((stage, Origin(Source.FILE, where)))
        if task is not None:
            tables.append((task.settings, Origin(Source.TASK, str(task.path / "task.toml"))))
        values: dict[str, Any] = {}
        origins: dict[str, Origin] = {}
        for key in ("timeout", "stall", "jobs", "cpus", "memory", "pids", "disk", "internet"):
            values[key], origins[key] = self._nearest(key, tables)
        if stage is not None and stage.kind == "ask" and self._from_defaults(origins["internet"]):
            values["internet"], origins["internet"] = True, Origin(Source.DEFAULT, 'kind = "ask"')
        return Settings(**values, origins=origins)

    def _from_defaults(self, origin: Origin) -> bool:
        """Whether a value of `internet` is only what `[defaults]` says of every run, in its file or built in."""
        return origin == self.origins["defaults.internet"] and origin.source in (Source.DEFAULT, Source.FILE)

    def _nearest(self, key: str, tables: list[tuple[Table, Origin]]) -> tuple[Any, Origin]:
        origin = self.origins[f"defaults.{key}"]
        if origin.source not in (Source.FLAG, Source.ENVIRONMENT):
            for table, place in tables:
                if (value := getattr(table, key, None)) is not None:
                    return value, place
        return getattr(self.defaults, key), origin


def find_project(
    start: Path | None = None,
    *,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Project:
    """Read the nearest assay.toml at or above `start`; without one, everything is as built in.

    Args:
        start: Where to look from; the current folder by default.
        flags: Keys of `[defaults]` or `fence.…` that the command line gave; None values are not given.
        environ: Instead of the process's own environment.

    Raises:
        ConfigError: A file says something wrong, anywhere in it.
        UsageError: A flag or an environment variable does.
    """
    root = find_root(start)
    file = as_named(root / PROJECT_FILE)
    data = read_toml(file) if file.is_file() else {}
    content = validate(ProjectFile, data, file)
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    env = os.environ if environ is None else environ
    defaults = layered(Defaults, "defaults", data, given, env)
    fence = layered(Fence, "fence", data, given, env)
    origins = {**defaults.origins, **fence.origins, **_file_origins(content)}
    registry = load_registry(root)
    for name, stage in content.stage.items():
        _check_stage(file, name, stage, registry)
    project = Project(
        root=root,
        file=root / PROJECT_FILE if file.is_file() else None,
        defaults=defaults.table,
        stages=content.stage,
        fence=fence.table,
        ask=content.ask,
        registry=registry,
        origins=origins,
        warnings=(*defaults.warnings, *fence.warnings),
    )
    _check_defaults(project)
    return project


def _file_origins(content: ProjectFile) -> dict[str, Origin]:
    """Origins of the tables that neither flags nor environment reach."""
    tables: list[tuple[str, Table]] = [("ask", content.ask)]
    for name, stage in content.stage.items():
        tables.append((dotted((name,), "stage"), stage))
        tables += [(dotted((name, "rungs", i), "stage"), rung) for i, rung in enumerate(stage.rungs)]
    return {
        f"{path}.{key}": Origin(Source.FILE, PROJECT_FILE) if key in table.model_fields_set else BUILT_IN
        for path, table in tables
        for key in type(table).model_fields
        if key != "rungs"
    }


def _check_stage(file: Path, name: str, stage: Stage, registry: Registry) -> None:
    seen: dict[tuple[str, str | None, str | None], int] = {}
    for i, rung in enumerate(stage.rungs):
        place = dotted((name, "rungs", i), "stage")
        try:
            choice = registry.validate_choice(rung.agent, rung.model, rung.effort)
        except ChoiceError as error:
            raise ConfigError(file, f"{place}.{error.key}", str(error)) from None
        if rung.agent == "script":
            raise ConfigError(file, f"{place}.agent", "script takes its command from --command; use it without a stage")
        if stage.rehearse and choice.entry and not choice.entry.rehearsed:
            raise ConfigError(file, f"{place}.agent", f"{rung.agent} cannot be rehearsed: its entry has no stand-in")
        same = seen.setdefault((choice.agent, choice.model, choice.effort), i)
        if same != i:
            problem = (
                f"the same as rungs[{same}] ({choice.label}); to try it several times write runs = 2 on one of them"
            )
            raise ConfigError(file, place, problem)


def _check_defaults(project: Project) -> None:
    """The names in `[defaults]` must be there, wherever they came from."""
    defaults = project.defaults
    try:
        if defaults.stage is not None:
            project.stage(defaults.stage)
        if defaults.agent is not None:
            project.registry.validate_choice(defaults.agent, defaults.model, defaults.effort)
    except UsageError as error:
        key = f"defaults.{error.key if isinstance(error, ChoiceError) else 'stage'}"
        origin = project.origins[key]
        if origin.source is Source.FILE:
            raise ConfigError(as_named(project.root / PROJECT_FILE), key, str(error)) from None
        msg = f"{origin.where}: {error}" if origin.where else str(error)
        raise UsageError(msg) from None
