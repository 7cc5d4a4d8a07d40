"""What stands in a CLI's credential file, and whether a renewed one may replace the user's own. Pure.

The second of two files compared here comes out of a container: its agent may have written anything in it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

LONGEST = 64 * 1024
"""A larger file is none."""

SECRET_WORDS = ("token", "key", "secret", "password", "credential")
SHORTEST_SECRET = 8
MOST_SECRETS = 32

SHORTEST_RENEWED = 16

_TOKEN = re.compile(rf"[A-Za-z0-9._~+/=:|-]{{{SHORTEST_RENEWED},}}")
"""What a token looks like that is taken from an agent's hand: one that names a word or a line of text would have that
struck out of the record."""

_MILLISECONDS_FROM = 1e11
"""Seconds reach this in the year 5138, milliseconds did in 1973."""


def parsed(data: bytes) -> Any:
    """The file as JSON; None if it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def find(tree: Any, dotted: str) -> list[Any]:
    """What stands at a dotted path; `*` is any one key."""
    found = [tree]
    for key in dotted.split("."):
        tables = [node for node in found if isinstance(node, dict)]
        found = [
            value
            for table in tables
            for value in (table.values() if key == "*" else [table[key]] if key in table else [])
        ]
    return found


def moment(value: object) -> datetime | None:
    """Seconds or milliseconds since 1970, or RFC 3339, as a time; None where it is none."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value >= _MILLISECONDS_FROM else value, UTC)
        if isinstance(value, str):
            # Some write nanoseconds.
            at = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", value))
            return at if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def secret_values(data: bytes) -> Iterator[str]:
    """The secret values in a credential file: of JSON, texts under keys that say so; else every long line."""
    tree = parsed(data)
    if tree is None:
        for line in data.decode("utf-8", "replace").splitlines():
            value = line.partition("=")[2].strip().strip("\"'") or line.strip()
            if len(value) >= 12:
                yield value
        return
    for _, value in _secrets(tree):
        if len(value) >= SHORTEST_SECRET:
            yield value


def renewed_values(data: bytes) -> list[str]:
    """The secret values in a file from a container, as far as they look like tokens."""
    return [value for _, value in _secrets(parsed(data)) if _TOKEN.fullmatch(value)][:MOST_SECRETS]


def refusal(old: bytes, new: bytes, account: str | None) -> str | None:
    """Why a renewed file is not taken back; None if it may be.

    Args:
        old: The file that was copied in.
        new: The file as the container has it.
        account: Dotted path to what names the account.
    """
    before, after = parsed(old), parsed(new)
    if not isinstance(before, dict) or not isinstance(after, dict):
        return "it is no JSON table"
    if _shape(before) != _shape(after):
        return "it has another shape"
    if account is not None and find(before, account) != find(after, account):
        return "it names another account"
    was, tokens = dict(_secrets(before)), dict(_secrets(after))
    if not all(tokens.get(path, "").strip() for path, value in was.items() if value.strip()):
        return "it has empty tokens"
    if tokens == was:
        return "its tokens are the old ones"
    if _goes_back(before, after):
        return "it is older than the one that was copied in"
    return None


def _secrets(tree: Any) -> list[tuple[str, str]]:
    """Path and value of each text whose key says that it is a secret."""
    return [
        (path, value)
        for path, value in _leaves(tree)
        if isinstance(value, str) and any(word in path.rpartition(".")[2].lower() for word in SECRET_WORDS)
    ]


def _leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    stack: list[tuple[str, Any]] = [("", tree)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, dict):
            stack += [(f"{path}.{key}", value) for key, value in node.items()]
        elif isinstance(node, list):
            stack += [(path, value) for value in node]
        else:
            yield path, node


def _shape(tree: Any) -> list[tuple[str, str]]:
    """Paths and kinds of all values, whatever their order."""
    kinds = {bool: "boolean", int: "number", float: "number", str: "text", type(None): "nothing"}
    return sorted((path, kinds[type(value)]) for path, value in _leaves(tree))


def _goes_back(before: Any, after: Any) -> bool:
    """Whether a time in the file, or one in a token, is earlier than it was."""
    times = {path: at for path, value in _leaves(before) if (at := _time(path, value))}
    return any(
        at < times[path] for path, value in _leaves(after) if path in times and (at := _time(path, value)) is not None
    )


def _time(path: str, value: object) -> datetime | None:
    if any(word in path.rpartition(".")[2].lower() for word in SECRET_WORDS):
        return _ends(value)
    at = moment(value)
    return at if at is not None and at.year >= 2000 else None


def _ends(value: object) -> datetime | None:
    """When a JSON web token says that it ends; unchecked."""
    parts = value.split(".") if isinstance(value, str) else []
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    return moment(claims.get("exp")) if isinstance(claims, dict) else None
