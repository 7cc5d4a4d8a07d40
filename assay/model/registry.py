"""agents.toml: an agent is an entry, and everything about one vendor's CLI is data here.

Placeholders in launch lines, environment and files: `{model}`, `{effort}`, `{session}`, `{workdir}`, `{home}`,
`{prompt_file}`, `{version}`. A launch line is a list of arguments, never a shell string.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Host = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.-]+$")]


class Table(BaseModel):
    """A TOML table: unknown keys are errors, values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


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


class Launch(Table):
    """The headless launch line and what goes with it."""

    run: list[str]
    """First start."""
    resume: list[str] = []
    """Going on with the CLI's own session `{session}`; empty if it cannot."""
    effort: list[str] = []
    """Added when an effort is chosen."""
    offline: list[str] = []
    """Added when the run has no internet: switches the vendor's own web tools off."""
    prompt: Literal["stdin", "file"] = "stdin"
    """Whether the prompt arrives on standard input or the launch line names `{prompt_file}`."""
    session: Literal["given", "announced"] = "announced"
    """Whether Assay chooses the session id (a UUID) or the CLI announces it in its stream."""
    stop: Literal["TERM", "INT"] = "TERM"
    """The signal that ends it gently."""
    stall_seconds: int = 900
    """No output for this long is a stall."""
    env: dict[EnvName, str] = {}
    """Switches for telemetry, updates, retries and the like."""
    offline_env: dict[EnvName, str] = {}
    """Added when the run has no internet."""
    root_env: dict[EnvName, str] = {}
    """Added when the task says `user = "root"`."""
    ca_env: list[EnvName] = []
    """Variables that make the CLI trust one more CA file."""
    files: dict[str, str] = {}
    """Files put in place before the start, path (`~/` is the agent's home) to content."""
    offline_files: dict[str, str] = {}
    """Added when the run has no internet; replaces a file of the same path."""


class Model(Table):
    """What is known of one model of this agent."""

    efforts: list[str] | None = None
    """Levels this model accepts; None: the agent's own list. Empty: effort cannot be set."""
    usd_per_mtok: dict[Literal["input", "cached", "cache_write", "output"], float] | None = None
    """List prices in US dollars per million tokens, used where the CLI states no cost."""


class Credential(Table):
    """One way to sign in; the first whose variable or file is there is used."""

    env: EnvName | None = None
    """Name of a variable, the same on the user's machine and in the container."""
    file: str | None = None
    """Path of a file below the home directory, the same on both sides (`~/...`)."""
    hosts: list[Host] = []
    """Hosts that this kind of credential needs beyond the agent's own."""
    refresh: Literal["copy", "copy-back"] = "copy"
    """What happens to a file that the CLI renewed in the container."""
    account: str | None = None
    """Dotted path in the file to what names the account; must not change when the file is copied back."""


class Rehearsal(Table):
    """Which stand-in speaks this agent's API, and the placeholder that signs in to it."""

    api: Literal["anthropic", "openai-responses", "openai-chat", "xai", "gemini", "none"]
    """The protocol of the stand-in; `none` if it cannot be rehearsed."""
    hosts: list[Host]
    """Names pinned to the stand-in."""
    env: dict[EnvName, str] = {}
    """Placeholder credentials, never a real key."""
    files: dict[str, str] = {}
    """Placeholder credential or settings files."""
    model: str = ""
    """Model used when a rehearsal names none."""


class Agent(Table):
    """One vendor CLI and how to drive it."""

    title: str
    """As a person would call it."""
    version: str
    """The pinned version of the CLI."""
    decoder: str
    """Name of the module in assay/decoders/ that reads its stream."""
    hosts: list[Host]
    """The API hosts the CLI may reach; nothing else can be reached without internet."""
    efforts: list[str] = []
    """Effort levels that the CLI accepts; a model may narrow them. Empty: effort cannot be set."""
    default_effort: str | None = None
    """What the CLI uses when none is given, for display only."""
    default_model: str | None = None
    """Used when a command names none."""
    web_tools: list[str] = []
    """Names of tools that must not be offered while the run has no internet."""
    install: Install
    launch: Launch
    models: dict[str, Model] = {}
    """Known models; another one is allowed with a warning and marked `unlisted`."""
    credentials: list[Credential] = []
    """In order of preference."""
    state: list[str] = []
    """Paths below home that hold the CLI's session, `{session}` allowed: what a resume needs."""
    session_file: str | None = None
    """Path of the CLI's own session file (`~/...`; `{session}` and `{workdir_dashed}` allowed): read for token counts
    that the stream lacks."""
    rehearsal: Rehearsal | None = None


class Registry(Table):
    """The whole of agents.toml."""

    agents: dict[Name, Agent] = Field(default_factory=dict)
