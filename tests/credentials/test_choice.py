"""Which credential is used, which is refused, and what the refusal says: before any container, names only."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from assay.model.errors import CredentialMissing
from assay.model.registry import load_registry
from assay.sandbox.credentials import Held, choose
from tests.conftest import MakeProject

AGENTS = load_registry().agents
CODEX = (Path(__file__).parent / "codex-auth.json").read_text()
CANARY = "canary-4f1d0c2ab7e94d51"


def claude_file(lasts: float, token: str = CANARY) -> str:
    """A sign-in of Claude Code's own, with its milliseconds."""
    expires = int((time.time() + lasts) * 1000)
    return json.dumps({"claudeAiOauth": {"accessToken": token, "refreshToken": f"r-{token}", "expiresAt": expires}})


def put(home: Path, name: str, text: str) -> None:
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    (home / name).write_text(text)


def chosen(home: Path, agent: str, env: dict[str, str] | None = None, lasts: float | None = 1800) -> Held:
    return choose(agent, AGENTS[agent], env or {}, home, lasts)


def test_the_entry_says_which_is_preferred(tmp_path: Path) -> None:
    put(tmp_path, ".claude/.credentials.json", claude_file(86400))
    both = {"ANTHROPIC_API_KEY": "key-abcdef", "CLAUDE_CODE_OAUTH_TOKEN": "token-abcdef"}
    assert chosen(tmp_path, "claude", both).names == ["CLAUDE_CODE_OAUTH_TOKEN"]
    assert chosen(tmp_path, "claude", {"ANTHROPIC_API_KEY": "key-abcdef"}).names == ["ANTHROPIC_API_KEY"]
    held = chosen(tmp_path, "claude")
    assert held.names == ["~/.claude/.credentials.json"]
    assert set(held.secrets) == {CANARY, f"r-{CANARY}"}
    assert held.shared is None


def test_a_variable_is_used_as_the_launcher_will_set_it() -> None:
    held = choose("codex", AGENTS["codex"], {"CODEX_API_KEY": f" {CANARY}\n"}, Path("/nowhere"))
    assert held.env == {"CODEX_API_KEY": CANARY}
    assert held.secrets == (CANARY,)
    with pytest.raises(CredentialMissing, match=r"set CODEX_API_KEY or sign in"):
        choose("codex", AGENTS["codex"], {"CODEX_API_KEY": " \n"}, Path("/nowhere"))


@pytest.mark.parametrize(
    ("lasts", "words"),
    [(-5, ["has expired at"]), (600, ["expires at", "before a run of 30m is over"]), (1830, ["before a run of 30m"])],
)
def test_a_sign_in_that_ends_before_the_run_is_refused(tmp_path: Path, lasts: float, words: list[str]) -> None:
    put(tmp_path, ".claude/.credentials.json", claude_file(lasts))
    with pytest.raises(CredentialMissing) as refused:
        chosen(tmp_path, "claude")
    said = str(refused.value)
    for word in [*words, "~/.claude/.credentials.json", "use Claude Code on this machine", "CLAUDE_CODE_OAUTH_TOKEN"]:
        assert word in said
    assert CANARY not in said
    # One that is in use already must be known, whatever its age.
    assert chosen(tmp_path, "claude", lasts=None).secrets


def test_one_that_lasts_is_used(tmp_path: Path) -> None:
    put(tmp_path, ".claude/.credentials.json", claude_file(2000))
    assert chosen(tmp_path, "claude").files
    with pytest.raises(CredentialMissing, match="before a run of 1h is over"):
        chosen(tmp_path, "claude", lasts=3600)


CODEX_FAULTS: dict[str, Any] = {
    "signed out": {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": None},
    "no refresh token": {"tokens": {"access_token": "abc", "refresh_token": ""}},
    "another file": ["a"],
}


@pytest.mark.parametrize("content", CODEX_FAULTS.values(), ids=CODEX_FAULTS)
def test_a_file_that_signs_in_to_nothing_is_refused(tmp_path: Path, content: Any) -> None:
    put(tmp_path, ".codex/auth.json", json.dumps(content))
    with pytest.raises(CredentialMissing, match=r"~/.codex/auth.json holds no sign-in \(tokens"):
        chosen(tmp_path, "codex")


def test_codex_own_file_is_taken_and_shared(tmp_path: Path) -> None:
    put(tmp_path, ".codex/auth.json", CODEX)
    held = chosen(tmp_path, "codex")
    assert held.shared == tmp_path / ".codex/auth.json"
    assert held.source is not None
    assert held.source.hosts == ["chatgpt.com", "auth.openai.com"]
    tokens = json.loads(CODEX)["tokens"]
    assert set(held.secrets) == {tokens[name] for name in ("id_token", "access_token", "refresh_token")}


def test_a_file_beyond_the_limit_is_none(tmp_path: Path) -> None:
    put(tmp_path, ".codex/auth.json", CODEX + " " * 70_000)
    with pytest.raises(CredentialMissing, match="no credential found"):
        chosen(tmp_path, "codex")


def test_every_file_of_the_registry_says_what_it_must_hold() -> None:
    files = [way for agent in AGENTS.values() for way in agent.credentials if way.file]
    assert len(files) >= 4
    for way in files:
        assert way.needs
        # What cannot be renewed in its container must say how long it lasts.
        assert way.refresh == "copy-back" or way.expires


def test_what_to_do_is_said_and_only_what_works(tmp_path: Path) -> None:
    """A file is not set but signed in to; what no stand-in speaks to cannot be rehearsed."""
    with pytest.raises(CredentialMissing) as caught:
        chosen(tmp_path, "codex")
    assert str(caught.value) == (
        "codex: no credential found: set CODEX_API_KEY or sign in with Codex on this machine (~/.codex/auth.json) "
        "(or use --rehearse, which needs none)"
    )
    with pytest.raises(CredentialMissing) as caught:
        chosen(tmp_path, "agy")
    assert str(caught.value) == (
        "agy: no credential found: sign in with Antigravity on this machine "
        "(~/.gemini/antigravity-cli/antigravity-oauth-token)"
    )


TASK = {"tasks/t/prompt.md": "Hello.", "tasks/t/checker/check.sh": "exit 0"}


def test_the_command_refuses_before_any_engine_is_asked(project: MakeProject) -> None:
    here = project(TASK)
    nowhere = {"DOCKER_HOST": "tcp://127.0.0.1:1"}
    refused = here.run("run", "tasks/t", "--agent", "claude", env=nowhere)
    refused.assert_refused("claude: no credential found", "CLAUDE_CODE_OAUTH_TOKEN", "--rehearse")
    put(Path(here.env["HOME"]), ".claude/.credentials.json", claude_file(60))
    refused = here.run("run", "tasks/t", "--agent", "claude", env=nowhere)
    refused.assert_refused("before a run of 30m is over", "sign in again")
    here.run("run", "tasks/t", "--agent", "claude", "--timeout", "5s", "--dry-run", env=nowhere).assert_refused(
        "run of 5s"
    )


def test_a_rung_is_held_to_its_own_time(project: MakeProject) -> None:
    stage = '[stage.s]\nrungs = [{ agent = "claude", timeout = "2h" }]\n'
    here = project({**TASK, "assay.toml": stage})
    put(Path(here.env["HOME"]), ".claude/.credentials.json", claude_file(3600))
    here.run("run", "tasks/t", "--stage", "s", "--dry-run").assert_refused("rung 1", "before a run of 2h is over")
    here.run("run", "tasks/t", "--agent", "claude", "--dry-run").assert_code(0)


def test_only_names_are_shown(project: MakeProject) -> None:
    here = project(TASK)
    home = Path(here.env["HOME"])
    put(home, ".claude/.credentials.json", claude_file(86400))
    put(home, ".codex/auth.json", CODEX)
    keys = {"XAI_API_KEY": f"xai-{CANARY}"}
    outs = [
        here.run("run", "tasks/t", "--agent", agent, *more, "--dry-run", env=keys).assert_code(0)
        for agent in ("claude", "codex", "grok")
        for more in ((), ("--json",))
    ]
    outs.append(here.run("doctor", env=keys))
    said = "".join(out.out + out.err for out in outs)
    for name in ("~/.claude/.credentials.json", "~/.codex/auth.json", "XAI_API_KEY"):
        assert said.count(name) >= 3
    assert CANARY not in said
    assert not [token for token in json.loads(CODEX)["tokens"].values() if token in said]


def test_the_file_is_read_through_a_link(tmp_path: Path) -> None:
    put(tmp_path, "elsewhere.json", CODEX)
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/auth.json").symlink_to("../elsewhere.json")
    assert chosen(tmp_path, "codex").files == {"~/.codex/auth.json": CODEX.encode()}


def test_a_sign_in_of_another_vendor_is_found_by_star(tmp_path: Path) -> None:
    account = {"key": CANARY, "refresh_token": f"r-{CANARY}", "user_id": "u"}
    put(tmp_path, ".grok/auth.json", json.dumps({"https://auth.x.ai::b1a0": account}))
    assert set(chosen(tmp_path, "grok").secrets) == {CANARY, f"r-{CANARY}"}
    put(tmp_path, ".grok/auth.json", json.dumps({"https://auth.x.ai::b1a0": {**account, "key": ""}}))
    with pytest.raises(CredentialMissing, match="holds no sign-in"):
        chosen(tmp_path, "grok")
