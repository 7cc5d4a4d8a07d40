"""The entries of agents.toml: what was measured on each CLI, and holds without starting it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import cast

import pytest

from assay.decoders import get, names
from assay.model.events import Facts
from assay.model.project import find_project
from assay.model.registry import Agent, ChoiceError, load_registry
from assay.run.launch import fill
from tests.decoders.facts_table import STREAMS

REGISTRY = load_registry()
ENTRIES = REGISTRY.agents
VENDORS = ["agy", "codex", "gemini", "grok", "opencode"]
PLACEHOLDERS = {"model", "effort", "session", "workdir", "workdir_dashed", "home", "prompt_file", "version"}
BLANKS = {
    "model": "some-model.1", "effort": "low", "session": "s", "workdir": "/app", "workdir_dashed": "-app",
    "home": "/home/agent", "prompt_file": "/opt/assay/prompt", "version": "1",
}  # fmt: skip


@pytest.fixture(params=VENDORS)
def entry(request: pytest.FixtureRequest) -> Agent:
    return ENTRIES[request.param]


def lines_of(entry: Agent) -> list[list[str]]:
    return [entry.launch.run, entry.launch.resume]


def test_all_six_clis_are_there() -> None:
    assert set(ENTRIES) == {"agy", "claude", "codex", "gemini", "grok", "opencode"}
    pinned = {name: entry.version for name, entry in ENTRIES.items() if name != "agy"}
    assert pinned == {
        "claude": "2.1.332", "codex": "0.171.0", "gemini": "0.61.0", "grok": "1.0.41", "opencode": "1.18.33",
    }  # fmt: skip


def test_the_decoder_is_there(entry: Agent) -> None:
    assert entry.decoder in names()


@pytest.mark.parametrize("name", ENTRIES)
def test_whether_a_cli_states_its_cost_is_what_recordings_say(name: str) -> None:
    """opencode's were made with prices in its configuration; with none, as in the entry, it says 0."""
    stated = {
        spent(ENTRIES[name].decoder, file) is not None
        for file in (STREAMS / {"agy": "antigravity"}.get(name, name)).glob("*.jsonl")
    }
    assert ENTRIES[name].states_cost == (True in stated and name != "opencode")
    assert '"cost"' not in str(ENTRIES[name].launch.files)


def spent(decoder: str, recording: Path) -> float | None:
    """What a recorded stream says that the run cost."""
    decoding = get(decoder).decode(recording.read_bytes().splitlines(keepends=True))
    try:
        while True:
            next(decoding)
    except StopIteration as end:
        return cast("Facts", end.value).cost_usd


def test_no_launch_line_holds_the_prompt_itself(entry: Agent) -> None:
    """It comes on standard input or lies in a file: nothing in it can be taken for a flag."""
    for line in lines_of(entry):
        used = {word for part in line for word in re.findall(r"\{([a-z_]+)\}", part)}
        assert used <= PLACEHOLDERS
        assert ("prompt_file" in used) == (entry.launch.prompt == "file")


def test_a_resume_names_the_session(entry: Agent) -> None:
    assert any("{session}" in part for part in entry.launch.resume)
    assert not {"--last", "-c", "--continue", "latest"} & set(entry.launch.resume) - {"-c"}
    assert ("{session}" in "".join(entry.launch.run)) == (entry.launch.session == "given")


def test_models_fit_their_entry(entry: Agent) -> None:
    assert entry.default_model in entry.models
    if entry.rehearsal is not None and entry.rehearsal.model:
        assert entry.rehearsal.model in entry.models
    for model in entry.models.values():
        if entry.efforts and model.efforts is not None:
            assert set(model.efforts) <= set(entry.efforts)
        assert model.usd_per_mtok is None, "no vendor file states a price"


def test_files_are_readable_by_the_cli(entry: Agent) -> None:
    for table in (entry.launch.files, entry.launch.offline_files):
        for path, text in table.items():
            assert path.startswith("~/")
            content = fill(text, BLANKS)
            if path.endswith(".json"):
                json.loads(content)
            else:
                tomllib.loads(content)


def includes(more: object, less: object) -> bool:
    """Whether one JSON value says everything that another one says."""
    if isinstance(more, dict) and isinstance(less, dict):
        return all(key in more and includes(more[key], value) for key, value in less.items())
    return more == less


def test_offline_files_only_take_away(entry: Agent) -> None:
    """A file that is replaced without internet says everything that the other one says."""
    for path, text in entry.launch.offline_files.items():
        if path in entry.launch.files:
            full, less = json.loads(fill(entry.launch.files[path], BLANKS)), json.loads(fill(text, BLANKS))
            assert includes(less, full)


def test_every_cli_has_web_tools_and_a_way_to_switch_them_off(entry: Agent) -> None:
    assert entry.web_tools
    assert entry.launch.offline or entry.launch.offline_env or entry.launch.offline_files


def test_placeholders_sign_in_where_a_real_key_would(entry: Agent) -> None:
    rehearsal = entry.rehearsal
    assert rehearsal is not None
    if rehearsal.api != "none":
        assert set(rehearsal.env) <= {way.env for way in entry.credentials}
        assert set(rehearsal.hosts) <= set(entry.hosts)
        assert rehearsal.shell


def test_credentials_and_switches_of_the_image_do_not_disturb(entry: Agent) -> None:
    from fnmatch import fnmatchcase

    own = [*entry.launch.env, *(way.env for way in entry.credentials if way.env)]
    prefixes = {name.partition("_")[0] for name in own if name not in ("SSH_CONNECTION",)}
    for prefix in prefixes:
        assert any(fnmatchcase(f"{prefix}_ANYTHING", pattern) for pattern in entry.launch.foreign_env), prefix


# -- the traps of each vendor


def test_codex_is_bounded_quiet_and_sealed_by_us() -> None:
    launch = ENTRIES["codex"].launch
    config = tomllib.loads(launch.files["~/.codex/config.toml"])
    assert config["features"] == dict.fromkeys(
        ("plugins", "apps", "api_key_model_discovery", "unbounded_connection_retries"), False
    )
    assert config["analytics"]["enabled"] is False
    assert config["otel"]["metrics_exporter"] == "none"
    assert config["shell_environment_policy"]["ignore_default_excludes"] is False
    for line in (launch.run, launch.resume):
        assert "--dangerously-bypass-approvals-and-sandbox" in line
        assert "--skip-git-repo-check" in line
    # resume takes neither, and forgets model and sandbox.
    assert not {"-C", "-s", "--sandbox"} & set(launch.resume)
    assert {"-m", "{model}"} <= set(launch.resume)
    assert launch.offline == ["-c", 'web_search="disabled"']
    assert launch.stop == "TERM"


def test_codex_lists_what_its_catalogue_lists() -> None:
    full = ["low", "medium", "high", "xhigh", "max", "ultra"]
    known = {name: model.efforts or full for name, model in ENTRIES["codex"].models.items()}
    assert known["gpt-6.2-sol"] == known["gpt-5.6-terra"] == full
    assert known["gpt-6-luna"] == known["gpt-5.6-luna"] == full[:-1]
    assert known["gpt-5.5"] == full[:-2]
    assert len(known) == 11


def test_grok_never_asks_never_searches_and_never_lingers() -> None:
    launch = ENTRIES["grok"].launch
    config = tomllib.loads(launch.files["~/.grok/config.toml"])
    assert config["toolset"]["bash"]["auto_background_on_timeout"] is False
    assert config["models"]["max_retries"] == 2
    assert config["telemetry"]["trace_upload"] is False
    for line in (launch.run, launch.resume):
        assert "--always-approve" in line
        assert "--permission-mode" not in line
        assert line[line.index("--output-format") + 1] == "streaming-json"
        taken = line[line.index("--disallowed-tools") + 1].split(",")
        assert {"x_search", "monitor", "spawn_subagent"} <= set(taken)
    assert launch.offline == ["--disable-web-search"]
    assert launch.offline_env["GROK_BACKEND_SEARCH"] == "0"
    assert launch.env["GROK_TURN_SUMMARY"] == "0"
    assert [repair.drop_lines for repair in launch.mend] == [["task_backgrounded", "background_tasks"]]


def test_grok_drops_an_unknown_effort_in_silence_so_we_do_not() -> None:
    with pytest.raises(ChoiceError, match="bogus"):
        REGISTRY.validate_choice("grok", "grok-4.6", "bogus")
    with pytest.raises(ChoiceError, match="xhigh"):
        REGISTRY.validate_choice("grok", "grok-4.5", "xhigh")


@pytest.mark.parametrize("agent", VENDORS)
def test_only_an_unknown_effort_is_refused(agent: str) -> None:
    with pytest.raises(ChoiceError, match="hihg"):
        REGISTRY.validate_choice(agent, None, "hihg")
    choice = REGISTRY.validate_choice(agent, "a-model-of-next-year")
    assert choice.unlisted
    assert choice.warning
    assert "a-model-of-next-year" in choice.warning


def test_antigravity_is_new_enough_and_stays_as_it_is() -> None:
    entry = ENTRIES["agy"]
    assert tuple(map(int, entry.version.split("."))) >= (1, 2, 10)
    assert entry.launch.env["AGY_CLI_DISABLE_AUTO_UPDATE"] == "true"
    assert entry.install.obtainable is False
    assert (entry.install.source, entry.install.sha512) == ("", ""), "recorded on first use, never invented"
    for line in lines_of(entry):
        assert line[line.index("--add-dir") + 1] == "{workdir}"
        assert "--sandbox" not in line
        assert not any(part.startswith("--print-timeout") for part in line)


@pytest.mark.parametrize(
    ("model", "effort", "arguments"),
    [
        ("gemini-3.1-pro-high", "high", []),
        ("gemini-3.8-flash-low", None, []),
        ("gemini-3.8-flash", "low", ["--effort", "{effort}"]),
    ],
)
def test_antigravity_names_an_effort_once(model: str, effort: str | None, arguments: list[str]) -> None:
    assert REGISTRY.validate_choice("agy", model, effort).effort_arguments == arguments


def test_antigravity_refuses_two_efforts_before_a_container_starts() -> None:
    with pytest.raises(ChoiceError, match="low"):
        REGISTRY.validate_choice("agy", "gemini-3.8-flash-low", "high")


WEB = ["search_web", "read_url_content", "open_browser_url", "browser_click_element", "capture_browser_screenshot"]
LOCAL = ["run_command", "view_file", "write_to_file", "grep_search", "find_by_name", "wait"]


@pytest.mark.parametrize(("tool", "decision"), [*((t, "deny") for t in WEB), *((t, "allow") for t in LOCAL)])
def test_the_hook_of_antigravity_decides_every_call(tool: str, decision: str) -> None:
    hooks = json.loads(ENTRIES["agy"].launch.offline_files["~/.gemini/config/hooks.json"])
    (group,) = hooks[ENTRIES["agy"].launch.offline_env["ASSAY_AGY_HOOK"]]["PreToolUse"]
    assert group["matcher"] == "*"
    (hook,) = group["hooks"]
    # A call is known by its own name, whatever its arguments say.
    call = {"toolCall": {"name": tool, "args": {"text": '"toolCall":{"name":"search_web"'}}, "stepIdx": 4}
    for text in (json.dumps(call), json.dumps(call, separators=(",", ":"))):
        shell = shutil.which("sh") or "/bin/sh"
        done = subprocess.run([shell, "-c", hook["command"]], input=text.encode(), capture_output=True, check=True)
        assert json.loads(done.stdout)["decision"] == decision


def test_the_hook_of_antigravity_fails_closed() -> None:
    hooks = json.loads(ENTRIES["agy"].launch.offline_files["~/.gemini/config/hooks.json"])
    command = hooks["assay-no-web"]["PreToolUse"][0]["hooks"][0]["command"]
    for text in (b"", b"{}", b"not json", b'{"toolCall":{"args":{},"name":"run_command"}}'):
        done = subprocess.run(["/bin/sh", "-c", command], input=text, capture_output=True, check=True)
        assert json.loads(done.stdout)["decision"] == "deny"


def test_gemini_trusts_its_folder_and_its_key() -> None:
    launch = ENTRIES["gemini"].launch
    settings = json.loads(fill(launch.offline_files["~/.gemini/settings.json"], BLANKS))
    assert "--skip-trust" in launch.run
    assert settings["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert settings["privacy"]["usageStatisticsEnabled"] is False
    assert settings["tools"]["exclude"] == ["google_web_search", "web_fetch"]
    aliases = settings["modelConfigs"]["customAliases"]
    assert set(aliases) == {f"some-model.1-{effort}" for effort in ("low", "medium", "high")}


def test_opencode_has_one_provider_and_no_project_of_its_own() -> None:
    launch = ENTRIES["opencode"].launch
    config = json.loads(fill(launch.offline_files["~/.config/opencode/opencode.json"], BLANKS))
    assert config["enabled_providers"] == ["vendor"]
    assert config["autoupdate"] is False
    assert config["permission"] == {"task": "deny", "webfetch": "deny", "websearch": "deny"}
    assert json.loads(fill(launch.files["~/.config/opencode/opencode.json"], BLANKS))["permission"] == {"task": "deny"}
    assert set(config["provider"]["vendor"]["models"]["some-model.1"]["variants"]) == set(ENTRIES["opencode"].efforts)
    assert launch.env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    assert launch.env["OPENCODE_DISABLE_MODELS_FETCH"] == "1"
    assert "--title" in launch.run


# -- what the project's first readers were shown

PRUNE = """
[stage.prune]
stop_on_pass = true
rungs = [
  { agent = "agy", model = "gemini-3.1-pro-high", effort = "high" },
  { agent = "grok", model = "grok-4.7", effort = "high" },
]
"""


def test_the_ladder_of_the_announcement_loads_unchanged(tmp_path: Path) -> None:
    (tmp_path / "assay.toml").write_text(PRUNE)
    project = find_project(tmp_path)
    rungs = project.rungs("prune")
    assert [rung.choice.label for rung in rungs] == ["agy gemini-3.1-pro-high high", "grok grok-4.7 high"]
    assert [rung.choice.unlisted for rung in rungs] == [False, True]
    assert project.stage("prune").stop_on_pass


def test_a_project_adds_an_agent_on_a_known_stream_without_python(tmp_path: Path) -> None:
    (tmp_path / "assay.toml").write_text("")
    (tmp_path / "agents.toml").write_text(
        """
[agents.mycodex]
title = "A fork of Codex"
version = "0.171.0"
decoder = "codex"
hosts = ["api.example.com"]
default_model = "m"

[agents.mycodex.install]
run = ['mkdir -p "$OUT/bin"', 'printf "echo 0.171.0" >"$OUT/bin/mycodex"', 'chmod 755 "$OUT/bin/mycodex"']
check = ["mycodex", "--version"]

[agents.mycodex.launch]
run = ["mycodex", "exec", "--json", "-m", "{model}", "-"]
"""
    )
    registry = find_project(tmp_path).registry
    assert registry.agents["mycodex"].decoder == "codex"
    assert registry.agents["codex"] == ENTRIES["codex"]
    assert registry.validate_choice("mycodex").model == "m"
