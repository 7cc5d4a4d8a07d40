"""Checks that ask a server for something: a tool call, a resource, a prompt."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assay.model.score import Score
from assay.suite.checks import Check
from assay.suite.checks.expectation import DECLARED, Expectation
from assay.suite.reader import Table
from assay.suite.subject import Subject
from assay.suite.wire.answers import Answer, said
from assay.suite.wire.faults import BadAnswer, RpcError


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Calls a tool and looks at what comes back."""

    name: str
    tool: str
    args: Mapping[str, object]
    expectation: Expectation
    timeout: float | None = None
    at_end: bool = False

    @property
    def label(self) -> str:
        """Kind and tool."""
        return f"tool_call:{self.tool}"

    @property
    def empty(self) -> bool:
        """Whether it asserts no more than that there is an answer."""
        return self.expectation.nothing

    def evaluate(self, subject: Subject) -> Score:
        """Make the call; see `Check.evaluate`."""
        session, wants = subject.session, self.expectation
        declared = (session.tool(self.tool) or {}).get("outputSchema") if wants.schema == DECLARED else None
        answer = session.call(self.tool, self.args, seconds=subject.seconds(self.timeout, wants.max_seconds))
        return wants.score(answer, declared, subject.seconds())


@dataclass(frozen=True, slots=True)
class Fetch:
    """Reads a resource or gets a prompt and looks at what comes back."""

    name: str
    label: str
    method: str
    params: Mapping[str, object]
    expectation: Expectation
    timeout: float | None = None
    at_end: bool = False

    @property
    def empty(self) -> bool:
        """Whether it asserts no more than that there is an answer."""
        return self.expectation.nothing

    def evaluate(self, subject: Subject) -> Score:
        """Ask for it; see `Check.evaluate`."""
        session, phase, start = subject.session, self.label.replace(":", " ", 1), time.perf_counter()
        try:
            limit = subject.seconds(self.timeout, self.expectation.max_seconds)
            result = session.request(self.method, self.params, seconds=limit, phase=phase)
        except RpcError as error:
            answer = Answer(refused=error, seconds=time.perf_counter() - start)
            return self.expectation.score(answer, seconds=subject.seconds())
        blocks = _contents(result, phase) if self.method == "resources/read" else _messages(result, phase)
        answer = Answer(tuple(blocks), seconds=time.perf_counter() - start)
        return self.expectation.score(answer, seconds=subject.seconds())


def _contents(result: Mapping[str, Any], phase: str) -> list[Mapping[str, Any]]:
    """A resource's contents as blocks whose type is their media type."""
    contents = result.get("contents")
    if not isinstance(contents, list) or not all(isinstance(item, dict) for item in contents):
        why = f"malformed result: contents is {said(contents)}, not a list of objects"
        raise BadAnswer(phase, why)
    return [{**item, "type": str(item.get("mimeType", ""))} for item in contents]


def _messages(result: Mapping[str, Any], phase: str) -> list[Mapping[str, Any]]:
    """The blocks of a prompt's messages."""
    messages = result.get("messages")
    if not isinstance(messages, list) or not all(
        isinstance(item, dict) and isinstance(item.get("content"), dict) for item in messages
    ):
        why = f"malformed result: messages is {said(messages)}, not a list of objects with a content each"
        raise BadAnswer(phase, why)
    return [item["content"] for item in messages]


def _tool_call(table: Table) -> ToolCall:
    tool = table.text("tool")
    if not tool:
        table.fail("tool", "which tool is to be called?")
    return ToolCall(
        name=table.text("name"),
        tool=tool,
        args=table.mapping("args") or {},
        expectation=Expectation.read(table),
        timeout=table.seconds("timeout"),
    )


def _resource_read(table: Table) -> Fetch:
    uri = table.text("uri")
    if not uri:
        table.fail("uri", "which resource is to be read?")
    return _fetch(table, f"resource_read:{uri}", "resources/read", {"uri": uri})


def _prompt_get(table: Table) -> Fetch:
    prompt = table.text("prompt")
    if not prompt:
        table.fail("prompt", "which prompt is to be asked for?")
    given = table.mapping("args") or {}
    args = {key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}
    params = {"name": prompt, **({"arguments": args} if args else {})}
    return _fetch(table, f"prompt_get:{prompt}", "prompts/get", params)


def _fetch(table: Table, label: str, method: str, params: Mapping[str, object]) -> Fetch:
    wants = Expectation.read(table)
    if wants.outcome == "tool_error" or wants.schema == DECLARED:
        key = "expect" if wants.outcome == "tool_error" else "schema"
        table.fail(key, "only a tool has that; resources and prompts answer or are refused (protocol_error)")
    return Fetch(table.text("name"), label, method, params, wants, table.seconds("timeout"))


READERS: dict[str, Callable[[Table], Check]] = {
    "tool_call": _tool_call,
    "resource_read": _resource_read,
    "prompt_get": _prompt_get,
}
