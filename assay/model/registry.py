"""agents.toml: an agent is an entry, and everything about one vendor's CLI is data here.

Placeholders in launch lines, environment and files: `{model}`, `{effort}`, `{session}`, `{workdir}`, `{home}`,
`{prompt_file}`, `{version}`. A launch line is a list of arguments, never a shell string.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from assay.model.errors import UsageError, did_you_mean
from assay.model.fields import (
    DecoderName,
    EnvName,
    EnvPattern,
    EnvValue,
    HeaderName,
    HomePath,
    Host,
    Name,
    UrlPath,
    Version,
    Word,
)
from assay.model.place import as_named
from assay.model.table import Table
from assay.model.toml import read_toml, validate

BUILT_IN = ("oracle", "nop", "script")
"""Agents without a vendor: the task's own solution, nothing at all, one command. Their names are reserved."""


class Install(Table):
    """How the CLI gets into an image, at one pinned version."""

    run: list[str]
    """Shell lines of a build stage that has npm, curl and tar; they see $VERSION, $ARCH (x64 or arm64) and $OUT, and
    leave what the CLI needs under $OUT, its executables in $OUT/bin."""
    check: list[str]
    """Run in the finished image, offline, as the agent's user; must exit 0."""
    shows: str = "{version}"
    """Must occur in what `check` prints, or the build fails."""
    node: bool = False
    """Whether the CLI needs Node at run time."""
    obtainable: bool = True
    """False where the CLI is in no package registry and its own host must be reachable."""
    source: str = ""
    """Where the pinned archive of a CLI that is not obtainable otherwise lies: the install lines see it as $SOURCE.
    Empty until the first build has recorded what the vendor offered."""
    sha512: str = ""
    """What that archive must amount to; $SHA512 in the install lines."""


class Mend(Table):
    """A repair of the CLI's own files without which it does not resume."""

    file: HomePath
    """Below home; the placeholders of launch lines and `*` for one part of the path allowed."""
    drop_lines: list[str]
    """Lines that contain one of these are left out."""


class Launch(Table):
    """The headless launch line and what goes with it."""

    run: list[str] = Field(min_length=1)
    """First start."""
    resume: list[str] = Field(default_factory=list)
    """Going on with the CLI's own session `{session}`; empty if it cannot."""
    mend: list[Mend] = Field(default_factory=list)
    """Done before a resume, in the container that is about to start."""
    effort: list[str] = Field(default_factory=list)
    """Added when an effort is chosen."""
    offline: list[str] = Field(default_factory=list)
    """Added when the run has no internet: switches the vendor's own web tools off."""
    prompt: Literal["stdin", "file"] = "stdin"
    """Whether the prompt arrives on standard input or the launch line names `{prompt_file}`."""
    prompt_form: str = ""
    """What is written where the CLI does not take it as it is; `{prompt_json}` stands for it as a JSON text."""
    session: Literal["given", "announced"] = "announced"
    """Whether Assay chooses the session id (a UUID) or the CLI announces it in its stream."""
    stop: Literal["TERM", "INT"] = "TERM"
    """The signal that ends it gently."""
    stall_seconds: int = 900
    """No output for this long is a stall."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Switches for telemetry, updates, retries and the like."""
    offline_env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Added when the run has no internet."""
    root_env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Added when the task says `user = "root"`."""
    foreign_env: list[EnvPattern] = Field(default_factory=list)
    """Variables, `PREFIX_*` allowed, that would change how the CLI works and must not come from a task's image."""
    ca_env: list[EnvName] = Field(default_factory=list)
    """Variables that make the CLI trust one more CA file."""
    files: dict[HomePath, str] = Field(default_factory=dict)
    """Files put in place before the start, path (`~/` is the agent's home) to content."""
    offline_files: dict[HomePath, str] = Field(default_factory=dict)
    """Added when the run has no internet; replaces a file of the same path."""


class Model(Table):
    """What is known of one model of this agent."""

    efforts: list[str] | None = None
    """Levels this model accepts; None: the agent's own list. Empty: effort cannot be set."""
    effort_in_name: bool = False
    """The model's own name says the effort, which may be named as well; no argument is added for it."""
    usd_per_mtok: dict[Literal["input", "cached", "cache_write", "output"], float] | None = None
    """List prices in US dollars per million tokens, used where the CLI states no cost."""


class Inject(Table):
    """How a fence of mode `inject` puts a credential into requests, so that the container only has a placeholder."""

    headers: list[HeaderName] = Field(min_length=1)
    """Headers in which the vendor takes a credential, bare or after a scheme (`Bearer …`). Each that a request has must
    hold the placeholder; a request with another value in one of them, or with none of them, is refused."""
    paths: list[UrlPath] = Field(min_length=1)
    """Beginnings of the paths that may be asked for."""
    placeholder: Word = ""
    """What the placeholder begins with, where the CLI looks at that; the rest is random."""


class Credential(Table):
    """One way to sign in; the first whose variable or file is there is used."""

    env: EnvName | None = None
    """Name of a variable, the same on the user's machine and in the container."""
    file: HomePath | None = None
    """Path of a file below the home directory, the same on both sides (`~/...`)."""
    hosts: list[Host] = Field(default_factory=list)
    """Hosts that this kind of credential needs beyond the agent's own."""
    refresh: Literal["copy", "copy-back"] = "copy"
    """What happens to a file that the CLI renewed in the container."""
    account: str | None = None
    """Dotted path in the file to what names the account; must not change when the file is copied back. `*` in a path
    stands for any one key."""
    needs: list[str] = Field(default_factory=list)
    """Dotted paths in the file to what must be a text that is not empty; without them the file signs in to nothing."""
    expires: str | None = None
    """Dotted path in the file to when it stops working: seconds or milliseconds since 1970, or RFC 3339. A run that
    would outlast it is refused; not for a sign-in that the CLI can renew in its container."""
    inject: Inject | None = None
    """For a variable: how a fence of mode `inject` keeps it out of the container. None: it cannot."""

    @model_validator(mode="after")
    def _only_variables_are_injected(self) -> Self:
        if self.inject is not None and self.env is None:
            msg = "inject is for a variable: a file would be in the container all the same; leave it out"
            raise ValueError(msg)
        return self


class ShellCall(Table):
    """How the vendor's model asks for a shell command to be run."""

    tool: str
    """The tool's own name."""
    input: dict[str, Any] | str
    """Its input with `{command}` as it is or `{command_json}` quoted as JSON; a text for a free-form tool."""


class Rehearsal(Table):
    """Which stand-in speaks this agent's API, and the placeholder that signs in to it."""

    api: Literal["anthropic", "openai-responses", "openai-chat", "xai", "gemini", "none"]
    """The protocol of the stand-in; `none` if it cannot be rehearsed."""
    hosts: list[Host]
    """Names pinned to the stand-in."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Placeholder credentials, never a real key."""
    files: dict[HomePath, str] = Field(default_factory=dict)
    """Placeholder credential or settings files."""
    shell: list[ShellCall] = Field(default_factory=list)
    """What a script's `shell` step becomes: the first whose tool the CLI offers, else the first."""
    model: str = ""
    """Model used when a rehearsal names none."""


class Agent(Table):
    """One vendor CLI and how to drive it."""

    title: str
    """As a person would call it."""
    version: Version
    """The pinned version of the CLI."""
    decoder: DecoderName
    """Name of the module in assay/decoders/ that reads its stream."""
    hosts: list[Host]
    """The API hosts the CLI may reach; nothing else can be reached without internet."""
    efforts: list[str] = Field(default_factory=list)
    """Effort levels that the CLI accepts; a model may narrow them. Empty: effort cannot be set."""
    default_effort: str | None = None
    """What the CLI uses when none is given, for display only."""
    default_model: str | None = None
    """Used when a command names none."""
    states_cost: bool = False
    """Whether the CLI says what a run cost. Where it does not, only the prices of a model tell."""
    web_tools: list[str] = Field(default_factory=list)
    """Names of tools that must not be offered while the run has no internet."""
    install: Install
    launch: Launch
    models: dict[str, Model] = Field(default_factory=dict)
    """Known models; another one is allowed with a warning and marked `unlisted`."""
    credentials: list[Credential] = Field(default_factory=list)
    """In order of preference."""
    state: list[HomePath] = Field(default_factory=list)
    """Paths below home that hold the CLI's session, `{session}` allowed: what a resume needs."""
    session_file: HomePath | None = None
    """Path of the CLI's own session file (`~/...`; `{session}`, `{workdir_dashed}` and `*` for one part of the path
    allowed): read for token counts that the stream lacks. Where several files match, they follow each other."""
    session_more: list[HomePath] = Field(default_factory=list)
    """Paths of further files that go with it, in the same terms: sub-agents' own, say. Read after it."""
    rehearsal: Rehearsal | None = None

    @property
    def rehearsed(self) -> bool:
        """Whether a stand-in speaks its API."""
        return self.rehearsal is not None and self.rehearsal.api != "none"


class Registry(Table):
    """The whole of agents.toml."""

    agents: dict[Name, Agent] = Field(default_factory=dict)

    @field_validator("agents")
    @classmethod
    def _not_reserved(cls, agents: dict[str, Agent]) -> dict[str, Agent]:
        for name in BUILT_IN:
            if name in agents:
                msg = f"{name!r} is the name of a built-in agent; call the entry something else"
                raise ValueError(msg)
        return agents

    @property
    def names(self) -> list[str]:
        """Every agent that can be chosen: the entries, then the built-in ones."""
        return [*sorted(self.agents), *BUILT_IN]

    def validate_choice(self, agent: str, model: str | None = None, effort: str | None = None) -> Choice:
        """Check an agent, a model and an effort against their entry, before anything starts.

        A model that the entry does not list is allowed: it gets a warning and the agent's own effort levels.

        Raises:
            ChoiceError: Unknown agent, an effort that the model does not accept, or no model at all.
        """
        if agent in BUILT_IN:
            return _built_in_choice(agent, model, effort)
        entry = self.agents.get(agent)
        if entry is None:
            hint = did_you_mean(agent, self.names) or f"; known agents: {', '.join(self.names)}"
            msg = f"unknown agent {agent!r}{hint}"
            raise ChoiceError(msg, "agent")
        model = model or entry.default_model
        if not model:
            msg = f"{agent} has no default model; name one of {', '.join(entry.models) or 'its own'}"
            raise ChoiceError(msg, "model")
        known = entry.models.get(model)
        efforts = entry.efforts if known is None or known.efforts is None else known.efforts
        if effort is not None and effort not in efforts:
            raise ChoiceError(_effort_problem(agent, model, effort, efforts), "effort")
        warning = None
        if known is None:
            hint = did_you_mean(model, entry.models)
            warning = f"{agent} does not list the model {model!r}{hint}; going on, marked unlisted"
        return Choice(agent, model, effort, entry, unlisted=known is None, warning=warning)


class ChoiceError(UsageError):
    """An agent, model or effort that cannot be used.

    Args:
        problem: What is wrong, and what to write instead.
        key: Which of the three is wrong: agent, model or effort.
    """

    def __init__(self, problem: str, key: str) -> None:
        self.key = key
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Choice:
    """An agent, model and effort that fit together.

    Attributes:
        agent: Name of the entry, or of a built-in agent.
        model: As the vendor's CLI is told; None for a built-in agent.
        effort: None leaves the CLI's own default.
        entry: The agent's entry; None for a built-in agent.
        unlisted: Whether the entry does not know this model.
        warning: One line for the user, where there is something to say.
    """

    agent: str
    model: str | None = None
    effort: str | None = None
    entry: Agent | None = None
    unlisted: bool = False
    warning: str | None = None

    @property
    def effort_arguments(self) -> list[str]:
        """What the launch line needs so that the effort holds."""
        if self.entry is None or self.effort is None:
            return []
        known = self.entry.models.get(self.model or "")
        return [] if known is not None and known.effort_in_name else self.entry.launch.effort

    @property
    def cost_known(self) -> bool:
        """Whether it will be known what a run cost: from the CLI, or by list price; a built-in agent costs nothing."""
        if self.entry is None or self.entry.states_cost:
            return True
        known = self.entry.models.get(self.model or "")
        return {"input", "cached", "output"} <= set((known and known.usd_per_mtok) or {})

    @property
    def label(self) -> str:
        """For a reader: agent, model and effort in one word each."""
        return " ".join(part for part in (self.agent, self.model, self.effort) if part)


def load_registry(project_root: Path | None = None) -> Registry:
    """The registry that Assay brings along, with a project's own agents.toml laid over it.

    A new name adds an entry. A known name overrides the keys that it gives: tables are merged, anything else is
    replaced.

    Raises:
        ConfigError: One of the two files says something wrong.
    """
    built_in = built_in_file()
    data = read_toml(built_in)
    registry = validate(Registry, data, built_in)
    own = as_named(project_root / "agents.toml") if project_root else None
    if own is None or not own.exists() or own.samefile(built_in):
        return registry
    return validate(Registry, _merged(data, read_toml(own)), own)


def own_entry(project_root: Path, name: str) -> dict[str, Any]:
    """What a project's own agents.toml says of an entry, and nothing that Assay brings along.

    Raises:
        ConfigError: The file is no TOML.
    """
    own = as_named(project_root / "agents.toml")
    said = read_toml(own).get("agents", {}).get(name, {}) if own.exists() else {}
    return dict(said) if isinstance(said, dict) else {}


def built_in_file() -> Path:
    """Where the registry that Assay brings along is: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "agents.toml"
    return installed if installed.exists() else package.parent / "agents.toml"


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _built_in_choice(agent: str, model: str | None, effort: str | None) -> Choice:
    for key, value in (("model", model), ("effort", effort)):
        if value is not None:
            msg = f"{agent} has no {key}, {value!r} would be ignored; leave it out"
            raise ChoiceError(msg, key)
    return Choice(agent)


def _effort_problem(agent: str, model: str, effort: str, efforts: list[str]) -> str:
    who = f"{agent} {model}"
    if not efforts:
        return f"the effort of {who} cannot be set, {effort!r} would be ignored; leave it out"
    hint = did_you_mean(effort, efforts)
    return f"unknown effort {effort!r} for {who}{hint}, its CLI might silently use another; one of {', '.join(efforts)}"
