"""The server process over TLS on loopback: which turn answers, and how an answer fails."""

from __future__ import annotations

import http.client
import threading
import time

import pytest

from tests.rehearsal.conftest import Serve
from tests.rehearsal.loopback import Reply, after, post, user


def test_turns_come_in_order_and_the_end_is_a_final_text(serve: Serve) -> None:
    server = serve('final = "Over."\n[[turn]]\ntext = "one"\n[[turn]]\ntext = "two"')
    said = [server.ask(f"ask {n}").text for n in range(4)]
    assert said == ["one", "two", "Over.", "Over."]
    report = server.report()
    assert [(r.turn, r.how) for r in report.requests] == [(0, "turn"), (1, "turn"), (None, "beyond"), (None, "beyond")]
    assert report.problems == ["2 requests came after the script's end"]


def test_times_repeats_a_turn_with_ids_of_its_own(serve: Serve) -> None:
    server = serve('[[turn]]\nshell = "x"\ntimes = 2\n[[turn]]\ntext = "end"')
    replies = [server.ask(f"ask {n}") for n in range(3)]
    assert replies[2].text == "end"
    assert len({reply.message["id"] for reply in replies}) == 3
    assert replies[0].calls[0]["id"] != replies[1].calls[0]["id"]


def test_a_retry_gets_the_answer_it_lost(serve: Serve) -> None:
    server = serve('[[turn]]\ntext = "one"\nshell = "x"\n[[turn]]\ntext = "two"')
    first, again = server.ask("same"), server.ask("same")
    assert again.message == first.message
    # A retry may come without streaming, and with its cache breakpoints elsewhere.
    bare = server.ask([{"role": "user", "content": "same"}], stream=False)
    assert bare.message == first.message
    assert server.ask(after([user("same")], first, ("y", False))).text == "two"
    assert [r.how for r in server.report().requests] == ["turn", "repeat", "repeat", "turn"]


def test_the_retry_after_a_scripted_failure_gets_the_next_turn(serve: Serve) -> None:
    server = serve('[[turn]]\nstatus = 529\ntimes = 2\n[[turn]]\ntext = "at last"')
    assert [server.ask("same").status for _ in range(3)] == [529, 529, 200]
    assert server.report().problems == []


def test_it_can_begin_at_a_later_turn(serve: Serve) -> None:
    script = '[[turn]]\ntext = "one"\n[[turn]]\ntext = "two"\n[[turn]]\ntext = "three"'
    server = serve(script, first=1)
    assert server.ask("go on").text == "two"
    report = server.report()
    assert report.next_turn == 2
    assert report.problems == ["never reached: turn 3"]


def test_requests_at_the_same_time_get_different_turns(serve: Serve) -> None:
    server = serve("".join(f'[[turn]]\ntext = "{n}"\n' for n in range(12)))
    said: list[str] = []
    threads = [threading.Thread(target=lambda n=n: said.append(server.ask(f"ask {n}").text)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said, key=int) == [str(n) for n in range(12)]


def test_one_connection_serves_many_requests(serve: Serve) -> None:
    server = serve('[[turn]]\nstatus = 500\n[[turn]]\ntext = "one"\n[[turn]]\ntext = "two"')
    with server.client() as client:
        assert [post(client, f"ask {n}").status for n in range(3)] == [500, 200, 200]


def test_hang_before_the_answer_sends_nothing(serve: Serve) -> None:
    server = serve('[[turn]]\nhang = "before"\nhold = "300ms"\n[[turn]]\ntext = "ok"')
    began = time.monotonic()
    with pytest.raises(http.client.RemoteDisconnected):
        server.ask("same")
    assert time.monotonic() - began >= 0.3
    assert server.ask("same").text == "ok"
    first = server.report().requests[0]
    assert (first.status, first.outcome) == (None, "hung")


def test_a_hang_ends_when_the_client_gives_up(serve: Serve) -> None:
    server = serve('[[turn]]\nhang = "before"\n[[turn]]\ntext = "ok"')
    with server.client() as client:
        client.sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            post(client, "same")
    assert server.ask("same").text == "ok"


@pytest.mark.parametrize("how", ["cut", "hang"])
def test_a_stream_breaks_off_in_the_middle(serve: Serve, how: str) -> None:
    extra = '\nhold = "100ms"' if how == "hang" else ""
    server = serve(f'[[turn]]\ntext = "{"long " * 50}"\n{how} = "mid-stream"{extra}\n[[turn]]\ntext = "ok"')
    with pytest.raises(http.client.IncompleteRead) as caught:
        server.ask("same")
    assert b"message_start" in caught.value.partial
    assert b"message_stop" not in caught.value.partial
    assert server.ask("same").text == "ok"


def test_a_whole_body_breaks_off_in_the_middle(serve: Serve) -> None:
    server = serve('[[turn]]\ntext = "hello"\ncut = "mid-stream"')
    with pytest.raises(http.client.IncompleteRead) as caught:
        server.ask("same", stream=False)
    assert caught.value.partial
    assert caught.value.expected


def test_cut_before_the_answer(serve: Serve) -> None:
    server = serve('[[turn]]\ncut = "before"')
    with pytest.raises(http.client.RemoteDisconnected):
        server.ask()
    assert server.report().requests[0].outcome == "cut"


def test_delay_and_pace_take_their_time(serve: Serve) -> None:
    server = serve('[[turn]]\ntext = "hi"\ndelay = "200ms"\npace = "20ms"')
    began = time.monotonic()
    events = server.ask().events
    assert time.monotonic() - began >= 0.2 + 0.02 * len(events)


def test_a_client_that_leaves_during_a_delay_can_have_the_turn_again(serve: Serve) -> None:
    server = serve('[[turn]]\ntext = "hi"\ndelay = "400ms"\n[[turn]]\ntext = "next"')
    with server.client() as client:
        client.sock.settimeout(0.1)
        with pytest.raises(TimeoutError):
            post(client, "same")
    assert server.report().next_turn == 0
    assert server.ask("same").text == "hi"
    assert server.report().next_turn == 1


def test_each_reply_is_recorded_before_it_is_sent(serve: Serve) -> None:
    server = serve('[[turn]]\ntext = "one"\nusage = { input = 5, cached = 6, cache_write = 7, output = 8 }')
    server.ask("the question", model="some-model", output_config={"effort": "high"})
    request = server.report().requests[0]
    assert (request.method, request.path, request.status) == ("POST", "/v1/messages?beta=true", 200)
    assert (request.model, request.effort, request.tools) == ("some-model", "high", ("Bash", "Read", "Agent"))
    assert request.raw["last"] == "the question"
    assert "body" not in request.raw


def test_bodies_are_recorded_on_request(serve: Serve) -> None:
    server = serve('[[turn]]\ntext = "one"', bodies=True)
    server.ask("the question", temperature=0.5)
    body = server.report().requests[0].raw["body"]
    assert body["temperature"] == 0.5
    assert body["messages"] == [user("the question")]


def test_no_credential_reaches_the_record(serve: Serve) -> None:
    server = serve('[[turn]]\ntext = "one"')
    secret = "canary-5f1d"
    sent = {
        "authorization": f"Bearer {secret}",
        "x-api-key": secret,
        "cookie": f"session={secret}",
        "x-goog-api-key": secret,
    }
    server.ask(headers=sent)
    with server.client() as client:
        client.request("GET", f"/v1/models?key={secret}&access_token={secret}", headers=sent)
        client.getresponse().read()
        client.request("POST", "/v1/oauth/token", '{"refresh_token": "' + secret + '"}', sent)
        client.getresponse().read()
    record = server.record.read_bytes()
    assert b"authorization" in record
    assert secret.encode() not in record


def test_a_call_goes_to_the_first_tool_that_is_offered(serve: Serve) -> None:
    server = serve("[[turn]]\nshell = 'echo \"hi\"'\ntimes = 3")
    seen = []
    for n, tools in enumerate([("exec", "Bash"), ("exec",), ("other",)]):
        reply = server.ask(f"ask {n}", tools=tools)
        seen += [(call["name"], call["input"]) for call in reply.calls]
    bash = ("Bash", {"command": 'echo "hi"', "description": "d"})
    assert seen == [bash, ("exec", r'run("echo \"hi\"")'), bash]


class TestExpectations:
    SCRIPT = """
        [[turn]]
        shell = ["a", "b"]
        expect = ["seven", "eight"]
        [[turn.call]]
        shell = "c"
        fails = true
        [[turn]]
        text = "done"
    """

    def play(self, serve: Serve, *results: tuple[str, bool]) -> list[str]:
        server = serve(self.SCRIPT)
        first = server.ask("go")
        assert isinstance(first, Reply)
        server.ask(after([user("go")], first, *results))
        return server.report().problems

    def test_met(self, serve: Serve) -> None:
        assert self.play(serve, ("seven!", False), ("is eight", True), ("no such file", True)) == []

    def test_unmet(self, serve: Serve) -> None:
        problems = self.play(serve, ("six", False), ("eight", False), ("fine", False))
        assert problems == [
            "turn 1: the result does not contain 'seven': 'six'",
            "turn 1: the call succeeded, but must fail: 'fine'",
        ]

    def test_a_result_that_never_comes_is_a_problem(self, serve: Serve) -> None:
        server = serve(self.SCRIPT)
        server.ask("go")
        problems = server.report().problems
        assert len([p for p in problems if "never came" in p]) == 3
        assert "never reached: turn 2" in problems

    def test_results_count_although_something_else_is_said_after_them(self, serve: Serve) -> None:
        server = serve('[[turn]]\nshell = "a"\nexpect = "seven"\n[[turn]]\ntext = "done"')
        first = server.ask("go")
        messages = [*after([user("go")], first, ("six", False)), {"role": "system", "content": "By the way."}]
        server.ask(messages)
        assert server.report().problems == ["turn 1: the result does not contain 'seven': 'six'"]


class TestSubagents:
    SCRIPT = """
        [[turn]]
        text = "main 1"
        [[turn]]
        subagent = true
        match = "ALPHA"
        text = "alpha 1"
        [[turn]]
        subagent = true
        text = "any 1"
        [[turn]]
        subagent = true
        match = "ALPHA"
        text = "alpha 2"
        [[turn]]
        text = "main 2"
    """

    def test_they_have_turns_of_their_own(self, serve: Serve) -> None:
        server = serve(self.SCRIPT)
        assert server.ask("go").text == "main 1"
        beta = server.ask("BETA please", kind="subagent", agent="b")
        assert beta.text == "any 1"
        alpha = server.ask("ALPHA please", kind="subagent", agent="a")
        assert alpha.text == "alpha 1"
        more = [user("ALPHA please"), {"role": "assistant", "content": "alpha 1"}, user("and?")]
        assert server.ask(more, kind="subagent", agent="a").text == "alpha 2"
        assert server.ask("go on").text == "main 2"
        report = server.report()
        assert report.problems == []
        assert report.next_turn == 5

    def test_one_without_a_turn_gets_the_final_text(self, serve: Serve) -> None:
        server = serve(
            'final = "Over."\n[[turn]]\ntext = "main"\n[[turn]]\nsubagent = true\nmatch = "ALPHA"\ntext = "a"'
        )
        assert server.ask("BETA", kind="subagent", agent="b").text == "Over."
        assert server.ask("go").text == "main"

    def test_a_retry_of_one_does_not_take_the_turn_of_another(self, serve: Serve) -> None:
        server = serve(
            '[[turn]]\nsubagent = true\ntext = "1"\n[[turn]]\nsubagent = true\ntext = "2"\n[[turn]]\ntext = "m"'
        )
        assert server.ask("same", kind="subagent", agent="a").text == "1"
        assert server.ask("same", kind="subagent", agent="b").text == "2"
        assert server.ask("same", kind="subagent", agent="a").text == "1"
