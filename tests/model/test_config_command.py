"""`assay config`, and what is refused before anything starts, through the real command."""

from __future__ import annotations

import pytest

from tests.conftest import MakeProject
from tests.project import REPOSITORY

LADDER = """
[defaults]
timeout = "10m"
[stage.climb]
rungs = [{ agent = "nop" }, { agent = "claude", effort = "high", timeout = "1h" }]
"""


def test_every_value_with_its_origin(project: MakeProject) -> None:
    here = project({"assay.toml": LADDER})
    done = here.run("config", "--explain", env={"ASSAY_MEMORY": "1GiB"}).assert_code(0)
    lines = dict(line.split("#", 1) for line in done.out.splitlines())
    shown = {key.strip(): origin.strip() for key, origin in lines.items()}
    assert shown['defaults.timeout = "10m"'] == "file assay.toml"
    assert shown['defaults.memory = "1GiB"'] == "environment ASSAY_MEMORY"
    assert shown["defaults.jobs = 4"] == "default"
    assert shown['stage.climb.rungs[1].timeout = "1h"'] == "file assay.toml"
    assert shown["defaults.stage is not set"] == "default"


def test_without_explain_only_what_is_set(project: MakeProject) -> None:
    done = project({"assay.toml": LADDER}).run("config").assert_code(0)
    assert 'defaults.timeout = "10m"' in done.out.splitlines()
    assert "is not set" not in done.out


def test_as_json(project: MakeProject) -> None:
    here = project({"assay.toml": LADDER})
    about = here.run("config", "--json", env={"ASSAY_TIMOUT": "1s"}).assert_code(0).json()
    assert about["root"] == str(here.root)
    assert about["values"]["defaults.timeout"] == {"value": 600.0, "source": "file", "where": "assay.toml"}
    assert "ASSAY_TIMEOUT" in about["warnings"][0]


def test_for_one_task(project: MakeProject) -> None:
    here = project({"assay.toml": LADDER, "tasks/foo/prompt.md": "x", "tasks/foo/task.toml": 'memory = "1GiB"'})
    out = here.run("config", "tasks/foo", "--stage", "climb", "--explain").assert_code(0).out
    assert f"# task {here.root}/tasks/foo/task.toml" in next(line for line in out.splitlines() if "memory" in line)
    assert "# file assay.toml" in next(line for line in out.splitlines() if "timeout" in line)


def test_unlisted_models_are_told(project: MakeProject) -> None:
    here = project({"assay.toml": '[stage.s]\nrungs = [{ agent = "claude", model = "claude-opus-55" }]'})
    done = here.run("config").assert_code(0)
    assert "stage.s.rungs[0].model: claude does not list the model 'claude-opus-55' (did you mean" in done.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[defaults]\ntimeout =\n", ("assay.toml: line 2", "not valid TOML")),
        ("[defaults]\ntimout = 5\n", ("assay.toml: defaults.timout", "did you mean 'timeout'?")),
        ('[stage.s]\nrungs = [{ agent = "clade" }]', ("stage.s.rungs[0].agent", "did you mean 'claude'?")),
        ('[stage.s]\nrungs = [{ agent = "claude", effort = "hihg" }]', ("stage.s.rungs[0].effort", "'high'")),
    ],
)
def test_a_wrong_file_is_one_line(project: MakeProject, text: str, words: tuple[str, ...]) -> None:
    project({"assay.toml": text}).run("config").assert_refused(*words)


def test_a_wrong_agents_file_is_one_line(project: MakeProject) -> None:
    here = project({"agents.toml": '[agents.claude]\nverson = "1"'})
    here.run("config").assert_refused("agents.toml: agents.claude.verson", "did you mean 'version'?")


@pytest.mark.parametrize("kind", ["assay", "task", "agents", "rehearsal"])
def test_a_schema_needs_no_project(project: MakeProject, kind: str) -> None:
    """Not even one that can be read; it is the very one that our own files are held against."""
    out = project({"assay.toml": "broken ["}).run("config", "--schema", kind).assert_code(0)
    shipped = REPOSITORY / "assay" / "model" / "schemas" / f"{kind}.schema.json"
    assert out.out == shipped.read_text(encoding="utf-8")
    assert out.json()["type"] == "object"


def test_a_schema_of_something_else(project: MakeProject) -> None:
    project({}).run("config", "--schema", "tasks").assert_refused("--schema", "'tasks' is not one of", "'rehearsal'")
