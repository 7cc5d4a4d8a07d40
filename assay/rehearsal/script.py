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

import json
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from assay.model.fields import Duration
from assay.model.table import Table
from assay.model.toml import parse_toml, read_toml, validate

CANONICAL = "canonical.toml"


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _worded(value: object) -> object:
    return {"message": value} if isinstance(value, str) else value


def _tool_input(value: object) -> object:
    msg = "must be a table or a text, of texts, numbers, booleans, lists and tables"
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError(msg) from None
    if isinstance(value, dict | str):
        return value
    raise ValueError(msg)


Texts = Annotated[list[str], BeforeValidator(_listed)]
ToolInput = Annotated[Any, AfterValidator(_tool_input), WithJsonSchema({"type": ["object", "string"]})]


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

    resets_in: Duration = 3600.0
    """How long from the answer until the window opens again."""
    window: Literal["five_hour", "seven_day"] = "five_hour"
    """Which window of the subscription is used up."""


class ErrorWords(Table):
    """An error in the vendor's own terms."""

    type: str | None = None
    """The vendor's name for it; the one that goes with the status if left out."""
    message: str = "rehearsed error"
    """What the server says."""


Error = Annotated[ErrorWords, BeforeValidator(_worded)]


class Call(Table):
    """One tool call: a `shell` command, or one `tool` of the vendor with its `input`."""

    shell: str | None = None
    """A command, run through whatever tool the CLI has for that."""
    tool: str | None = None
    """A tool by the vendor's own name; the script then plays on that vendor's CLI only."""
    input: ToolInput | None = None
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
    input: ToolInput | None = None
    """The vendor's own input of `tool`."""
    expect: Texts | None = None
    """What the results must contain: one text for each call, in order."""
    fails: bool | None = None
    """Whether the results must be tool errors (true) or must not be (false)."""
    call: list[Call] = Field(default_factory=list)
    """Tool calls written as tables of their own, after those of `shell` and `tool`."""
    stop: Literal["refusal", "max_tokens"] | None = None
    """Why the model stops, if not of its own will."""
    usage: Usage | None = None
    """Tokens of this answer."""
    status: int | None = Field(None, ge=400, le=599)
    """An HTTP error instead of an answer."""
    error: Error | None = None
    """What goes with `status`: a text, or the vendor's own type and message."""
    retry_after: Duration | None = None
    """How long the CLI is told to wait before it tries again; goes with `status`."""
    headers: dict[str, str] = Field(default_factory=dict)
    """More HTTP headers of the answer."""
    limit: Limit | None = None
    """The usage limit, as the vendor reports it."""
    hang: Literal["before", "mid-stream"] | None = None
    """Go silent before the answer or in the middle of it."""
    hold: Duration | None = None
    """How long a `hang` lasts before the connection is closed; until the client gives up, if left out."""
    cut: Literal["before", "mid-stream"] | None = None
    """Close the connection before the answer or in the middle of it."""
    stream_error: Error | None = None
    """An error event in a stream that began well."""
    delay: Duration | None = None
    """Wait before the answer."""
    pace: Duration | None = None
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
    return validate(Script, read_toml(path), path)


def canonical() -> Script:
    """The script that every CLI is rehearsed with when none is named."""
    return parse(resources.files(__package__).joinpath(CANONICAL).read_bytes(), CANONICAL)


def parse(text: bytes, name: Path | str) -> Script:
    """A script from TOML text; `name` is how errors call the file."""
    return validate(Script, parse_toml(text, name), name)
