"""`assay mcp init`: a suite made from what a live server offers and answers. No model, no key."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from assay.suite.checks.lists import digest
from assay.suite.examples_of import arguments_for
from assay.suite.patterns import Undecided
from assay.suite.schema import schema_problem
from assay.suite.wire.answers import Answer
from assay.suite.wire.faults import RpcError
from assay.suite.wire.session import Session
from assay.suite.wire.transport import Server
from assay.suite.write import holds_null, suite_text

_LONGEST, _TELLING = 2000, 12
"""Characters of an answer that a suite is worth pinning to; of a variable whose value must not be written down."""


@dataclass(frozen=True, slots=True)
class Written:
    """A suite's text, what was found but is no part of it, and the server's name."""

    text: str
    findings: list[str]
    server: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """A call that was made, and what came back."""

    tool: Mapping[str, Any]
    args: dict[str, object]
    answer: Answer


def write_mcp_suite(server: Server, open_session: Callable[[], Session], *, writes: bool = False) -> Written:
    """A suite that the server passes now.

    Only tools that the server marks as read-only are called: with made-up arguments in two sessions, and once without
    what they require. An answer is pinned only if both sessions got the same one.

    Args:
        server: What sessions are opened with.
        open_session: Opens one.
        writes: Call the other tools too.

    Raises:
        WireFault: The server is gone, silent, or breaks the protocol.
        RpcError: It does not list its tools.
    """
    with open_session() as session:
        tools = session.list_all("tools/list")
        findings = [f"tools/list: {problem}" for problem in tools.problems]
        findings += [f"tools/list: {name} is listed more than once" for name in tools.repeated()]
        checks: list[dict[str, object]] = [_pins(tools.items)]
        if not findings:
            checks.append({"type": "valid_schemas"})
        checks += _offers(session)
        chosen = [tool for tool in tools.items if isinstance(tool.get("name"), str) and (writes or _reads_only(tool))]
        left_out = [name for name in tools.names() if all(tool["name"] != name for tool in chosen)]
        seen = [made for tool in chosen if (made := _call(session, tool, findings)) is not None]
        refusals = [check for tool in chosen for check in _without_arguments(session, tool, findings)]
        info, stray = session.info, session.stray
    with open_session() as session:
        checks += [_observed(made, session.call(str(made.tool["name"]), made.args)) for made in seen]
    checks += refusals
    if left_out:
        findings.append(f"not called, for they are not marked read-only (--include-writes): {', '.join(left_out)}")
    if stray.count:
        findings.append(f"{stray.count} stray lines on standard output, first: {stray.samples[0]}")
    elif server.command:
        checks.append({"type": "clean_stdout"})
    about = f"{info.name or 'a server'} {info.version}".strip()
    remarks = [f"A suite for {about} (MCP {info.protocol}), made by `assay mcp init`.", "Arguments are made up."]
    data = {"threshold": 1.0, "server": _server_table(server), "checks": checks}
    return Written(suite_text(data, remarks), findings, info.name)


def _server_table(server: Server) -> dict[str, object]:
    return {"url": server.url} if server.url else {"command": list(server.command)}


def _pins(tools: list[Mapping[str, Any]]) -> dict[str, object]:
    names = [tool["name"] for tool in tools if isinstance(tool.get("name"), str)]
    pins = {tool["name"]: digest(tool) for tool in tools if isinstance(tool.get("name"), str)}
    return {"name": "offers these tools", "type": "tools_list", "exact_tools": names, "schemas": pins}


def _offers(session: Session) -> list[dict[str, object]]:
    """Lists of resources and prompts, where the server has any."""
    out: list[dict[str, object]] = []
    for noun, method, key in (("resources", "resources/list", "uri"), ("prompts", "prompts/list", "name")):
        if noun not in session.info.capabilities:
            continue
        try:
            names = session.list_all(method).names(key)
        except RpcError:
            continue
        if names:
            out.append({"name": f"offers these {noun}", "type": f"{noun}_list", f"exact_{noun}": names})
    return out


def _reads_only(tool: Mapping[str, Any]) -> bool:
    marks = tool.get("annotations")
    return isinstance(marks, Mapping) and marks.get("readOnlyHint") is True


def _call(session: Session, tool: Mapping[str, Any], findings: list[str]) -> _Seen | None:
    """Call a tool with made-up arguments; None where none could be made up."""
    schema = tool.get("inputSchema")
    args = arguments_for(schema) if isinstance(schema, Mapping) and _is_schema(schema) else None
    if args is None or holds_null(args):
        findings.append(
            f"{tool['name']}: no arguments could be made up for its input schema; write a tool_call yourself"
        )
        return None
    return _Seen(tool, args, session.call(tool["name"], args))


def _is_schema(schema: object) -> bool:
    try:
        return not schema_problem(schema)
    except Undecided:
        return False


def _obeys(answer: Answer, schema: object) -> bool:
    try:
        return schema is not None and not answer.breaks(schema)
    except Undecided:
        return False


def _without_arguments(session: Session, tool: Mapping[str, Any], findings: list[str]) -> list[dict[str, object]]:
    """A check that a tool refuses a call without what it requires, if it does."""
    schema, name = tool.get("inputSchema"), tool["name"]
    required = schema.get("required") if isinstance(schema, Mapping) else None
    if not isinstance(required, list) or not required:
        return []
    answer = session.call(name, {})
    if answer.is_error or answer.refused is not None:
        return [{"name": f"{name} refuses missing arguments", "type": "tool_call", "tool": name, "expect": "error"}]
    findings.append(f"{name}: accepts a call without {', '.join(map(str, required))}, which it requires")
    return []


def _observed(seen: _Seen, second: Answer) -> dict[str, object]:
    """A check that both answers pass, as exact as they are alike."""
    first, name = seen.answer, seen.tool["name"]
    check: dict[str, object] = {"type": "tool_call", "tool": name, "args": seen.args}
    if first.refused is not None or first.is_error:
        return {"name": f"{name} refuses made-up arguments", **check, "expect": "error"}
    check = {"name": f"{name} answers", **check, "expect": "ok"}
    if first.kinds == second.kinds:
        check["result_types"] = list(first.kinds)
    if first.text == second.text and _worth_pinning(first.text):
        check["result_equals"] = first.text
    if _obeys(first, seen.tool.get("outputSchema")):
        check["schema"] = "declared"
    return check


def _worth_pinning(text: str) -> bool:
    """Whether a text may go into a file: not empty or long, no date of today, nothing from the environment."""
    if not text.strip() or len(text) > _LONGEST or "\r" in text or f"{datetime.now(UTC):%Y-%m-%d}" in text:
        return False
    return not any(len(value) >= _TELLING and value in text for value in os.environ.values())
