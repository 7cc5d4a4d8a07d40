"""A credential that stays outside: in an `inject` fence the agent has a placeholder, and the gate puts the value in."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from assay.model.errors import UsageError
from assay.model.registry import Credential
from assay.run.job import Job
from assay.sandbox.credentials import Held
from assay.sandbox.fence_image.inject import Injection
from assay.sandbox.rules import INJECT
from assay.sandbox.trust import Authority

RANDOM = 20
"""Bytes of a placeholder that nobody can guess."""


@dataclass(frozen=True, slots=True)
class Outside:
    """A credential that does not enter the agent's container.

    Attributes:
        injection: For the gate.
        ca_pem: What the agent must trust to speak to the gate.
        held: For the agent: the same variable with a placeholder.
    """

    injection: Injection
    ca_pem: bytes
    held: Held


def checked(job: Job) -> Job:
    """The same job, if its fence can do with its credential what it is to do.

    Raises:
        UsageError: It is to keep a credential outside, and cannot.
    """
    entry = job.choice.entry
    if job.fence_mode != INJECT or entry is None or not job.held.names:
        return job
    where, other = 'fence.mode: "inject"', 'write mode = "sni" or "closed"'
    hosts = job.held.hosts(entry) if job.script is None else entry.hosts
    if hosts and _way(job) is not None:
        return job
    agent, names = job.choice.agent, ", ".join(job.held.names)
    able = " or ".join(way.env for way in entry.credentials if way.env and way.inject)
    if job.held.files:
        why = f"{names} is a file, which its CLI reads and renews itself"
    elif not hosts:
        why = "its entry has no hosts, so no request could carry it"
    else:
        why = f"its entry has no `inject` that says where {names} goes"
    remedy = f"set {able}, or {other}" if able and job.held.files else other
    msg = f"{where} cannot keep the credential of {agent} out of its container: {why}; {remedy}"
    raise UsageError(msg)


def outside(job: Job, hosts: Sequence[str], trust: bytes, *, public: bool) -> Outside | None:
    """What gate and agent get; None if this run has no credential that is to stay outside.

    Args:
        job: The run.
        hosts: Where requests may go.
        trust: Authorities that vouch for these hosts, in PEM.
        public: Whether the public ones do too.

    Raises:
        UsageError: The credential cannot be kept outside.
    """
    if job.fence_mode != INJECT or not job.held.names:
        return None
    way = _way(checked(job))
    if way is None or way.inject is None or way.env is None or not hosts:
        msg = f"the credential of {job.choice.agent} cannot be kept outside"
        raise UsageError(msg)
    authority = Authority(hosts)
    leaves = tuple((host, b"".join(authority.leaf([host])).decode()) for host in hosts)
    placeholder = way.inject.placeholder + secrets.token_hex(RANDOM)
    injection = Injection(
        placeholder,
        job.held.env[way.env],
        tuple(way.inject.headers),
        tuple(way.inject.paths),
        leaves,
        trust.decode("ascii", "replace"),
        public,
    )
    return Outside(injection, authority.pem, Held(env={way.env: placeholder}))


def _way(job: Job) -> Credential | None:
    """The entry's way to sign in that is in use, if it can be kept outside; a rehearsal's is known by its name."""
    entry, held = job.choice.entry, job.held
    if entry is None or held.files or len(held.env) != 1:
        return None
    ways = [held.source] if held.source is not None else [way for way in entry.credentials if way.env in held.env]
    return next((way for way in ways if way.inject is not None), None)
