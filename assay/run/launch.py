"""What is started in the agent's container: the entry's launch line with its blanks filled in, and its files."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from assay.model.errors import UsageError
from assay.model.registry import Agent
from assay.run.job import Job
from assay.sandbox import archive
from assay.sandbox.archive import Put
from assay.sandbox.fence import AT_ONCE

HOME = "/home/agent"
PLACE = "/opt/assay"
PROMPT = f"{PLACE}/prompt"
CA = f"{PLACE}/ca.pem"
UID = 1000

ROOT_CAPS = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
"""Docker's default capabilities less NET_RAW, which would send frames past the fence; only for `user = "root"`."""


@dataclass(frozen=True, slots=True)
class Start:
    """A container's command line, environment and files, before any credential.

    Attributes:
        argv: Including our launcher.
        session: The CLI's session id where Assay chose it.
    """

    argv: list[str]
    env: Mapping[str, str | None]
    files: list[Put]
    blanks: Mapping[str, str]
    user: str
    caps: tuple[str, ...]
    stop_signal: str
    session: str | None
    secret_input: bool


def plan(job: Job, *, ca_pem: bytes | None, offline: bool) -> Start:
    """Fill in a job's launch line.

    Args:
        job: What is to run.
        ca_pem: Certificates that the agent is to trust beside its own; None for none.
        offline: Whether the vendor's own web tools are to be off.
    """
    entry, root = job.choice.entry, job.task.settings.user == "root"
    uid = 0 if root else UID
    workdir = job.task.settings.workdir
    blanks = {
        "model": job.choice.model or "",
        "effort": job.choice.effort or "",
        "session": _session(job),
        "workdir": workdir,
        "workdir_dashed": re.sub(r"[^A-Za-z0-9]", "-", workdir),
        "home": HOME,
        "prompt_file": PROMPT,
        "version": entry.version if entry is not None else "",
    }
    user = "root" if root else "agent"
    env: dict[str, str | None] = {
        **job.images.env,
        "HOME": HOME,
        "USER": user,
        "LANG": "C.UTF-8",
        **job.task.settings.env,
    }
    if offline:
        env |= AT_ONCE
    if entry is None:
        argv, stdin_prompt, extra = _built_in(job), False, dict[str, str]()
    else:
        argv, extra, vendor_env = _vendor(entry, job, offline=offline, root=root)
        stdin_prompt = entry.launch.prompt == "stdin"
        env |= {name: fill(value, blanks) for name, value in vendor_env.items()}
        if ca_pem is not None:
            env |= dict.fromkeys(entry.launch.ca_env, CA)
    argv = [fill(part, blanks) for part in argv]
    secret_input = bool(job.held.names)
    prompt = job.prompt
    if entry is not None and entry.launch.prompt_form:
        prompt = entry.launch.prompt_form.replace("{prompt_json}", json.dumps(prompt))
    files = [
        Put(PLACE),
        Put(f"{PLACE}/launch", (resources.files("assay.sandbox") / "launch.sh").read_bytes(), 0o755),
        Put(PROMPT, prompt.encode(), 0o644),
        *([Put(CA, ca_pem, 0o644)] if ca_pem is not None else []),
        *_home({path: fill(text, blanks) for path, text in extra.items()}, uid),
    ]
    return Start(
        argv=[f"{PLACE}/launch", "stdin" if secret_input else "none", PROMPT if stdin_prompt else "-", "--", *argv],
        env=env,
        files=files,
        blanks=blanks,
        user=f"{uid}:{uid}",
        caps=ROOT_CAPS if root else (),
        stop_signal=entry.launch.stop if entry is not None else "TERM",
        session=blanks["session"] or None,
        secret_input=secret_input,
    )


def _session(job: Job) -> str:
    """The session's id as far as it is known before the start."""
    entry, earlier = job.choice.entry, job.earlier
    if entry is None:
        return ""
    if earlier is not None and earlier.kept:
        return earlier.record.session or ""
    return str(uuid.uuid4()) if entry.launch.session == "given" else ""


def _vendor(entry: Agent, job: Job, *, offline: bool, root: bool) -> tuple[list[str], dict[str, str], dict[str, str]]:
    launch = entry.launch
    argv = [
        *(launch.resume if job.earlier is not None and job.earlier.kept else launch.run),
        *job.choice.effort_arguments,
        *(launch.offline if offline else ()),
    ]
    rehearsal = entry.rehearsal.files if entry.rehearsal is not None and job.script is not None else {}
    files = {**launch.files, **(launch.offline_files if offline else {}), **rehearsal}
    env = {**launch.env, **(launch.offline_env if offline else {}), **(launch.root_env if root else {})}
    return argv, files, env


def _built_in(job: Job) -> list[str]:
    if job.choice.agent == "nop":
        return ["true"]
    if job.choice.agent == "script":
        if job.command is None:
            msg = "the agent script needs --command: what it runs with sh -c"
            raise UsageError(msg)
        return ["sh", "-c", job.command]
    return ["sh", "-c", '[ -x "$0" ] && exec "$0"; exec sh "$0"', f"{PLACE}/solution/solve.sh"]


_BLANK = re.compile(r"\{(model|effort|session|workdir|workdir_dashed|home|prompt_file|version)\}")


def fill(text: str, blanks: Mapping[str, str]) -> str:
    """Fill in the known placeholders; any other brace (JSON, say) stays as it is."""
    return _BLANK.sub(lambda found: blanks[found[1]], text)


def _home(files: Mapping[str, str], uid: int) -> list[Put]:
    """Files below the agent's home, with every folder on the way in the agent's name."""
    made = {HOME: Put(HOME, owner=uid, mode=0o755)}
    for path, text in sorted(files.items()):
        full = path.replace("~", HOME, 1)
        parts = full.split("/")
        for depth in range(len(HOME.split("/")) + 1, len(parts)):
            folder = "/".join(parts[:depth])
            made.setdefault(folder, Put(folder, owner=uid, mode=0o755))
        made[full] = Put(full, text.encode(), 0o644, uid)
    return list(made.values())


def placed(job: Job) -> list[bytes]:
    """What is put into the container before it starts: `given`, unless a snapshot holds it already."""
    return [] if job.earlier is not None and job.earlier.record.snapshot else given(job)


def given(job: Job) -> list[bytes]:
    """The tar stream of what the agent is given: working directory, input files, and for the oracle its solution."""
    uid = 0 if job.task.settings.user == "root" else UID
    workdir = job.folder.strip("/")
    parents = [Put(workdir[:i]) for i, c in enumerate(workdir) if c == "/" and not f"/{workdir[:i]}".startswith(HOME)]
    parts = [*archive.members(parents)]
    if job.task.files is not None:
        parts += archive.pack_tree(job.task.files, workdir, uid)
    parts += archive.members([Put(workdir, owner=uid)])
    if job.choice.agent == "oracle" and job.task.solution is not None:
        parts += archive.pack_tree(job.task.solution, f"{PLACE}/solution", uid)
    return parts


END = archive.END


def members(start: Start) -> list[bytes]:
    """The tar stream of the launcher, the prompt and the entry's files."""
    return list(archive.members(start.files))
