"""The folder list is the architecture: imports go down only, and each room keeps to what it may touch."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project import REPOSITORY

PACKAGE = REPOSITORY / "assay"
FLOORS = [
    {"cli"},
    {"commands"},
    {"stage"},
    {"run"},
    {"rehearsal"},
    {"sandbox", "decoders", "suite", "terminal"},
    {"model"},
]
LEVEL = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
DOORS = {"__init__", "__main__"}
"""The package's own face: it may name the door and hand out the public API."""

INSIDE_CONTAINERS = ("run/checker_files/", "sandbox/fence_image/", "rehearsal/server.py")
"""Programs that run in a container of their own, where nothing of ours can be imported."""

OUTSIDE = {
    "docker": {"sandbox"},
    "requests": {"sandbox"},
    "click": {"cli", "commands"},
    "rich": {"terminal"},
    "pytest": {"suite", "run"},
}
"""Packages that only these rooms may import; `pytest` in `run` is the report of a hidden checker."""

OUTWARD = {"subprocess", "socket", "http", "urllib", "urllib3", "sqlite3", "asyncio"}
PURE = {"model", "decoders"}
"""Plain data and pure generators: they reach for nothing outside."""


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def sources() -> list[Path]:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 20
    return files


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every import, those inside functions and those for types alone included."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom):
            package = file.relative_to(REPOSITORY).parent.parts
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module or "") if part)
            for name in node.names:
                yield node.lineno, f"{module}.{name.name}"


def test_every_room_has_its_floor() -> None:
    assert {room_of(file) for file in sources()} <= set(LEVEL) | DOORS


def test_imports_go_down_only() -> None:
    wrong = []
    for file in sources():
        room = room_of(file)
        for line, name in imports(file):
            target = [*name.split("."), ""][1] if name.split(".")[0] == "assay" else ""
            if room in DOORS or target in ("", room) or target not in LEVEL:
                continue
            if LEVEL[target] <= LEVEL[room]:
                wrong.append(f"{file.relative_to(REPOSITORY)}:{line}: {room} may not import {name}")
    assert wrong == []


def test_each_room_keeps_to_what_it_may_touch() -> None:
    wrong = []
    for file in sources():
        for line, name in imports(file):
            rooms = OUTSIDE.get(name.split(".")[0])
            if rooms is not None and room_of(file) not in rooms | DOORS:
                wrong.append(f"{file.relative_to(REPOSITORY)}:{line}: only {sorted(rooms)} may import {name}")
            if room_of(file) in PURE and name.split(".")[0] in OUTWARD:
                wrong.append(f"{file.relative_to(REPOSITORY)}:{line}: {room_of(file)} may not import {name}")
    assert wrong == []


def calls(*names: str, allowed: set[str]) -> list[str]:
    """Places outside the allowed rooms where one of these is called."""
    return [
        f"{file.relative_to(REPOSITORY)}:{node.lineno}: {ast.unparse(node.func)}"
        for file in sources()
        if room_of(file) not in allowed | DOORS and not any(part in str(file) for part in INSIDE_CONTAINERS)
        for node in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names
    ]


def test_only_commands_end_the_process() -> None:
    assert calls("sys.exit", "exit", "quit", "os._exit", allowed={"cli", "commands"}) == []


def test_only_the_terminal_prints() -> None:
    rooms = {"cli", "commands", "terminal"}
    assert calls("print", "click.echo", "sys.stdout.write", "sys.stderr.write", allowed=rooms) == []


VENDORS = re.compile(r"(?i)\b(claude|codex|grok|antigravity|agy|opencode)\b")
MAY_NAME_VENDORS = {"decoders", "rehearsal"}


def wordings(tree: ast.Module) -> Iterator[ast.AST]:
    """Texts that only people read: docstrings, and the examples in a command's help."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("EXAMPLES", "EPILOG"):
            yield from ast.walk(node.value)


def test_code_knows_no_vendor() -> None:
    """Outside decoders, the stand-ins' protocols and agents.toml, no value in the code names a vendor's CLI."""
    wrong = []
    for file in sources():
        if room_of(file) in MAY_NAME_VENDORS:
            continue
        tree = ast.parse(file.read_bytes())
        words = {id(node) for node in wordings(tree)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in words:
                continue
            if found := VENDORS.search(node.value):
                wrong.append(f"{file.relative_to(REPOSITORY)}:{node.lineno}: {found[0]}")
    assert wrong == []


def tracked() -> list[Path]:
    names = subprocess.run(
        ["git", "-C", REPOSITORY, "ls-files", "-z"], capture_output=True, check=True, text=True
    ).stdout.split("\0")
    return [REPOSITORY / name for name in names if name]


FORBIDDEN = [
    "registry." + "npmjs",
    "npmjs." + "org",
    "pypi." + "org",
    "python" + "hosted",
    "registry-1." + "docker",
    "/work" + "/",
    "/tmp/" + "setup",
]
"""Hosts of package registries and paths of one machine: settings of whoever runs this, never of the program."""

RECORDINGS = REPOSITORY / "tests" / "data"


def test_no_registry_host_and_no_machine_path() -> None:
    wrong = []
    for file in tracked():
        if file.is_relative_to(RECORDINGS) or not file.is_file():
            continue
        text = file.read_bytes().decode("utf-8", "replace")
        wrong += [f"{file.relative_to(REPOSITORY)}: {word}" for word in FORBIDDEN if word in text]
    assert wrong == []


@pytest.mark.parametrize("heavy", ["docker", "pydantic", "structlog", "rich", "cryptography", "requests", "trustme"])
def test_the_door_is_light(heavy: str, loaded_by_help: set[str]) -> None:
    assert heavy not in loaded_by_help


@pytest.fixture(scope="module")
def loaded_by_help() -> set[str]:
    """Top modules that `assay --help` loads."""
    from tests.project import COMMAND

    done = subprocess.run(
        [COMMAND.with_name("python"), "-X", "importtime", COMMAND, "--help"], capture_output=True, text=True, check=True
    )
    assert "Usage" in done.stdout
    return {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
