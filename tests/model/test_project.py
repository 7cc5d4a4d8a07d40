from __future__ import annotations

from pathlib import Path

import pytest

from assay.model.errors import ConfigError, Refused, UsageError
from assay.model.layers import Source
from assay.model.project import Project, find_project
from assay.model.task import load_task
from tests.project import REPOSITORY

AGENTS = """
[agents.cheap]
title = "Cheap"
version = "1"
decoder = "claude"
hosts = ["api.example.com"]
efforts = ["low", "high"]
default_model = "small-1"
models = { small-1 = {}, big-2 = {} }
[agents.cheap.install]
run = []
check = []
[agents.cheap.launch]
run = ["cheap"]
"""

LADDER = """
[defaults]
timeout = "10m"
[stage.climb]
stop_on_pass = true
runs = 2
rungs = [
  { agent = "cheap", effort = "low" },
  { agent = "cheap", model = "big-2", effort = "high", runs = 3, timeout = "1h" },
]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "agents.toml").write_text(AGENTS)
    (tmp_path / "assay.toml").write_text(LADDER)
    return tmp_path


def load(root: Path, *, flags: dict[str, object] | None = None, **environ: str) -> Project:
    return find_project(root, flags=flags, environ=environ)


def refused(root: Path, text: str) -> str:
    (root / "assay.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(root)
    assert caught.value.file == str(root / "assay.toml")
    return f"{caught.value.path}: {caught.value.problem}"


def test_the_nearest_file_upwards(root: Path) -> None:
    deep = root / "tasks" / "foo"
    deep.mkdir(parents=True)
    assert load(deep).root == root
    (deep / "assay.toml").write_text("")
    assert load(deep).root == deep
    assert load(deep).runs == deep / "runs"


def test_without_a_file_all_is_built_in(tmp_path: Path) -> None:
    project = load(tmp_path)
    assert (project.root, project.file, dict(project.stages)) == (tmp_path, None, {})
    assert project.defaults.timeout == 1800
    assert {origin.source for origin in project.origins.values()} == {Source.DEFAULT}


def test_rungs_are_filled_in(root: Path) -> None:
    first, second = load(root).rungs("climb")
    assert (first.number, first.choice.model, first.choice.effort, first.runs, first.timeout) == (
        1,
        "small-1",
        "low",
        2,
        None,
    )
    assert (second.number, second.choice.label, second.runs, second.timeout) == (2, "cheap big-2 high", 3, 3600)


def test_what_is_nearer_decides(root: Path) -> None:
    folder = root / "foo"
    folder.mkdir()
    (folder / "prompt.md").write_text("x")
    (folder / "task.toml").write_text('timeout = "20m"\ncpus = 2\ninternet = true\n')
    task = load_task(folder)
    project = load(root)

    def timeout(project: Project, *place: object) -> tuple[float, Source]:
        settings = project.settings(*place)  # type: ignore[arg-type]
        return settings.timeout, settings.origins["timeout"].source

    assert timeout(project) == (600, Source.FILE)
    assert timeout(project, task) == (1200, Source.TASK)
    assert timeout(project, task, "climb", 1) == (1200, Source.TASK)
    assert timeout(project, task, "climb", 2) == (3600, Source.FILE)
    assert timeout(load(root, ASSAY_TIMEOUT="5s"), task, "climb", 2) == (5, Source.ENVIRONMENT)
    assert timeout(load(root, flags={"timeout": "6s"}, ASSAY_TIMEOUT="5s"), task, "climb", 2) == (6, Source.FLAG)
    settings = project.settings(task)
    assert (settings.cpus, settings.internet, settings.pids, settings.stall) == (2, True, 1024, None)


def test_origins_name_the_place(root: Path) -> None:
    project = load(root, flags={"memory": "1GiB", "fence.mode": "sni", "jobs": None}, ASSAY_FENCE_BACKEND="legacy")
    shown = {path: str(origin) for path, origin in project.origins.items()}
    assert shown["defaults.timeout"] == "file assay.toml"
    assert shown["defaults.memory"] == "flag --memory"
    assert shown["defaults.jobs"] == "default"
    assert shown["fence.backend"] == "environment ASSAY_FENCE_BACKEND"
    assert shown["fence.mode"] == "flag --fence-mode"
    assert shown["stage.climb.runs"] == "file assay.toml"
    assert shown["stage.climb.rungs[0].model"] == "default"
    assert (project.defaults.memory, project.fence.mode, project.fence.backend) == (1 << 30, "sni", "legacy")


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("true", True), ("Yes", True), ("0", False), ("off", False), ("False", False)]
)
def test_yes_and_no_in_the_environment(root: Path, text: str, value: bool) -> None:
    assert load(root, ASSAY_INTERNET=text).defaults.internet is value


def test_other_types_in_the_environment(root: Path) -> None:
    project = load(root, ASSAY_JOBS="1", ASSAY_CPUS="1.5", ASSAY_DISK="3GB", ASSAY_MODEL="4", ASSAY_STAGE="")
    assert (project.defaults.jobs, project.defaults.cpus, project.defaults.disk) == (1, 1.5, 3 * 10**9)
    assert (project.defaults.model, project.defaults.stage) == ("4", None)


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("ASSAY_JOBS", "x", "ASSAY_JOBS: must be a whole number, not 'x'"),
        ("ASSAY_INTERNET", "maybe", "ASSAY_INTERNET: must be true or false, not 'maybe'"),
        ("ASSAY_TIMEOUT", "5x", "ASSAY_TIMEOUT: '5x' is not a duration"),
        ("ASSAY_STAGE", "clim", "ASSAY_STAGE: unknown stage 'clim' (did you mean 'climb'?)"),
        ("ASSAY_AGENT", "cheep", "ASSAY_AGENT: unknown agent 'cheep' (did you mean 'cheap'?)"),
        ("ASSAY_FENCE_MODE", "opn", "ASSAY_FENCE_MODE: 'opn' is not one of closed, sni, inject"),
    ],
)
def test_the_environment_is_checked_too(root: Path, variable: str, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(root, flags=None, **{variable: text})
    assert str(caught.value).startswith(message)


def test_a_misspelt_variable_is_told(root: Path) -> None:
    warnings = load(root, ASSAY_TIMOUT="5s", ASSAY_SCORE="x", OTHER="y").warnings
    assert warnings == ("ASSAY_TIMOUT in the environment is none of ours and ignored (did you mean ASSAY_TIMEOUT?)",)


def test_a_stage_that_is_not_there(root: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown stage 'climp' \(did you mean 'climb'\?\)"):
        load(root).stage("climp")
    with pytest.raises(UsageError, match="known stages: climb"):
        load(root).stage("zzz")


RUNG = '{ agent = "cheap" }'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[stage.s]\nrungs = [{ agent = "cheep" }]', "stage.s.rungs[0].agent: unknown agent 'cheep' (did you mean"),
        (
            f'[stage.s]\nrungs = [{RUNG}, {{ agent = "cheap", effort = "hgh" }}]',
            "stage.s.rungs[1].effort: unknown effort",
        ),
        (f"[stage.s]\nrungs = [{RUNG}, {RUNG}]", "stage.s.rungs[1]: the same as rungs[0] (cheap small-1)"),
        (f'[stage.s]\nrungs = [{RUNG}, {{ agent = "cheap", model = "small-1" }}]', "stage.s.rungs[1]: the same as"),
        (f"[stage.s]\nrungs = [{RUNG}, {{ agent = 'cheap', runs = 2 }}]", "stage.s.rungs[1]: the same as rungs[0]"),
        ("[stage.s]\nrungs = []", "stage.s.rungs: "),
        (f"[stage.s]\nrehearse = true\nrungs = [{RUNG}]", "stage.s.rungs[0].agent: cheap cannot be rehearsed"),
        (f"[stage.s]\nkind = 'ask'\nstop_on_pass = true\nrungs = [{RUNG}]", "stage.s: stop_on_pass means nothing"),
        (f"[stage.s]\nkind = 'ask'\nruns = 3\nrungs = [{RUNG}]", "stage.s: runs means nothing"),
        (f"[stage.s]\nkind = 'ask'\njobs = 1\nrungs = [{RUNG}]", "stage.s: jobs means nothing"),
        (f"[stage.s]\nkind = 'ask'\nbudget_usd = 5\nrungs = [{RUNG}]", "stage.s: budget_usd means nothing"),
        ("[stage.s]\nkind = 'ask'\nrungs = [{agent = 'cheap', runs = 2}]", "stage.s: rungs[0].runs means nothing"),
        ("[stage.s]\nrungs = [{ agent = 'script' }]", "stage.s.rungs[0].agent: script takes its command"),
        (f"[stage.s]\nbudget_usd = 0\nrungs = [{RUNG}]", "stage.s.budget_usd: should be greater than 0"),
        ('[defaults]\nstage = "none"', "defaults.stage: unknown stage 'none'"),
        ('[defaults]\nagent = "cheap"\neffort = "mid"', "defaults.effort: unknown effort 'mid'"),
        ('[defaults]\nagent = "zz"', "defaults.agent: unknown agent 'zz'"),
    ],
)
def test_refused_wherever_it_stands(root: Path, text: str, message: str) -> None:
    assert refused(root, text).startswith(message)


def test_an_unlisted_model_is_no_error(root: Path) -> None:
    (root / "assay.toml").write_text('[stage.s]\nrungs = [{ agent = "cheap", model = "big-3" }]')
    (rung,) = load(root).rungs("s")
    assert rung.choice.unlisted
    assert rung.choice.warning is not None


def test_an_ask_stage_has_the_internet_unless_told(root: Path) -> None:
    stage = f"[stage.ask]\nkind = 'ask'\nrungs = [{RUNG}]\n"
    (root / "assay.toml").write_text(stage)
    assert load(root).settings(None, "ask").internet
    assert not load(root, flags={"internet": False}).settings(None, "ask").internet
    assert not load(root, ASSAY_INTERNET="false").settings(None, "ask").internet
    (root / "assay.toml").write_text(f"[defaults]\ninternet = false\n{stage}")
    assert load(root).settings(None, "ask").internet, "what holds for every run is nothing that was said of asks"
    assert not load(root).settings().internet
    (root / "assay.toml").write_text(stage.replace("kind", "internet = false\nkind"))
    assert not load(root).settings(None, "ask").internet


def test_a_new_project_asks_with_the_internet() -> None:
    for file in (REPOSITORY / "assay.toml", REPOSITORY / "assay/commands/init_files/assay.toml"):
        project = load(file.parent)
        assert project.settings(None, "ask").internet
        assert not project.settings(None, "prune", 1).internet


def test_the_ca_bundle_is_found_from_where_it_was_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = root / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (root / "assay.toml").write_text('[defaults]\nca_bundle = "ca.pem"\n')
    assert load(elsewhere).ca_bundle == root / "ca.pem"
    assert load(elsewhere, ASSAY_CA_BUNDLE="ca.pem").ca_bundle == elsewhere / "ca.pem"
    assert load(elsewhere, ASSAY_CA_BUNDLE="/x/ca.pem").ca_bundle == Path("/x/ca.pem")


def test_files_are_named_from_here(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "assay.toml").write_text("x = 1")
    monkeypatch.chdir(root)
    with pytest.raises(Refused, match=r"^assay\.toml: x: unknown key"):
        load(root)


def test_the_repositorys_own_project() -> None:
    project = find_project(REPOSITORY, environ={})
    assert {"prune", "rehearse", "ask"} <= set(project.stages)
    assert project.stages["rehearse"].rehearse
    assert not any(rung.choice.warning for rung in project.rungs("rehearse"))
    assert project.stages["ask"].kind == "ask"


SEED = """
[stage.prune]
stop_on_pass = true
rungs = [
  { agent = "agy", model = "gemini-3.1-pro-high", effort = "high" },
  { agent = "grok", model = "grok-4.7", effort = "high" },
]
"""


def test_the_first_ladder_ever_written_loads_unchanged(tmp_path: Path) -> None:
    (tmp_path / "assay.toml").write_text(SEED)
    project = find_project(tmp_path, environ={})
    assert project.stages["prune"].stop_on_pass
    assert [(r.choice.label, r.choice.unlisted) for r in project.rungs("prune")] == [
        ("agy gemini-3.1-pro-high high", False),
        ("grok grok-4.7 high", True),
    ]
    assert SEED.strip() in (REPOSITORY / "assay.toml").read_text()
