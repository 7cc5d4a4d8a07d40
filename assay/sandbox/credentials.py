"""Which credential a run uses, and how it gets into the container without leaving a trace.

Values are copied in over the launcher's standard input, never mounted, never in a container's configuration.
Only names are ever shown.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from assay.model.errors import CredentialMissing
from assay.model.registry import Agent, Credential

LONGEST_FILE = 64 * 1024
"""A larger credential file is none."""

SECRET_WORDS = ("token", "key", "secret", "password", "credential")


@dataclass(frozen=True, slots=True)
class Held:
    """A credential in hand.

    Attributes:
        env: Variables to export in the container.
        files: Path below the agent's home (`~/...`) to content.
        secrets: Values that must not be kept anywhere.
        source: The entry's way it came from; None for a placeholder.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    source: Credential | None = None

    @property
    def names(self) -> list[str]:
        """What may be shown: names of variables and files."""
        return [*self.env, *self.files]

    def header(self, home: str) -> bytes:
        """The lines that the launcher reads."""
        lines = [f"E {name} {_b64(value.encode('utf-8', 'surrogateescape'))}" for name, value in self.env.items()]
        lines += [f"F {path.replace('~', home, 1)} 600 {_b64(data)}" for path, data in self.files.items()]
        return "\n".join([*lines, ".", ""]).encode()


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def choose(name: str, agent: Agent, environ: Mapping[str, str], home: Path) -> Held:
    """The first of the entry's credentials that is there.

    Raises:
        CredentialMissing: None is; the message names what was looked for.
    """
    for way in agent.credentials:
        if way.env is not None and environ.get(way.env, "").strip():
            value = environ[way.env]
            return Held(env={way.env: value}, secrets=(value,), source=way)
        if way.file is not None:
            path = home / way.file.removeprefix("~/")
            try:
                data = path.read_bytes()
            except OSError:
                continue
            if data.strip() and len(data) <= LONGEST_FILE:
                return Held(files={way.file: data}, secrets=tuple(secret_values(data)), source=way)
    ways = " or ".join(way.env or way.file or "?" for way in agent.credentials) or "nothing in its entry"
    msg = f"{name}: no credential found: set {ways} (or use --rehearse, which needs none)"
    raise CredentialMissing(msg)


def secret_values(data: bytes) -> Iterator[str]:
    """The secret values in a credential file: of JSON, texts under keys that say so; else every long line."""
    try:
        tree = json.loads(data)
    except ValueError:
        for line in data.decode("utf-8", "replace").splitlines():
            value = line.partition("=")[2].strip().strip("\"'") or line.strip()
            if len(value) >= 12:
                yield value
        return
    stack: list[tuple[str, object]] = [("", tree)]
    while stack:
        key, node = stack.pop()
        if isinstance(node, dict):
            stack += [(str(k), v) for k, v in node.items()]
        elif isinstance(node, list):
            stack += [(key, v) for v in node]
        elif isinstance(node, str) and len(node) >= 8 and any(word in key.lower() for word in SECRET_WORDS):
            yield node
