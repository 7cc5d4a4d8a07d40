"""Which credential a run uses, and how it gets into the container without leaving a trace.

Values are copied in over the launcher's standard input, never mounted, never in a container's configuration.
Only names are ever shown.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from assay.model.errors import CredentialMissing
from assay.model.registry import Agent, Credential
from assay.model.units import show_duration, show_moment
from assay.sandbox import credential_file

CLOCK_SKEW = 60.0
"""Seconds by which a sign-in must outlast a run."""


@dataclass(frozen=True, slots=True)
class Held:
    """A credential in hand.

    Attributes:
        env: Variables to export in the container.
        files: Path below the agent's home (`~/...`) to content.
        secrets: Values that must not be kept anywhere.
        source: The entry's way it came from; None for a placeholder.
        home: Where the user's own files are.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    source: Credential | None = None
    home: Path | None = None

    @property
    def names(self) -> list[str]:
        """What may be shown: names of variables and files."""
        return [*self.env, *self.files]

    def hosts(self, agent: Agent) -> list[str]:
        """What an agent with this credential must be able to reach."""
        return [*agent.hosts, *(self.source.hosts if self.source is not None else ())]

    @property
    def shared(self) -> Path | None:
        """The user's own file, where a renewal of it goes back: two runs must never use it at once."""
        if self.source is None or self.source.refresh != "copy-back" or self.source.file is None or self.home is None:
            return None
        return _host_path(self.home, self.source.file)

    def header(self, home: str) -> bytes:
        """The lines that the launcher reads."""
        lines = [f"E {name} {_b64(value.encode('utf-8', 'surrogateescape'))}" for name, value in self.env.items()]
        lines += [f"F {path.replace('~', home, 1)} 600 {_b64(data)}" for path, data in self.files.items()]
        return "\n".join([*lines, ".", ""]).encode()


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def choose(name: str, agent: Agent, environ: Mapping[str, str], home: Path, lasts: float | None = None) -> Held:
    """The first of the entry's credentials that is there and can be used.

    Args:
        name: The agent's.
        agent: Its entry.
        environ: The user's environment.
        home: The user's home.
        lasts: Seconds that it must go on to work; None for one that is in use already, expired or not.

    Raises:
        CredentialMissing: There is none; the message names what was looked for, and what is wrong with what is there.
    """
    problems = []
    for way in agent.credentials:
        # What ends a line is no part of a credential, and the launcher would drop it.
        if way.env is not None and (value := environ.get(way.env, "").strip()):
            return Held(env={way.env: value}, secrets=(value,), source=way)
        if way.file is not None and (data := _read(home, way.file)):
            problem = _problem(way, data, lasts)
            if problem is None:
                return _held(way, data, home)
            problems.append(f"{way.file} {problem}")
    rehearse = " (or use --rehearse, which needs none)" if agent.rehearsed else ""
    if problems:
        others = " or ".join(way.env for way in agent.credentials if way.env)
        remedy = f"use {agent.title} on this machine, which may renew it, or sign in again"
        remedy += f", or set {others}" if others else ""
        msg = f"{name}: {'; '.join(problems)}: {remedy}{rehearse}"
    else:
        msg = f"{name}: no credential found: {ways_in(agent)}{rehearse}"
    raise CredentialMissing(msg)


def ways_in(agent: Agent) -> str:
    """What a person does so that an agent has a credential."""
    ways = [f"set {way.env}" for way in agent.credentials if way.env]
    files = [way.file for way in agent.credentials if way.file]
    if files:
        ways.append(f"sign in with {agent.title} on this machine ({', '.join(files)})")
    return " or ".join(ways) or "its entry in agents.toml names none"


def again(held: Held) -> Held:
    """The same credential as its file has it now: another run may have renewed it.

    Raises:
        CredentialMissing: The file is gone, or signs in to nothing any more.
    """
    way, home = held.source, held.home
    if way is None or way.file is None or home is None:
        return held
    data = _read(home, way.file)
    problem = _problem(way, data, None) if data else "is gone"
    if problem is not None:
        msg = f"{way.file} {problem}: sign in again on this machine"
        raise CredentialMissing(msg)
    return _held(way, data, home)


def renewed(held: Held, secrets: list[str]) -> Held:
    """The same credential, with further values that must not be kept."""
    return replace(held, secrets=tuple(dict.fromkeys((*held.secrets, *secrets))))


def _held(way: Credential, data: bytes, home: Path) -> Held:
    secrets = tuple(credential_file.secret_values(data))
    return Held(files={way.file or "": data}, secrets=secrets, source=way, home=home)


def _host_path(home: Path, file: str) -> Path:
    return home / file.removeprefix("~/")


def _read(home: Path, file: str) -> bytes:
    """What a credential file holds; nothing where it is not there, or is too long to be one."""
    try:
        with _host_path(home, file).open("rb") as opened:
            data = opened.read(credential_file.LONGEST + 1)
    except OSError:
        return b""
    return data if data.strip() and len(data) <= credential_file.LONGEST else b""


def _problem(way: Credential, data: bytes, lasts: float | None) -> str | None:
    """Why a file cannot be used; None if it can."""
    if not way.needs and way.expires is None:
        return None
    tree = credential_file.parsed(data)
    for path in way.needs:
        found = credential_file.find(tree, path)
        if not any(isinstance(value, str) and value.strip() for value in found):
            return f"holds no sign-in ({path} is missing or empty)"
    if way.expires is None or lasts is None or way.refresh == "copy-back":
        return None
    now = datetime.now(UTC)
    for value in credential_file.find(tree, way.expires):
        ends = credential_file.moment(value)
        if ends is not None and ends <= now:
            return f"has expired at {show_moment(ends, dated=True)}"
        if ends is not None and ends < now + timedelta(seconds=lasts + CLOCK_SKEW):
            return f"expires at {show_moment(ends, dated=True)}, before a run of {show_duration(round(lasts))} is over"
    return None
