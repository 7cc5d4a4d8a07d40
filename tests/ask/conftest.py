"""Small repositories to ask about."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from assay.sandbox import volumes
from assay.sandbox.engine import Engine

MakeRepository = Callable[..., Path]

IDENTITY = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


def git(folder: Path, *words: str) -> str:
    """Run git; its output."""
    env = {**os.environ, **IDENTITY}
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *words], cwd=folder, env=env, check=True, capture_output=True
    )
    return done.stdout.decode()


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def hash_of(folder: Path) -> str:
    """Everything in a folder: names, modes, times of change, links, contents."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        total.update(f"{path.relative_to(folder)} {state.st_mode} {state.st_mtime_ns} {state.st_ctime_ns}\n".encode())
        if path.is_symlink():
            total.update(os.fsencode(path.readlink()))
        elif path.is_file():
            total.update(path.read_bytes())
    return total.hexdigest()


def forget(engine: Engine, root: Path) -> None:
    """Remove from the engine what asks below a folder leave there on purpose: copies of repositories, snapshots."""
    for found in volumes.listed(engine, "assay.repository"):
        if Path(found["Labels"].get("assay.root", "/")).is_relative_to(root):
            volumes.remove(engine, found["Name"])
    for image in engine.api.images(filters={"label": ["assay.snapshot"]}):
        if Path(image["Labels"].get("assay.project", "/")).is_relative_to(root):
            engine.remove_image(image["Id"])


@pytest.fixture
def repository(tmp_path: Path) -> MakeRepository:
    """Make a git repository with these files, all of them committed."""

    def make(files: Mapping[str, str | bytes] | None = None, name: str = "sample") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        if files:
            write(folder, files)
            git(folder, "add", "-A", "-f")
            git(folder, "commit", "-q", "-m", "first")
        return folder

    return make
