"""What becomes of a credential file that the CLI renewed in its container.

The agent controls that file. It goes back to the user's machine only where the entry says `copy-back`, and only if it
is a regular file of the same shape and the same account, with newer tokens that are not empty, while the user's own
file is still the one that was copied in.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from assay.model.errors import EngineError
from assay.run.attempt import Attempt
from assay.run.launch import HOME
from assay.run.record import write_atomic
from assay.sandbox import archive
from assay.sandbox.archive import TarReader
from assay.sandbox.credentials import LONGEST_FILE, SECRET_WORDS, secret_values


def settle(attempt: Attempt, container: str) -> None:
    """Learn the secrets of renewed files, so that they are kept nowhere, and copy a file back where that is right."""
    held = attempt.job.held
    for path, given in held.files.items():
        found = _read(attempt, container, path)
        if found is None or found == given:
            continue
        attempt.redactor.know(secret_values(found))
        if held.source is None or held.source.refresh != "copy-back":
            continue
        problem = _refusal(given, found, held.source.account)
        home = Path.home() / path.removeprefix("~/")
        if problem is None and home.read_bytes() != given:
            problem = "the file on this machine has changed meanwhile"
        if problem is None:
            write_atomic(home, found, mode=0o600)
            attempt.say(f"{path} was renewed by the CLI and copied back")
        else:
            attempt.say(f"{path} was changed in the container and not copied back: {problem}")


def _read(attempt: Attempt, container: str, path: str) -> bytes | None:
    try:
        _, stream = attempt.engine.get(container, path.replace("~", HOME, 1))
        reader = TarReader(stream)
        for member in reader:
            if member.type == archive.REGULAR and member.size <= LONGEST_FILE:
                return b"".join(reader.content())
            return None
    except EngineError:
        return None
    return None


def _refusal(old: bytes, new: bytes, account: str | None) -> str | None:
    """Why a file is not taken back; None if it may be."""
    try:
        before, after = json.loads(old), json.loads(new)
    except ValueError:
        return "it is no JSON"
    if _shape(before) != _shape(after):
        return "it has another shape"
    if account is not None and _at(before, account) != _at(after, account):
        return "it names another account"
    tokens = dict(_tokens(after))
    if not tokens or not all(tokens.values()):
        return "it has empty tokens"
    if tokens == dict(_tokens(before)):
        return "its tokens are the old ones"
    return None


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return [_shape(item) for item in value]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _at(value: Any, dotted: str) -> Any:
    for key in dotted.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _tokens(value: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in _tokens(item, f"{path}.{key}")]
    last = path.rpartition(".")[2].lower()
    return [(path, value)] if isinstance(value, str) and any(word in last for word in SECRET_WORDS) else []
