"""The scripts that set a checkout up, run for real: their steps in a container, and quickstart as a whole."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay.sandbox.engine import Engine
from assay.sandbox.images import Builder
from assay.sandbox.spec import Spec
from tests.project import REPOSITORY, clean_environment

SCRIPTS = ("scripts/quickstart", "scripts/test", "scripts/lock", "scripts/lib.sh", ".ci/run")
SET_UP = ("scripts/lib.sh", "requirements.txt", "pyproject.toml")


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_is_valid_and_can_be_run(name: str) -> None:
    subprocess.run(["bash", "-n", str(REPOSITORY / name)], check=True)
    assert name.endswith(".sh") or os.access(REPOSITORY / name, os.X_OK)


@pytest.mark.parametrize("name", ["scripts/bench", "scripts/picture", "scripts/schemas"])
def test_python_script_says_what_it_does(name: str) -> None:
    argv = [sys.executable, str(REPOSITORY / name), "--help"]
    assert os.access(REPOSITORY / name, os.X_OK)
    assert "usage: " in subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_requirements_are_pinned_with_hashes_and_name_no_place(name: str) -> None:
    text = (REPOSITORY / name).read_text()
    assert not re.search(r"https?:|file:|^\s*-[fi]\b|^\s*--(index|extra|find|trusted)", text, re.MULTILINE)
    pins = re.findall(
        r"^([a-z0-9][a-z0-9._-]*)==\S+(?: ;.*?)? \\\n((?:    --hash=sha256:[0-9a-f]{64}.*\n)+)", text, re.MULTILINE
    )
    lines = re.findall(r"^[a-z].*", text, re.MULTILINE)
    assert len(pins) == len(lines)
    wanted = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    needs = wanted["project"]["dependencies"] + (wanted["dependency-groups"]["dev"] if "dev" in name else [])
    names = {re.split(r"[<>=!~;\[ ]", need)[0].lower().replace("_", "-") for need in needs}
    assert names <= {pin for pin, _ in pins}, "run scripts/lock"


def test_both_requirements_pin_the_same_versions() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^[a-z]\S+==\S+", (REPOSITORY / name).read_text(), re.MULTILINE))

    assert pins("requirements.txt") < pins("requirements-dev.txt")


def shell(commands: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run commands after sourcing the shared steps."""
    program = f"set -euo pipefail\n. {REPOSITORY}/scripts/lib.sh\n{commands}\n"
    merged = {**os.environ, **env}
    return subprocess.run(["bash", "-c", program], cwd=cwd, env=merged, capture_output=True, text=True, check=False)


def test_stale_pid_files_go_and_a_living_one_stays(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name, content in (("gone", str(gone.pid)), ("other", str(os.getpid())), ("empty", "")):
        (tmp_path / name).write_text(content)
    shell("for f in gone other empty; do drop_stale_pid $f dockerd; done", tmp_path)
    assert list(tmp_path.iterdir()) == []
    living = subprocess.Popen(["sleep", "60"])
    try:
        (tmp_path / "living").write_text(f"{living.pid}\n")
        shell("drop_stale_pid living sleep", tmp_path)
        assert (tmp_path / "living").exists()
    finally:
        living.kill()
        living.wait()


def test_a_python_that_is_too_old_is_not_taken(tmp_path: Path) -> None:
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    found = shell("find_python", tmp_path, PYTHON=str(old)).stdout.strip()
    assert found
    assert found != str(old)


def test_an_engine_that_was_named_is_not_started_here(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    outcome = shell("ensure_engine", tmp_path, DOCKER_HOST="unix:///nowhere.sock", PYTHONPATH=str(REPOSITORY))
    assert outcome.returncode == 1
    assert "no Docker Engine answers at DOCKER_HOST (unix:///nowhere.sock)" in outcome.stderr
    assert "start it there, or unset DOCKER_HOST" in outcome.stderr


Machine = Callable[[str, str], tuple[int, str]]


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A Debian machine with Python and without python3-venv; runs commands in a folder with the set-up's files."""
    from assay.sandbox.archive import Put, pack

    engine = Engine.connect()
    image = Builder(engine).environment().id
    made = engine.create(
        Spec(
            image,
            ["sleep", "600"],
            "",
            {},
            network="bridge",
            caps=["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"],
        )
    )
    try:
        files = [Put(f"/checkout/{name}", (REPOSITORY / name).read_bytes(), 0o644, 0) for name in SET_UP]
        engine.put(made, pack(files))
        engine.start(made)

        def run(commands: str, user: str) -> tuple[int, str]:
            script = f"cd /checkout && set -euo pipefail && . scripts/lib.sh && {commands}"
            code, out = engine.run_in(made, ["bash", "-c", script], user=user)
            return code, out.decode()

        yield run
    finally:
        engine.remove(made)


@pytest.mark.docker
def test_without_venv_a_user_is_told_what_root_must_do(machine: Machine) -> None:
    code, said = machine("ensure_venv requirements.txt", "1000:1000")
    assert code == 1
    assert "cannot make a virtual environment" in said
    assert "as root: apt-get install python3.11-venv" in said


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_without_venv_root_installs_it_and_a_second_time_nothing(machine: Machine) -> None:
    # What the requirements bring is quickstart's test below; without any, the package itself cannot be installed.
    attempt = "printf '' >none.txt; (ensure_venv none.txt) || true; .venv/bin/python -m pip --version"
    code, said = machine(attempt, "0:0")
    assert code == 0, said
    assert "installing python3.11-venv" in said
    assert "pip 2" in said
    code, said = machine(attempt, "0:0")
    assert code == 0, said
    assert "installing python3" not in said


@pytest.mark.docker
@pytest.mark.cli
@pytest.mark.timeout(900)
def test_quickstart_of_a_fresh_copy(tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, listed):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, copy / name, follow_symlinks=False)
    env = {**os.environ, **clean_environment(tmp_path)}
    for name in ("VIRTUAL_ENV", "PYTHONPATH"):
        env.pop(name, None)
    for _ in range(2):
        outcome = subprocess.run(
            ["scripts/quickstart"], cwd=copy, env=env, capture_output=True, text=True, timeout=400, check=False
        )
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        assert "→ Bash" in outcome.stdout
        assert "· success" in outcome.stdout
    assert "it is complete" in outcome.stdout
    runs = sorted((copy / "runs").glob("*/run.toml"))
    assert len(runs) == 2
    record = tomllib.loads(runs[-1].read_text())
    assert (record["agent"], record["cli_version"], record["ending"]) == ("claude", "2.1.332", "finished")
    assert record["verdict"] == "pass"
