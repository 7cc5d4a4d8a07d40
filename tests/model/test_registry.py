from __future__ import annotations

from pathlib import Path

import pytest

from assay.model.errors import ConfigError
from assay.model.registry import BUILT_IN, ChoiceError, Registry, built_in_file, load_registry
from assay.model.toml import parse_toml, validate

ENTRY = """
[agents.{name}]
title = "Some CLI"
version = "1.2.3"
decoder = "claude"
hosts = ["api.example.com"]
efforts = ["low", "high"]
default_effort = "low"
default_model = "small-1"
models = {{ small-1 = {{}}, big-2 = {{ efforts = ["high", "max"] }}, old-0 = {{ efforts = [] }} }}
[agents.{name}.install]
run = []
check = ["some", "--version"]
[agents.{name}.launch]
run = ["some", "-p"]
"""


@pytest.fixture
def registry() -> Registry:
    return validate(Registry, parse_toml(ENTRY.format(name="some").encode(), "agents.toml"), "agents.toml")


def test_the_registry_that_comes_along() -> None:
    registry = load_registry()
    assert "claude" in registry.agents
    assert set(BUILT_IN) <= set(registry.names)
    for name, agent in registry.agents.items():
        for model in agent.models:
            assert not registry.validate_choice(name, model).unlisted


def test_a_project_adds_an_entry(tmp_path: Path) -> None:
    (tmp_path / "agents.toml").write_text(ENTRY.format(name="some"))
    registry = load_registry(tmp_path)
    assert registry.agents["some"].version == "1.2.3"
    assert registry.agents["claude"] == load_registry().agents["claude"]


def test_a_project_overrides_only_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "agents.toml").write_text(
        '[agents.claude]\nversion = "9.9.9"\n[agents.claude.launch.env]\nMORE = "1"\n'
    )
    own, built_in = load_registry(tmp_path).agents["claude"], load_registry().agents["claude"]
    assert own.version == "9.9.9"
    assert own.launch.env == {**built_in.launch.env, "MORE": "1"}
    assert own.hosts == built_in.hosts


def test_faults_name_the_projects_file(tmp_path: Path) -> None:
    (tmp_path / "agents.toml").write_text('[agents.claude]\nverson = "1"\n')
    with pytest.raises(ConfigError, match=r"did you mean 'version'\?") as caught:
        load_registry(tmp_path)
    assert caught.value.file == str(tmp_path / "agents.toml")
    assert caught.value.path == "agents.claude.verson"


def test_the_repositorys_own_file_is_not_laid_over_itself() -> None:
    assert load_registry(built_in_file().parent) == load_registry()


@pytest.mark.parametrize("name", BUILT_IN)
def test_names_of_built_in_agents_are_reserved(name: str) -> None:
    with pytest.raises(ConfigError, match="name of a built-in agent"):
        validate(Registry, parse_toml(ENTRY.format(name=name).encode(), "a.toml"), "a.toml")


def test_defaults_of_an_entry(registry: Registry) -> None:
    choice = registry.validate_choice("some")
    assert (choice.model, choice.effort, choice.unlisted, choice.warning) == ("small-1", None, False, None)
    assert choice.entry is registry.agents["some"]


def test_an_unlisted_model_is_warned_of_and_keeps_the_agents_efforts(registry: Registry) -> None:
    choice = registry.validate_choice("some", "big-3", "high")
    assert choice.unlisted
    assert choice.warning == "some does not list the model 'big-3' (did you mean 'big-2'?); going on, marked unlisted"
    with pytest.raises(ChoiceError):
        registry.validate_choice("some", "big-3", "max")


@pytest.mark.parametrize(
    ("agent", "model", "effort", "key", "words"),
    [
        ("sone", None, None, "agent", "unknown agent 'sone' (did you mean 'some'?)"),
        ("zzz", None, None, "agent", "known agents: some, oracle, nop, script"),
        ("some", None, "hihg", "effort", "unknown effort 'hihg' for some small-1 (did you mean 'high'?)"),
        ("some", "small-1", "max", "effort", "one of low, high"),
        ("some", "big-2", "low", "effort", "one of high, max"),
        ("some", "old-0", "low", "effort", "cannot be set"),
        ("oracle", "small-1", None, "model", "oracle has no model"),
        ("nop", None, "low", "effort", "nop has no effort"),
    ],
)
def test_refused(registry: Registry, agent: str, model: str | None, effort: str | None, key: str, words: str) -> None:
    with pytest.raises(ChoiceError) as caught:
        registry.validate_choice(agent, model, effort)
    assert caught.value.key == key
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
