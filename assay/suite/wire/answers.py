"""Answers of a server as plain data, and what in them breaks the protocol."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.suite.patterns import Undecided
from assay.suite.schema import schema_problem, value_problem
from assay.suite.wire.faults import BadAnswer, RpcError

Blame = Callable[[str], BadAnswer]


@dataclass(slots=True)
class Listing:
    """A list, all its pages together.

    Attributes:
        items: Every entry that is an object, well-formed or not.
        entries: How many entries there were, objects or not.
        pages: How many pages it had.
        endless: Why the list was not followed to an end; "" if it was.
        problems: Entries that break the protocol.
    """

    items: list[Mapping[str, Any]] = field(default_factory=list)
    entries: int = 0
    pages: int = 0
    endless: str = ""
    problems: list[str] = field(default_factory=list)

    def names(self, key: str = "name") -> list[str]:
        """What the entries are called, in order, repetitions included."""
        return [item[key] for item in self.items if isinstance(item.get(key), str)]

    def named(self, name: str) -> Mapping[str, Any] | None:
        """The first entry of a name."""
        return next((item for item in self.items if item.get("name") == name), None)

    def repeated(self) -> list[str]:
        """Names that stand in the list more than once."""
        return [name for name, count in Counter(self.names()).items() if count > 1]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool call, a resource or a prompt gave.

    Attributes:
        blocks: Content blocks as they came.
        structured: `structuredContent`; None when there is none.
        is_error: Whether the tool said that it failed.
        refused: The JSON-RPC error, when there was one instead of a result.
        seconds: From sending the request to having the whole answer.
    """

    blocks: tuple[Mapping[str, Any], ...] = ()
    structured: object = None
    is_error: bool = False
    refused: RpcError | None = None
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """All text blocks joined with nothing between; a refusal's message."""
        if self.refused is not None:
            return self.refused.message
        return "".join(block["text"] for block in self.blocks if isinstance(block.get("text"), str))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The blocks' types, in order."""
        return tuple(str(block.get("type", "")) for block in self.blocks)

    def data(self) -> object:
        """The structured content, or else the text read as JSON.

        Raises:
            ValueError: There is no structured content and the text is no JSON.
        """
        if self.structured is not None:
            return self.structured
        try:
            return json.loads(self.text)
        except RecursionError:
            msg = "nested too deeply"
            raise ValueError(msg) from None

    def breaks(self, schema: object, end: float | None = None, *, patterns: bool = True) -> str:
        """How the answer breaks its tool's output schema; "" if it does not (an error need not obey it).

        Args:
            schema: A stranger's.
            end: The monotonic time by which there must be an answer.
            patterns: Whether the schema's patterns may be matched.

        Raises:
            Undecided: It could not be told.
        """
        if not isinstance(schema, dict) or self.is_error or self.refused is not None:
            return ""
        if self.structured is None:
            return "the tool declares an output schema, but the answer has no structuredContent"
        if problem := schema_problem(schema, end):
            return f"the tool's output schema is none: {problem}"
        problem = value_problem(self.structured, schema, end, patterns=patterns)
        return f"structuredContent breaks the tool's output schema: {problem}" if problem else ""


def read_page(listing: Listing, page: Mapping[str, Any], key: str, blame: Blame, end: float) -> str | None:
    """Add a page to a listing; returns the cursor of the next one, None at the end.

    Schemas that could not be looked at by `end`, a monotonic time, are among the problems.
    """
    items = page.get(key)
    if not isinstance(items, list):
        why = f"malformed result: {key} is {said(items)}, not a list"
        raise blame(why)
    listing.pages += 1
    for number, item in enumerate(items, listing.entries + 1):
        if not isinstance(item, dict):
            listing.problems.append(f"entry {number} is {said(item)}, not an object")
            continue
        listing.items.append(item)
        if problem := _entry_problem(item, key, end):
            listing.problems.append(f"entry {number} ({item.get('name', 'no name')}): {problem}")
    listing.entries += len(items)
    cursor = page.get("nextCursor")
    if cursor is not None and not isinstance(cursor, str):
        why = f"malformed result: nextCursor is {said(cursor)}, not a text"
        raise blame(why)
    return cursor


def _entry_problem(item: Mapping[str, Any], key: str, end: float) -> str:
    if not isinstance(item.get("name"), str) or not item["name"]:
        return "has no name"
    if key == "resources" and not isinstance(item.get("uri"), str):
        return "has no uri"
    if key == "resourceTemplates" and not isinstance(item.get("uriTemplate"), str):
        return "has no uriTemplate"
    if key != "tools":
        return ""
    if "inputSchema" not in item:
        return "has no inputSchema"
    for name in ("inputSchema", "outputSchema"):
        if name in item and (problem := _root_problem(item[name], end)):
            return f"{name} {problem}"
    return ""


def _root_problem(schema: object, end: float) -> str:
    if not isinstance(schema, dict):
        return f"is {said(schema)}, not an object"
    if schema.get("type") != "object":
        return f'must have type "object", not {said(schema.get("type"))}'
    try:
        return schema_problem(schema, end)
    except Undecided:
        return "takes too long to look at"


def read_answer(result: Mapping[str, Any], seconds: float, blame: Blame, key: str = "content") -> Answer:
    """A tool's answer of its result; raises what `blame` makes of a malformed one."""
    blocks = result.get(key)
    if not isinstance(blocks, list):
        why = f"malformed result: {key} is {said(blocks)}, not a list"
        raise blame(why)
    for number, block in enumerate(blocks, 1):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            why = f"malformed result: block {number} of {key} is {said(block)}, not an object with a type"
            raise blame(why)
    failed = result.get("isError", False)
    if not isinstance(failed, bool):
        why = f"malformed result: isError is {said(failed)}, not true or false"
        raise blame(why)
    return Answer(tuple(blocks), result.get("structuredContent"), failed, None, seconds)


def said(value: object) -> str:
    """A value that a server sent, for a message: short, on one line, safe for a terminal."""
    if value is None:
        return "missing"
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 80 else f"{text[:77]}…"
