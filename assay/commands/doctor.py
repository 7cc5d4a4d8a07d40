"""`assay doctor`: what Assay needs on this machine, whether it is there, and what to do where it is not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from assay.model.project import Project
    from assay.sandbox.engine import Engine

GIGABYTE = 10**9
DISK_NEEDED, DISK_WISHED = 2 * GIGABYTE, 10 * GIGABYTE
CLOCK_SECONDS = 30
MARKS = {"ok": "✓", "note": "·", "warning": "!", "fault": "✗"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: What was looked at.
        state: `ok`, `note` (worth knowing), `warning` (some runs will fail), `fault` (none can work).
        found: What was found.
        do: What to do about it.
    """

    check: str
    state: str
    found: str
    do: str = ""


EXAMPLES = """\b
Examples:
  assay doctor
  assay doctor --json | jq '.[] | select(.state != "ok")'"""


@click.command("doctor", epilog=EXAMPLES)
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
def command(as_json: bool) -> int:
    """Check engine, group, base image, disk, clock, CA, proxy and credentials; say what to do.

    Credentials are looked for by name only. Exit 0 when runs can work, 2 when something must be mended first.
    """
    findings = list(_findings())
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
    else:
        from assay.terminal.sanitise import one_line

        for finding in findings:
            click.echo(f"{MARKS[finding.state]} {finding.check + ':':13} {one_line(finding.found)}")
            if finding.do:
                click.echo(f"  {'':13} → {one_line(finding.do)}")
    return 2 if any(finding.state == "fault" for finding in findings) else 0


def _findings() -> Iterator[Finding]:
    from assay.model.errors import AssayError
    from assay.model.project import find_project
    from assay.sandbox.engine import Engine

    project = None
    try:
        project = find_project()
        where = str(project.file) if project.file else "none here, the built-in values hold"
        yield Finding(
            "project", "ok" if project.file else "note", where, "" if project.file else "assay init writes one"
        )
    except AssayError as error:
        yield Finding("project", "fault", str(error), "mend the file")
    yield _group()
    engine = None
    try:
        engine = Engine.connect()
        yield from _engine(engine)
    except AssayError as error:
        yield Finding("engine", "fault", str(error), _how_to_start())
    if engine is not None and project is not None:
        yield from _images(engine, project)
    yield from _disk(engine, project)
    yield _authorities(project)
    yield from _proxy()
    if project is not None:
        yield from _credentials(project)


def _group() -> Finding:
    """Whether this user may use the engine's local socket."""
    import grp
    from pathlib import Path

    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not host.startswith("unix://"):
        return Finding("group", "ok", f"not needed: the engine is at {host}")
    path = Path(host.removeprefix("unix://"))
    if not path.exists():
        return Finding("group", "note", f"there is no {path} yet")
    if os.access(path, os.R_OK | os.W_OK):
        return Finding("group", "ok", f"{path} can be used by this user")
    try:
        group = grp.getgrgid(path.stat().st_gid).gr_name
    except KeyError:
        group = str(path.stat().st_gid)
    remedy = f"as root: usermod -aG {group} {os.environ.get('USER', 'YOUR-NAME')}, then sign in again"
    return Finding("group", "fault", f"{path} belongs to the group {group}, and this user is not in it", remedy)


def _how_to_start() -> str:
    import shutil

    if shutil.which("dockerd") is None:
        return "install a Docker Engine (Debian, Ubuntu, as root: apt-get install docker.io), or set DOCKER_HOST"
    return "as root: systemctl start docker, or without systemd: dockerd &"


def _engine(engine: Engine) -> Iterator[Finding]:
    from datetime import UTC, datetime

    version, info = engine.version(), engine.info()
    found = f"Docker {version.get('Version')}, API {version.get('ApiVersion')}, {info.get('Driver')}, "
    found += f"{info.get('NCPU')} CPUs, {int(info.get('MemTotal', 0)) / 2**30:.1f} GiB"
    if version.get("Os") != "linux":
        yield Finding("engine", "fault", found, "agents run in Linux containers: switch the engine to them")
    else:
        yield Finding("engine", "ok", found)
    missing = [key for key in ("MemoryLimit", "PidsLimit", "CpuCfsQuota") if info.get(key) is False]
    if missing:
        remedy = "runs are not held to such limits; enable these cgroup controllers on the engine's host"
        yield Finding("limits", "warning", f"the engine cannot enforce {', '.join(missing)}", remedy)
    theirs = _moment(str(info.get("SystemTime", "")))
    if theirs is not None:
        off = abs((datetime.now(UTC) - theirs).total_seconds())
        remedy = "set the clock on both hosts (NTP): certificates and reset times are judged by it"
        state = "ok" if off <= CLOCK_SECONDS else "warning"
        yield Finding("clock", state, f"{off:.0f} s apart from the engine's", "" if state == "ok" else remedy)


def _moment(text: str) -> Any:
    """An engine's time, which has nanoseconds; None if it is none."""
    import re
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _images(engine: Engine, project: Project) -> Iterator[Finding]:
    from assay.sandbox.images import Builder, NotBuilt

    base = project.defaults.base_image
    there = engine.image(base) is not None
    how = "assay build gets it: pulled, else, as root with debootstrap installed, made from Debian's packages"
    yield Finding(
        "base image", "ok" if there else "note", base if there else f"{base} is not there", "" if there else how
    )
    builder = Builder(engine, base=base, build=False)
    built, missing = [], []
    for name, agent in project.registry.agents.items():
        try:
            builder.for_agent(builder.environment(), name, agent)
            built.append(name)
        except NotBuilt:
            missing.append(name)
    found = f"built: {', '.join(built) or 'none'}" + (f"; not built: {', '.join(missing)}" if missing else "")
    yield Finding("agents", "ok" if built else "note", found, "" if built else "the first run builds what it needs")


def _disk(engine: Engine | None, project: Project | None) -> Iterator[Finding]:
    """Room where runs are kept, and where the engine keeps images if that is on this machine."""
    import shutil
    from pathlib import Path

    places = {"runs": project.root if project else Path.cwd()}
    if engine is not None:
        places["engine"] = Path(str(engine.info().get("DockerRootDir", "")))
    for name, path in places.items():
        if not path.is_dir():
            continue
        free = shutil.disk_usage(path).free
        state = "ok" if free >= DISK_WISHED else "warning" if free >= DISK_NEEDED else "fault"
        remedy = "make room (an agent's image takes about 1 GB; assay clean --images removes those not in use)"
        yield Finding(
            f"disk {name}", state, f"{free / GIGABYTE:.1f} GB free at {path}", "" if state == "ok" else remedy
        )


def _authorities(project: Project | None) -> Finding:
    from assay.sandbox.recipe import ca_bundle

    own = project.ca_bundle if project else None
    if own is not None and not own.is_file():
        return Finding("CA bundle", "fault", f"{own} is not there", "mend ca_bundle in assay.toml")
    system = ca_bundle()
    if system is None:
        remedy = "install ca-certificates, or set SSL_CERT_FILE"
        return Finding(
            "CA bundle", "warning", "none found on this machine; builds trust what their images bring", remedy
        )
    return Finding("CA bundle", "ok", f"{system} for builds" + (f", {own} for runs too" if own else ""))


def _proxy() -> Iterator[Finding]:
    from urllib.parse import urlsplit

    from assay.sandbox.recipe import PROXIES

    given = {name: os.environ[name] for name in PROXIES if os.environ.get(name)}
    if not given:
        yield Finding("proxy", "ok", "none set")
        return
    addresses = {name: value for name, value in given.items() if name.lower() != "no_proxy"}
    local = [name for name, value in addresses.items() if urlsplit(value).hostname in ("localhost", "127.0.0.1", "::1")]
    # The value may hold a password.
    found = f"builds use {', '.join(given)}, and real runs HTTPS_PROXY"
    if local:
        remedy = (
            f"{', '.join(local)} names this machine itself, which a build does not reach by that name: use its address"
        )
        yield Finding("proxy", "warning", found, remedy)
    else:
        yield Finding("proxy", "ok", found)


def _credentials(project: Project) -> Iterator[Finding]:
    from pathlib import Path

    from assay.model.errors import CredentialMissing
    from assay.sandbox.credentials import choose, ways_in

    for name, agent in project.registry.agents.items():
        if not agent.credentials:
            continue
        try:
            held = choose(name, agent, os.environ, Path.home())
            yield Finding(f"sign-in {name}", "ok", ", ".join(held.names))
        except CredentialMissing:
            found = "none found" + ("; rehearsals need none" if agent.rehearsed else "")
            yield Finding(f"sign-in {name}", "note", found, f"for real runs {ways_in(agent)}")
