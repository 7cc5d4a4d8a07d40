"""Claude Code itself, at the version that agents.toml pins, against the stand-in.

Launched as in a run, but without a fence: what it makes of each kind of answer, and that it asks as the script expects.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from assay.model.registry import Agent, load_registry
from assay.rehearsal.report import Report
from assay.rehearsal.script import Script, parse
from assay.rehearsal.vendor import StandIn, create
from assay.sandbox.archive import Put, pack
from assay.sandbox.engine import Engine
from assay.sandbox.images import Builder
from assay.sandbox.spec import Spec

pytestmark = [pytest.mark.docker, pytest.mark.cli, pytest.mark.timeout(900)]

CA = "/opt/assay/ca.pem"
PROMPT = "/opt/assay/prompt"
SIGNED_IN_BY_SUBSCRIPTION = {"CLAUDE_CODE_OAUTH_TOKEN": "placeholder-for-rehearsals", "ANTHROPIC_API_KEY": ""}


@dataclass(frozen=True)
class Played:
    """What the CLI printed, and what the stand-in was asked."""

    code: int | None
    lines: list[dict[str, Any]]
    report: Report

    @property
    def result(self) -> dict[str, Any]:
        """The last line that tells a result."""
        return next(line for line in reversed(self.lines) if line["type"] == "result")

    @property
    def turns(self) -> list[int | None]:
        """Turns taken by the main conversation, in order."""
        return [request.turn for request in self.report.requests if request.kind == "main"]

    @property
    def results(self) -> list[tuple[str, bool]]:
        """Tool results as the CLI shows them: text, and whether it is an error."""
        blocks = [b for line in self.lines if line["type"] == "user" for b in line["message"]["content"]]
        return [(str(b["content"]), bool(b.get("is_error"))) for b in blocks if b["type"] == "tool_result"]


@pytest.fixture(scope="module")
def agent() -> Agent:
    return load_registry().agents["claude"]


@pytest.fixture(scope="module")
def cli_image(engine: Engine, agent: Agent) -> str:
    builder = Builder(engine)
    return builder.for_agent(builder.environment(), "claude", agent).id


class Player:
    """Plays a script to the CLI. The last container is kept until the next one, for a resume."""

    def __init__(self, engine: Engine, image: str, cli_image: str, agent: Agent) -> None:
        assert agent.rehearsal
        self.engine, self.image, self.cli_image, self.agent = engine, image, cli_image, agent
        self.rehearsal = agent.rehearsal
        self.session = str(uuid.uuid4())
        self.client = ""

    def __call__(self, script: str | Script, env: dict[str, str] | None = None) -> Played:
        return self.run(self.agent.launch.run, self.cli_image, script, env)

    def resume(self, script: str, first: int, env: dict[str, str] | None = None) -> Played:
        """Go on with the CLI's own session in a container made of the last one, from a turn of the script on."""
        snapshot = self.engine.commit(self.client, "assay-test", uuid.uuid4().hex, {"assay.test": "cli"})
        try:
            return self.run(self.agent.launch.resume, snapshot, script, env, first)
        finally:
            self.close()
            self.engine.api.remove_image(snapshot)

    def run(
        self, line: list[str], image: str, script: str | Script, env: dict[str, str] | None, first: int = 0
    ) -> Played:
        script = parse(script.encode(), "s.toml") if isinstance(script, str) else script
        stand_in = create(self.engine, self.image, self.rehearsal, script, {"assay.test": "cli"}, first=first)
        try:
            self.close()
            self.client = self.engine.create(self.spec(line, image, stand_in, env or {}))
            files = [Put("app", owner=1000), Put(CA, stand_in.ca_pem, 0o644), Put(PROMPT, b"Begin.", 0o644)]
            self.engine.put(self.client, pack(files))
            stand_in.wait_ready()
            self.engine.start(self.client)
            code = self.engine.wait(self.client, 120)
            out = b"".join(data for stream, data in self.engine.log(self.client, follow=False) if stream == 1)
            return Played(code, [json.loads(line) for line in out.splitlines()], stand_in.report())
        finally:
            stand_in.stop()

    def spec(self, line: list[str], image: str, stand_in: StandIn, env: dict[str, str]) -> Spec:
        launch = self.agent.launch
        values = {"{model}": "claude-sonnet-5-5", "{session}": self.session, "{effort}": "high"}
        argv = [values.get(word, word) for word in [*line, *launch.effort, *launch.offline]]
        trusting = dict.fromkeys(launch.ca_env, CA)
        return Spec(
            image=image,
            argv=["sh", "-c", f'exec "$@" <{PROMPT}', "sh", *argv],
            name=f"assay-test-{uuid.uuid4().hex[:8]}",
            labels={"assay.test": "cli"},
            user="1000:1000",
            workdir="/app",
            env={"HOME": "/home/agent", "LANG": "C.UTF-8"} | launch.env | self.rehearsal.env | trusting | env,
            network="bridge",
            hosts=dict.fromkeys(stand_in.hosts, stand_in.address),
        )

    def close(self) -> None:
        if self.client:
            self.engine.remove(self.client)
        self.client = ""


@pytest.fixture(scope="module")
def player(engine: Engine, image: str, cli_image: str, agent: Agent) -> Iterator[Player]:
    player = Player(engine, image, cli_image, agent)
    yield player
    player.close()


@pytest.fixture
def play(player: Player) -> Player:
    player.session = str(uuid.uuid4())
    return player


def test_unmet_expectations_are_told(play: Player) -> None:
    played = play("""
        [[turn]]
        shell = ["false", "echo hi"]
        expect = ["missing", "hi"]
        fails = false
        [[turn]]
        tool = "Read"
        input = { file_path = "/nowhere" }
        fails = true
        [[turn]]
        text = "end"
    """)
    assert [p.split(":")[1].strip() for p in played.report.problems] == [
        "the result does not contain 'missing'",
        "the call failed, but must succeed",
    ]


def test_sub_agents(play: Player) -> None:
    played = play("""
        [[turn]]
        [[turn.call]]
        tool = "Agent"
        input = { description = "a", prompt = "ALPHA: go", subagent_type = "general-purpose" }
        expect = "alpha is done"
        [[turn.call]]
        tool = "Agent"
        input = { description = "b", prompt = "BETA: go", subagent_type = "general-purpose" }
        expect = "beta is done"
        [[turn]]
        subagent = true
        match = "ALPHA"
        shell = "echo sub-alpha"
        expect = "sub-alpha"
        [[turn]]
        subagent = true
        match = "BETA"
        text = "beta is done"
        [[turn]]
        subagent = true
        match = "ALPHA"
        text = "alpha is done"
        [[turn]]
        text = "both are done"
    """)
    assert played.report.problems == []
    assert played.turns == [0, 4]
    assert played.result["result"] == "both are done"


TRANSIENT = {
    "429": 'status = 429\nretry_after = "1s"',
    "500": 'status = 500\nerror = "boom"',
    "529 twice": "status = 529\ntimes = 2",
    "cut before": 'cut = "before"',
    "cut in the middle": f'text = "{"long " * 40}"\nshell = "echo never"\ncut = "mid-stream"',
    "hang before": 'hang = "before"',
    "hang in the middle": f'text = "{"long " * 40}"\nhang = "mid-stream"\nhold = "1s"',
    "error in the stream": 'stream_error = "Overloaded"',
}


WEATHER = "".join(
    f'[[turn]]\n{failure}\n[[turn]]\nshell = "echo over {n}"\nexpect = "over {n}"\n'
    for n, failure in enumerate(TRANSIENT.values())
)


@pytest.fixture(scope="module")
def weathered(player: Player) -> Played:
    """One conversation in which all of them come up, one after the other; after each it goes on with a call."""
    return player(f'{WEATHER}[[turn]]\ntext = "at last"', {"API_TIMEOUT_MS": "4000"})


@pytest.mark.parametrize("failure", TRANSIENT)
def test_it_tries_again_after(weathered: Played, failure: str) -> None:
    failing = 2 * list(TRANSIENT).index(failure)
    turns = [turn for turn in weathered.turns if turn in (failing, failing + 1)]
    assert turns[-1] == failing + 1
    assert set(turns[:-1]) == {failing}
    assert weathered.turns[-1] == 2 * len(TRANSIENT)


def test_what_came_before_a_failure_is_not_done(weathered: Played) -> None:
    assert weathered.code == 0
    assert weathered.report.problems == []
    assert weathered.result["result"] == "at last"
    assert weathered.results == [(f"over {n}", False) for n in range(len(TRANSIENT))]


FATAL = {
    "401": ("status = 401\ntimes = 9", {"api_error_status": 401}),
    "credit": ('status = 400\nerror = "Your credit balance is too low"', {"result": "Credit balance is too low"}),
    "always 529": ("status = 529\ntimes = 9", {"api_error_status": 529}),
    "refusal": ('text = "No."\nstop = "refusal"\ntimes = 9', {"stop_reason": "refusal"}),
    "output limit": ('text = "So much."\nstop = "max_tokens"\ntimes = 9', {"api_error": "max_output_tokens"}),
}


@pytest.mark.parametrize(("failure", "facts"), FATAL.values(), ids=FATAL)
def test_it_gives_up_on(play: Player, failure: str, facts: dict[str, object]) -> None:
    played = play(f"[[turn]]\n{failure}", {"CLAUDE_CODE_MAX_RETRIES": "1"})
    assert played.code == 1
    assert played.result["is_error"]
    assert played.result.items() >= facts.items()
    assert played.report.problems == []


def assert_limited(played: Played, window: str) -> None:
    """It ended by a usage limit in its second turn, and told whose."""
    assert played.code == 1
    assert (played.result["api_error"], played.result["api_error_status"]) == ("usage_limit_reached", 429)
    told = [line["rate_limit_info"] for line in played.lines if line["type"] == "rate_limit_event"][-1]
    assert (told["status"], told["rateLimitType"]) == ("rejected", window)
    assert played.turns == [0, 1]
    assert played.report.next_turn == 2


def test_the_limit_of_a_week(play: Player) -> None:
    script = '[[turn]]\nshell = "echo x"\n[[turn]]\nlimit = { resets_in = "3h", window = "seven_day" }'
    assert_limited(play(script, SIGNED_IN_BY_SUBSCRIPTION), "seven_day")


def test_a_resumed_conversation_goes_on_at_the_next_turn(play: Player) -> None:
    script = """
        [[turn]]
        shell = "echo before"
        expect = "before"
        [[turn]]
        limit = { resets_in = "3h", window = "five_hour" }
        [[turn]]
        shell = "echo after"
        expect = "after"
        [[turn]]
        text = "finished"
    """
    stopped = play(script, SIGNED_IN_BY_SUBSCRIPTION)
    assert_limited(stopped, "five_hour")
    assert stopped.report.problems == ["never reached: turn 3, 4"]
    resumed = play.resume(script, stopped.report.next_turn, SIGNED_IN_BY_SUBSCRIPTION)
    assert resumed.code == 0
    assert resumed.result["session_id"] == stopped.result["session_id"]
    assert resumed.result["result"] == "finished"
    assert resumed.turns == [2, 3]
    assert resumed.report.problems == []
    # It came with its history: a conversation that begins has two messages.
    assert next(request for request in resumed.report.requests if request.kind == "main").raw["messages"] >= 4


def test_it_cannot_loop_beyond_the_end(play: Player) -> None:
    played = play('final = "That is all."\n[[turn]]\nshell = "echo x"')
    assert played.code == 0
    assert played.result["result"] == "That is all."
    assert played.report.problems == ["1 request came after the script's end"]
