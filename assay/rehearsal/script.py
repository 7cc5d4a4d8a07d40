"""The script of a rehearsal: what the stand-in says, turn by turn, in words that every vendor's protocol can speak.

    about = "Counts files, then is told that the limit is reached."

    [[turn]]
    thinking = "I should look first."
    text = "Let me see."
    shell = ["ls | wc -l", "cat missing.txt"]   # two tool calls in one message
    expect = ["3", "No such file"]              # what their results must contain

    [[turn]]
    limit = { resets_in = "2h" }

Read on the host with `load`; the server gets `Script.plain()`, which needs nothing but JSON.
"""

from __future__ import annotations

import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from assay.model.errors import ConfigError, did_you_mean

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
CANONICAL = "canonical.toml"


def _seconds(value: object) -> object:
    """Seconds of a number or of a text such as `200ms`, `1.5s`, `2h`."""
    if isinstance(value, str) and (found := re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", value)):
        return float(found[1]) * UNITS[found[2]]
    if isinstance(value, str):
        msg = f"{value!r} is no duration: write seconds, or a number with ms, s, m, h or d"
        raise ValueError(msg)
    return value


def _listed(value: object) -> object:
    return value if isinstance(value, list) else [value]


Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0, le=366 * 86400)]
Texts = Annotated[list[str], BeforeValidator(_listed)]


class Table(BaseModel):
    """A table of a script: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class Usage(Table):
    """Tokens of one answer, in disjoint kinds; one that is left out has the default of the stand-in."""

    input: int | None = Field(None, ge=0)
    """Neither read from nor written to a cache."""
    cached: int | None = Field(None, ge=0)
    """Read from a cache."""
    cache_write: int | None = Field(None, ge=0)
    """Written to a cache."""
    output: int | None = Field(None, ge=0)
    """Produced."""


class Limit(Table):
    """The vendor's usage limit is reached."""

    resets_in: Seconds = 3600.0
    """How long from the answer until the window opens again."""
    window: Literal["five_hour", "seven_day"] = "five_hour"
    """Which window of the subscription is used up."""


class ErrorWords(Table):
    """An error in the vendor's own terms."""

    type: str | None = None
    """The vendor's name for it; the one that goes with the status if left out."""
    message: str = "rehearsed error"
    """What the server says."""


class Call(Table):
    """One tool call: a `shell` command, or one `tool` of the vendor with its `input`."""

    shell: str | None = None
    """A command, run through whatever tool the CLI has for that."""
    tool: str | None = None
    """A tool by the vendor's own name; the script then plays on that vendor's CLI only."""
    input: dict[str, Any] | str | None = None
    """The vendor's own input of `tool`."""
    expect: Texts | None = None
    """Texts that the result must contain."""
    fails: bool | None = None
    """Whether the result must be a tool error (true) or must not be one (false)."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.shell is None) == (self.tool is None):
            msg = "a call needs either shell or tool"
            raise ValueError(msg)
        if self.input is not None and self.tool is None:
            msg = "input goes with tool, not with shell"
            raise ValueError(msg)
        return self


class Turn(Table):
    """What one request is answered with: words and tool calls, or a failure."""

    thinking: str | None = None
    """Reasoning, before the text."""
    text: str | None = None
    """What the model says."""
    shell: Texts | None = None
    """One command or several, all in one message."""
    tool: str | None = None
    """One tool by the vendor's own name."""
    input: dict[str, Any] | str | None = None
    """The vendor's own input of `tool`."""
    expect: Texts | None = None
    """What the results must contain: one text for each call, in order."""
    fails: bool | None = None
    """Whether the results must be tool errors (true) or must not be (false)."""
    call: list[Call] = []
    """Tool calls written as tables of their own, after those of `shell` and `tool`."""
    stop: Literal["refusal", "max_tokens"] | None = None
    """Why the model stops, if not of its own will."""
    usage: Usage | None = None
    """Tokens of this answer."""
    status: int | None = Field(None, ge=400, le=599)
    """An HTTP error instead of an answer."""
    error: ErrorWords | str | None = None
    """What goes with `status`: a text, or the vendor's own type and message."""
    retry_after: Seconds | None = None
    """How long the CLI is told to wait before it tries again; goes with `status`."""
    headers: dict[str, str] = {}
    """More HTTP headers of the answer."""
    limit: Limit | None = None
    """The usage limit, as the vendor reports it."""
    hang: Literal["before", "mid-stream"] | None = None
    """Go silent before the answer or in the middle of it."""
    hold: Seconds | None = None
    """How long a `hang` lasts before the connection is closed; until the client gives up, if left out."""
    cut: Literal["before", "mid-stream"] | None = None
    """Close the connection before the answer or in the middle of it."""
    stream_error: ErrorWords | str | None = None
    """An error event in a stream that began well."""
    delay: Seconds | None = None
    """Wait before the answer."""
    pace: Seconds | None = None
    """Wait after each event of the stream."""
    times: int = Field(1, ge=1, le=1_000_000)
    """For how many requests."""
    subagent: bool = False
    """Answers a sub-agent's request and never one of the main conversation."""
    match: str | None = None
    """Only for a sub-agent that was asked something with this text in it."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        failures = [name for name in ("status", "limit", "stream_error") if getattr(self, name) is not None]
        content = [name for name in ("thinking", "text", "shell", "tool", "stop") if getattr(self, name) is not None]
        content += ["call"] if self.call else []
        if self.hang and self.cut:
            msg = "hang and cut exclude each other"
        elif len(failures) > 1 or (failures and content):
            msg = f"{' and '.join([*failures, *content])} exclude each other: give each a [[turn]] of its own"
        elif not failures and not content and not self.hang and not self.cut:
            msg = "a turn must say or do something: text, shell, tool, status, limit, hang, cut or stream_error"
        elif self.status is None and (self.error is not None or self.retry_after is not None):
            msg = "error and retry_after go with status"
        elif self.hold is not None and not self.hang:
            msg = "hold goes with hang"
        elif self.match is not None and not self.subagent:
            msg = "match goes with subagent = true"
        elif self.input is not None and self.tool is None:
            msg = "input goes with tool"
        else:
            self._check_expectations()
            return self
        raise ValueError(msg)

    def _check_expectations(self) -> None:
        own = len(self.shell or []) + (self.tool is not None)
        if self.expect is not None and len(self.expect) != own:
            msg = f"expect has {len(self.expect)} texts for {own} calls of shell and tool: write one for each"
            raise ValueError(msg)
        if self.fails is not None and not own:
            msg = "fails goes with shell or tool"
            raise ValueError(msg)

    def calls(self) -> list[Call]:
        """Every tool call of this turn, in order."""
        own: list[dict[str, Any]] = [{"shell": command} for command in self.shell or []]
        if self.tool is not None:
            own.append({"tool": self.tool, "input": self.input})
        for n, call in enumerate(own):
            call["fails"] = self.fails
            call["expect"] = [self.expect[n]] if self.expect else None
        return [*(Call(**call) for call in own), *self.call]

    def plain(self) -> dict[str, Any]:
        """The form that the server reads: calls in one list, errors as tables, nothing that is not set."""
        plain = self.model_dump(exclude_none=True, exclude={"shell", "tool", "input", "expect", "fails", "call"})
        plain = {key: value for key, value in plain.items() if value not in ({}, False)}
        for key in ("error", "stream_error"):
            if isinstance(plain.get(key), str):
                plain[key] = {"message": plain[key]}
        calls = [{"input": {}, **call.model_dump(exclude_none=True)} for call in self.calls()]
        return {**plain, "calls": calls} if calls else plain


class Script(Table):
    """A whole script."""

    about: str = ""
    """What it is for."""
    final: str = "The rehearsal script has no more turns."
    """Said to every request after the last turn."""
    turn: list[Turn] = Field(min_length=1)
    """The turns in order; those of sub-agents have an order of their own."""

    def plain(self) -> dict[str, Any]:
        """The plain JSON form handed to the server."""
        return {"final": self.final, "turns": [turn.plain() for turn in self.turn]}

    def tools(self) -> list[str]:
        """The vendor's own tools that it names; empty if it plays on every CLI."""
        return [call.tool for turn in self.turn for call in turn.calls() if call.tool]

    def uses_shell(self) -> bool:
        """Whether a `shell` step occurs."""
        return any(call.shell is not None for turn in self.turn for call in turn.calls())


def load(path: Path) -> Script:
    """Read a script.

    Raises:
        ConfigError: It cannot be read, is no TOML, or says something that a script cannot say.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(path, "", f"cannot be read: {error}") from None
    return parse(text, path)


def canonical() -> Script:
    """The script that every CLI is rehearsed with when none is named."""
    return parse(resources.files(__package__).joinpath(CANONICAL).read_text(encoding="utf-8"), CANONICAL)


def parse(text: str, name: Path | str) -> Script:
    """A script from its TOML text; `name` is how errors call the file."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(name, "", f"is not TOML: {error}") from None
    try:
        return Script.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(name, _dotted(first["loc"]), _problem(first)) from None


def _dotted(loc: tuple[int | str, ...]) -> str:
    """`turn[2].usage.input`; names of alternatives, which pydantic puts in, are left out."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part not in ("str", "ErrorWords", "dict[str,any]"):
            path += f".{part}" if path else part
    return path


def _problem(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        word = str(error["loc"][-1])
        table = next((t for name, t in _TABLES.items() if name in error["loc"][:-1]), None)
        table = table or (Turn if "turn" in error["loc"][:-1] else Script)
        return f"unknown key {word!r}{did_you_mean(word, table.model_fields)}; it would have been ignored"
    return str(error["msg"]).removeprefix("Value error, ")


_TABLES: dict[str, type[Table]] = {
    "usage": Usage,
    "limit": Limit,
    "call": Call,
    "error": ErrorWords,
    "stream_error": ErrorWords,
}
