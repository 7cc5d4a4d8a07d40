"""A task folder: prompt, input files, hidden checker, solution, environment, settings.

tasks/foo/
  prompt.md              required
  files/                 becomes the working directory
  checker/               hidden; check.sh, check.py or pytest files; its own Dockerfile if need be
  solution/solve.sh      what the `oracle` agent runs
  Dockerfile             the environment (or `image` in task.toml)
  task.toml              settings
  rehearsal.toml         script of the stand-in, rehearsal/<model>.toml for one model
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import Field, field_validator

from assay.model.digest import digest_of
from assay.model.errors import ConfigError, UsageError, did_you_mean
from assay.model.fields import Cpus, Disk, Duration, EnvName, EnvValue, ImageName, Memory, OwnEnvName, Pids
from assay.model.table import Table
from assay.model.toml import read_toml, validate

PARTS = ("prompt.md", "files", "checker", "solution", "Dockerfile", "task.toml", "rehearsal.toml", "rehearsal")
LONGEST_PROMPT = 4 << 20
SLASH_COMMAND = re.compile(r"/[A-Za-z][A-Za-z0-9_:-]*")


class CheckerSettings(Table):
    """`[checker]` of task.toml: the clock and the limits of the container that grades."""

    timeout: Duration = 300
    """Beyond it the verdict is checker-error. Default: 5m."""
    cpus: Cpus | None = None
    """Default: as the agent's."""
    memory: Memory | None = None
    """Default: as the agent's."""
    pids: Pids | None = None
    """Default: as the agent's."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Set for the checker only."""


class TaskSettings(Table):
    """task.toml; what it leaves out comes from `[defaults]` of assay.toml."""

    timeout: Duration | None = None
    """How long the agent may work; a result, not an error, when it is over."""
    stall: Duration | None = None
    """No output for this long ends the run as stalled."""
    cpus: Cpus | None = None
    """CPUs the agent may use, fractions allowed."""
    memory: Memory | None = None
    """Memory the agent may use."""
    pids: Pids | None = None
    """Processes and threads the agent may have at once."""
    disk: Disk | None = None
    """Bytes the agent may write."""
    internet: bool | None = None
    """Whether the agent may reach the internet, not only its own API."""
    image: ImageName | None = None
    """Image of the environment, instead of a Dockerfile."""
    env: dict[OwnEnvName, EnvValue] = Field(default_factory=dict)
    """Variables set for the agent and the checker."""
    workdir: str = "/app"
    """Where files/ is put and the agent starts."""
    user: Literal["agent", "root"] = "agent"
    """Whom the agent runs as; unprivileged unless `root`."""
    checker: CheckerSettings = CheckerSettings()
    """The container that grades."""

    @field_validator("workdir")
    @classmethod
    def _own_folder(cls, value: str) -> str:
        path = PurePosixPath(value)
        if not path.is_absolute() or ".." in path.parts or not value.isprintable():
            msg = f"{value!r} is not an absolute path without '..' and control characters; write something like /app"
            raise ValueError(msg)
        if len(path.parts) < 2 or path.parts[1] in _SYSTEM or str(path) in _SYSTEM_FOLDERS:
            msg = f"{value!r} belongs to the system and would be overlaid; write something like /app"
            raise ValueError(msg)
        return str(path)


_SYSTEM = ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin", "sys")
_SYSTEM_FOLDERS = (
    *("/home", "/home/agent", "/mnt", "/opt", "/opt/assay", "/srv", "/tmp", "/usr", "/var", "/var/tmp"),  # noqa: S108
    *(f"/usr/{name}" for name in ("bin", "include", "lib", "lib64", "libexec", "local", "sbin", "share", "src")),
)


@dataclass(frozen=True, slots=True)
class Checker:
    """The hidden tests of a task.

    Attributes:
        path: The folder.
        kind: `sh` and `py` are run as they are, `pytest` by our own pytest command line.
        tests: For pytest: the test files, relative to the folder.
        dockerfile: Its own environment, None for the task's.
    """

    path: Path
    kind: Literal["sh", "py", "pytest"]
    tests: tuple[str, ...] = ()
    dockerfile: Path | None = None

    @property
    def script(self) -> Path | None:
        """check.sh or check.py; None for pytest."""
        return None if self.kind == "pytest" else self.path / f"check.{self.kind}"


@dataclass(frozen=True)
class Task:
    """One task, validated. Paths are absolute; what is not there is None."""

    path: Path
    prompt: str
    settings: TaskSettings
    files: Path | None = None
    checker: Checker | None = None
    solution: Path | None = None
    dockerfile: Path | None = None
    rehearsal: Path | None = None
    rehearsals: tuple[tuple[str, Path], ...] = ()

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    @cached_property
    def digest(self) -> str:
        """sha256, in hex, over all that defines the task; solution and rehearsal scripts do not.

        Raises:
            ConfigError: A file cannot be read or is no regular file, directory or link.
        """
        settings = self.settings.model_dump_json(exclude_defaults=True)
        paths = [self.path / name for name in ("prompt.md", "files", "checker", "Dockerfile")]
        return digest_of(settings.encode(), paths)

    def rehearsal_for(self, model: str | None) -> Path | None:
        """The rehearsal script for a model: its own, else the one for all, else None."""
        return dict(self.rehearsals).get(model or "", self.rehearsal)


def load_task(path: Path) -> Task:
    """Read and check a task folder.

    Raises:
        UsageError: The path is not there, is a file, or holds no task.
        ConfigError: Something in the folder is wrong.
    """
    root = _task_folder(path)
    present = {entry.name for entry in root.iterdir()}
    _refuse_near_misses(path, present)
    for name in ("files", "checker", "solution", "rehearsal"):
        if name in present and not (root / name).is_dir():
            raise ConfigError(path / name, "", "must be a folder, it is not one")

    def part(name: str) -> Path | None:
        return root / name if name in present else None

    settings = TaskSettings()
    if "task.toml" in present:
        settings = validate(TaskSettings, read_toml(path / "task.toml"), path / "task.toml")
    if settings.image is not None and "Dockerfile" in present:
        raise ConfigError(path / "task.toml", "image", "given beside a Dockerfile, which would be ignored; keep one")
    scripts = sorted((root / "rehearsal").rglob("*.toml")) if "rehearsal" in present else []
    return Task(
        path=root,
        prompt=_read_prompt(path),
        settings=settings,
        files=part("files"),
        checker=_find_checker(path, root) if "checker" in present else None,
        solution=_find_solution(path, root) if "solution" in present else None,
        dockerfile=part("Dockerfile"),
        rehearsal=part("rehearsal.toml"),
        rehearsals=tuple((s.relative_to(root / "rehearsal").with_suffix("").as_posix(), s) for s in scripts),
    )


def _task_folder(path: Path) -> Path:
    try:
        if path.is_dir():
            if any(path.iterdir()) and (path / "prompt.md").exists():
                return path.resolve()
            msg = f"{path}: no task: it has no prompt.md, which is the one file that a task needs"
            raise UsageError(msg)
        if path.exists():
            msg = f"{path}: a task is a folder with a prompt.md, this is a file"
            raise UsageError(msg)
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    except (OSError, ValueError) as error:
        msg = f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"
        raise UsageError(msg) from None
    msg = f"{path}: no such task{did_you_mean(path.name, siblings)}"
    raise UsageError(msg)


def _refuse_near_misses(path: Path, present: set[str]) -> None:
    """`checkers/` for `checker/` would be ignored in silence, and nothing could pass."""
    missing = [name for name in PARTS if name not in present]
    for name in sorted(present.difference(PARTS)):
        for wanted in missing:
            if name.lower() == wanted.lower() or name.rstrip("s") == wanted.rstrip("s"):
                raise ConfigError(
                    path / name, "", f"not a part of a task, it would have been ignored; call it {wanted!r}"
                )


def _read_prompt(path: Path) -> str:
    file = path / "prompt.md"
    try:
        # A device or a fifo never ends, or never begins.
        if not stat.S_ISREG(file.stat().st_mode):
            raise ConfigError(file, "", "is no regular file; write what the agent is to do into one")
        if file.stat().st_size > LONGEST_PROMPT:
            problem = f"larger than {LONGEST_PROMPT >> 20} MiB, more than a model takes; put data into files/"
            raise ConfigError(file, "", problem)
        prompt = file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(file, "", f"not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(file, "", f"cannot be read: {(error.strerror or str(error)).lower()}") from None
    words = prompt.strip()
    if not words:
        raise ConfigError(file, "", "empty; write what the agent is to do")
    if "\0" in words:
        raise ConfigError(file, "", "holds a NUL byte, at which a CLI may stop reading; take it out")
    if SLASH_COMMAND.fullmatch(words):
        problem = f"{words!r} is exactly a slash command: a CLI would run it itself and ask no model; write a sentence"
        raise ConfigError(file, "", problem)
    return prompt


def _find_checker(path: Path, root: Path) -> Checker:
    folder = root / "checker"
    shown = path / "checker"
    tests = sorted(p for pattern in ("test_*.py", "*_test.py") for p in folder.rglob(pattern) if p.is_file())
    scripts = [kind for kind in ("sh", "py") if (folder / f"check.{kind}").exists()]
    top = [p.name for p in tests if p.parent == folder]
    dockerfile = folder / "Dockerfile"
    if len(scripts) == 2:
        raise ConfigError(shown, "", "has both check.sh and check.py, so which one decides is open; keep one")
    if scripts and top:
        problem = f"has check.{scripts[0]} and {top[0]}, so which one decides is open; keep one, or move the tests"
        raise ConfigError(shown, "", f"{problem} that check.{scripts[0]} runs into a folder below")
    if not scripts and not tests:
        raise ConfigError(shown, "", "holds no checker; write check.sh, check.py or pytest files (test_*.py)")
    found = dockerfile if dockerfile.exists() else None
    if scripts:
        return Checker(folder, "sh" if scripts[0] == "sh" else "py", (), found)
    names = tuple(sorted({p.relative_to(folder).as_posix() for p in tests}))
    return Checker(folder, "pytest", names, found)


def _find_solution(path: Path, root: Path) -> Path:
    if not (root / "solution" / "solve.sh").is_file():
        raise ConfigError(path / "solution", "", "has no solve.sh, which the oracle agent runs; write it")
    return root / "solution"
