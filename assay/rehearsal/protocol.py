"""The seam between the server and one vendor's API: what a request asks, and what an answer is.

A protocol file (anthropic.py and its neighbours) has a `Speaker`, which `server.SPEAKERS` lists. Everything on
this side runs in the stand-in's own container with the standard library alone, and without dataclasses, hashlib and the
like: each would add 5 to 20 ms to every start.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]
Kind = Literal["main", "subagent", "side"]


class Heard(NamedTuple):
    """One HTTP request as it arrived; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""

    @property
    def route(self) -> str:
        """The path without its query."""
        return self.path.partition("?")[0]

    @property
    def goes_on(self) -> bool:
        """Whether the client keeps the connection open."""
        return self.headers.get("connection", "").lower() != "close"

    def json(self) -> Json:
        """The body as a JSON object; empty where it is none."""
        try:
            value = json.loads(self.body or b"{}")
        except (ValueError, RecursionError):
            return {}
        return table(value)


class Answer(NamedTuple):
    """One HTTP answer: a whole body, or the events of a stream in the order they are sent."""

    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""
    events: list[bytes] | None = None

    @classmethod
    def of(cls, value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
        """A JSON answer."""
        return cls(status, {"content-type": "application/json", **(headers or {})}, json.dumps(value).encode())


class Result(NamedTuple):
    """What one tool call came to, as the CLI reports it back. `error` is None where the vendor's API does not say."""

    call: str
    text: str
    error: bool | None = None


class Asked(NamedTuple):
    """What a request wants of the model.

    Attributes:
        kind: `main` and `subagent` requests are played from the script; a `side` request gets `answer`.
        label: What a side request is for, as the record shows it.
        answer: The harmless answer to a side request.
        thread: Names the conversation; requests of one thread follow each other.
        same: Equal for a request and its retry, different otherwise.
        opening: The first thing the user said in this conversation.
        last: The last message, shortened.
        results: Tool results in the request, oldest first.
    """

    kind: Kind
    label: str = ""
    answer: Answer | None = None
    thread: str = "main"
    same: int = 0
    opening: str = ""
    last: str = ""
    messages: int = 0
    model: str = ""
    effort: str | None = None
    tools: tuple[str, ...] = ()
    streaming: bool = True
    results: tuple[Result, ...] = ()


class Call(NamedTuple):
    """A tool call in the vendor's own terms. A text as input is a free-form call."""

    id: str
    tool: str
    input: Json | str


class Speaker(Protocol):
    """One vendor's API. Stateless but for what it must remember to tell a sub-agent from the main conversation."""

    def listen(self, heard: Heard) -> Asked:
        """Say what a request wants."""

    def call_id(self, serial: str, n: int) -> str:
        """The id of the n-th call of an answer, in the vendor's shape."""

    def speak(self, asked: Asked, turn: Json, calls: list[Call], serial: str) -> Answer:
        """Put a turn that succeeds, or fails in mid-stream, into the vendor's words."""

    def refuse(self, asked: Asked, turn: Json, serial: str) -> Answer:
        """Put a turn with `status` or `limit` into the vendor's words."""


USAGE = {"input": 100, "cached": 0, "cache_write": 0, "output": 20}
"""Tokens of a turn that does not say."""


def usage(turn: Json) -> dict[str, int]:
    """A turn's tokens, in disjoint kinds."""
    return {**USAGE, **turn.get("usage", {})}


def table(value: object) -> Json:
    """A JSON object as it is; anything else, which an agent may send, as an empty one."""
    return value if isinstance(value, dict) else {}


def tables(value: object) -> list[Json]:
    """The objects of a JSON list; nothing where it is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def shorten(text: str, most: int = 400) -> str:
    """A text for the record: its beginning, and how much was left out."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"
