"""The message envelope that several vendors' streams share: content blocks, tool results, titles.

One line is one message, `{"type": "assistant" | "user", "message": {"content": [block, ...]}, ...}`; a block is text,
thinking, a tool call or a tool result. What differs between vendors (tool names, how a failure shows, what the last
line says) stays in their own files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from assay.decoders.lines import Record, items, obj, string
from assay.model.events import Event, Note, Text, Thinking, ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

TITLES = (
    "command",
    "file_path",
    "notebook_path",
    "path",
    "pattern",
    "query",
    "url",
    "description",
    "skill",
    "subject",
    "prompt",
)
"""Arguments that tell a reader most, the best first."""


def blocks(record: Record) -> list[Record]:
    """The content blocks of a message; a content that is a plain string is one text block."""
    message = record.get("message")
    content = message.get("content") if type(message) is dict else None
    if type(content) is list:
        return [block for block in content if type(block) is dict]
    return [{"type": "text", "text": content}] if isinstance(content, str) else []


def said(block: Record, actor: str = "", titles: Sequence[str] = TITLES) -> Event | None:
    """What a block of an assistant message is to a reader; None for an empty one."""
    match block.get("type"):
        case "text":
            text = string(block.get("text"))
            return Text(text, actor) if text else None
        case "tool_use":
            given = obj(block.get("input"))
            return ToolCall(string(block.get("name")), title(given, titles), string(block.get("id")), given, actor)
        case "thinking":
            text = string(block.get("thinking"))
            return Thinking(text, actor) if text else None
        case "redacted_thinking":
            return None
        case other:
            return Note(f"content block of unknown type {string(other)!r}", actor=actor)


def title(given: Record, titles: Sequence[str] = TITLES) -> str:
    """The one argument of a tool call that a reader wants to see; all of them where none is known by name."""
    for name in titles:
        value = given.get(name)
        if isinstance(value, str) and value:
            return value
    try:
        return orjson.dumps(given).decode() if given else ""
    except orjson.JSONEncodeError:
        # Nested beyond its limit, or a number beyond 64 bits.
        return "{…}"


def result_text(content: object) -> str:
    """The text of a tool result, whose content is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    parts = []
    for block in items(content):
        kind = string(obj(block).get("type"))
        parts.append(string(obj(block).get("text")) if kind == "text" else f"[{kind or 'unknown'}]")
    return "\n".join(parts)
