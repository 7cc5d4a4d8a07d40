"""A container, before it is one: what a run asks for, and how the engine is told.

Apart from the client, whose import costs more than all else that a refusal needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.model.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from docker import APIClient

LABEL = "assay"
"""Every container, image, volume and network of ours carries this label."""

HUGE_LOG = {"max-size": "1000g"}
"""Rotation would lose output, and `-1` is refused by the engine at start (20.10)."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A container to create; only what is said here differs from a closed default.

    Attributes:
        image: Image id or name.
        argv: The whole command line; the image's entrypoint is never used.
        env: Added to the image's own variables; None takes one of those away.
        network: `none`, `bridge`, or `container:<id>`.
        caps: Capabilities added after dropping all.
        hosts: Extra lines of /etc/hosts, name to address.
        tmpfs: Mount point to options.
        volumes: Mount point to (volume name, `ro` or `rw`).
        stdin: Keep standard input open for one client.
        memory: In bytes; also the limit with swap.
        storage: In bytes, held by the engine where its storage driver has quotas (overlay over xfs with pquota, btrfs,
            zfs); elsewhere it is nobody's.
    """

    image: str
    argv: Sequence[str]
    name: str
    labels: Mapping[str, str]
    user: str = "0:0"
    workdir: str = "/"
    env: Mapping[str, str | None] = field(default_factory=dict)
    network: str = "none"
    caps: Sequence[str] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)
    dns: Sequence[str] = ()
    dns_options: Sequence[str] = ()
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    stdin: bool = False
    cpus: float | None = None
    memory: int | None = None
    pids: int | None = None
    storage: int | None = None
    seccomp: str | None = None
    init: bool = True
    sysctls: Mapping[str, str] = field(default_factory=dict)
    stop_signal: str | None = None


@dataclass(frozen=True, slots=True)
class Stat:
    """What stands at a path in a container; `mode` in Go's bits, as the engine sends it."""

    mode: int
    size: int
    link: str

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory itself, not a link to one."""
        return bool(self.mode >> 31 & 1)


class NotThere(EngineError):
    """There is nothing at that path in the container."""


def container_config(api: APIClient, spec: Spec) -> dict[str, Any]:
    """The engine's own words for a container; everything is closed that the spec does not open."""
    security = ["no-new-privileges:true"]
    if spec.seccomp:
        security.append(f"seccomp={spec.seccomp}")
    host = api.create_host_config(
        init=spec.init,
        network_mode=spec.network,
        cap_drop=["ALL"],
        cap_add=list(spec.caps) or None,
        security_opt=security,
        extra_hosts=dict(spec.hosts) or None,
        dns=list(spec.dns) or None,
        dns_opt=list(spec.dns_options) or None,
        tmpfs=dict(spec.tmpfs) or None,
        binds={name: {"bind": path, "mode": mode} for path, (name, mode) in spec.volumes.items()} or None,
        nano_cpus=int(spec.cpus * 1e9) if spec.cpus else None,
        mem_limit=spec.memory,
        memswap_limit=spec.memory,
        pids_limit=spec.pids,
        storage_opt={"size": str(spec.storage)} if spec.storage else None,
        sysctls=dict(spec.sysctls) or None,
        restart_policy={"Name": "no"},
        log_config={"Type": "json-file", "Config": HUGE_LOG},
    )
    config: dict[str, Any] = api.create_container_config(
        spec.image,
        list(spec.argv),
        user=spec.user,
        working_dir=spec.workdir,
        environment=dict(spec.env),
        labels={LABEL: "1", **spec.labels},
        entrypoint=[],
        stdin_open=spec.stdin,
        healthcheck={"test": ["NONE"]},
        stop_signal=spec.stop_signal or "SIGTERM",
        host_config=host,
    )
    if spec.stdin:
        config["StdinOnce"] = True
        config["AttachStdin"] = True
    return config
