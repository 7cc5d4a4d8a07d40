from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.project import REPOSITORY

SCHEMAS = REPOSITORY / "assay" / "model" / "schemas"
Faults = Callable[[str, dict[str, Any]], list[str]]


@pytest.fixture(scope="module")
def faults() -> Faults:
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

    def check(kind: str, data: dict[str, Any]) -> list[str]:
        schema = json.loads((SCHEMAS / f"{kind}.schema.json").read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(schema)
        return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(data)]

    return check


def test_schemas_are_current() -> None:
    done = subprocess.run(
        [sys.executable, REPOSITORY / "scripts" / "schemas", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


FILES = [
    *(
        ("assay", file)
        for file in [REPOSITORY / "assay.toml", *REPOSITORY.glob("assay/commands/init_files/assay.toml")]
    ),
    ("agents", REPOSITORY / "agents.toml"),
    *(("task", file) for file in REPOSITORY.glob("tasks/*/task.toml")),
    *(("rehearsal", file) for file in REPOSITORY.glob("tasks/*/rehearsal.toml")),
    *(("rehearsal", file) for file in REPOSITORY.glob("tasks/*/rehearsal/**/*.toml")),
]


@pytest.mark.parametrize(("kind", "file"), FILES, ids=lambda value: str(value).removeprefix(f"{REPOSITORY}/"))
def test_our_own_files_fit_their_schema(faults: Faults, kind: str, file: Path) -> None:
    assert faults(kind, tomllib.loads(file.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("task", "timout = 5"),
        ("task", "timeout = '5x'"),
        ("task", "memory = '2 apples'"),
        ("task", "[checker]\ncpus = 0"),
        ("assay", "[stage.s]\nrungs = []"),
        ("assay", "[stage.s]\nrungs = [{ model = 'x' }]"),
        ("assay", "[fence]\nmode = 'open'"),
        ("agents", "[agents.x]\ntitle = 'x'"),
        ("rehearsal", "[[turn]]\ntxt = 'x'"),
    ],
)
def test_what_is_wrong_does_not_fit(faults: Faults, kind: str, text: str) -> None:
    assert faults(kind, tomllib.loads(text))
