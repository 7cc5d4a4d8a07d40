"""The Anthropic protocol, as a client sees it."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.rehearsal.anthropic import Anthropic
from assay.rehearsal.protocol import Heard
from tests.rehearsal.conftest import Serve
from tests.rehearsal.loopback import post, user


def test_a_message_is_streamed_block_by_block(serve: Serve) -> None:
    text = "Grüße, 世界 — " * 10
    server = serve(f"""
        [[turn]]
        thinking = "hm"
        text = "{text}"
        shell = ["echo 'ü'", "b"]
        usage = {{ input = 5, cached = 6, cache_write = 7, output = 8 }}
    """)
    reply = server.ask(model="some-model")
    assert reply.headers["content-type"].startswith("text/event-stream")
    kinds = [event["type"] for event in reply.events]
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 4
    message = reply.message
    thinking, said, *calls = message["content"]
    assert (thinking["type"], thinking["thinking"], bool(thinking["signature"])) == ("thinking", "hm", True)
    assert said == {"type": "text", "text": text}
    assert [call["input"]["command"] for call in calls] == ["echo 'ü'", "b"]
    assert len({call["id"] for call in calls}) == 2
    assert all(call["id"].startswith("toolu_") for call in calls)
    assert (message["model"], message["stop_reason"]) == ("some-model", "tool_use")
    usage = message["usage"]
    assert [usage[key] for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")] == [
        5,
        6,
        7,
    ]
    assert usage["output_tokens"] == 8


def test_the_count_of_output_tokens_comes_last(serve: Serve) -> None:
    reply = serve('[[turn]]\ntext = "hi"\nusage = { output = 8 }').ask()
    seen = [event["message"]["usage"]["output_tokens"] for event in reply.events if event["type"] == "message_start"]
    assert seen == [1]


@pytest.mark.parametrize("stop", ["refusal", "max_tokens"])
def test_why_it_stops_can_be_told(serve: Serve, stop: str) -> None:
    assert serve(f'[[turn]]\ntext = "no"\nstop = "{stop}"').ask().message["stop_reason"] == stop


def test_errors_are_named_by_their_status(serve: Serve) -> None:
    server = serve("""
        [[turn]]
        status = 529
        error = "too much"
        [[turn]]
        status = 429
        retry_after = "1.5s"
        headers = { x-more = "yes" }
        [[turn]]
        status = 400
        error = { type = "odd_error", message = "odd" }
        [[turn]]
        status = 503
    """)
    replies = [server.ask(stream=n % 2 == 0) for n in range(4)]
    errors = [(r.status, r.message["error"]["type"], r.message["error"]["message"]) for r in replies]
    assert errors == [
        (529, "overloaded_error", "too much"),
        (429, "rate_limit_error", "rehearsed error 429"),
        (400, "odd_error", "odd"),
        (503, "api_error", "rehearsed error 503"),
    ]
    assert (replies[1].headers["retry-after"], replies[1].headers["x-more"]) == ("1.5", "yes")
    assert all(r.message["type"] == "error" for r in replies)


@pytest.mark.parametrize(("window", "claim"), [("five_hour", "5h"), ("seven_day", "7d")])
def test_a_limit_says_when_it_resets(serve: Serve, window: str, claim: str) -> None:
    reply = serve(f'[[turn]]\nlimit = {{ resets_in = "2h", window = "{window}" }}').ask()
    unified = {k.removeprefix("anthropic-ratelimit-unified-"): v for k, v in reply.headers.items()}
    assert (reply.status, reply.message["error"]["type"]) == (429, "rate_limit_error")
    assert (unified["status"], unified["representative-claim"], unified[f"{claim}-status"]) == (
        "rejected",
        window,
        "rejected",
    )
    assert abs(int(unified["reset"]) - time.time() - 7200) < 60


def test_an_error_can_come_in_a_stream_that_began_well(serve: Serve) -> None:
    server = serve('[[turn]]\nstream_error = "Overloaded"\ntimes = 2')
    events = server.ask().events
    assert [event["type"] for event in events] == ["message_start", "ping", "error"]
    assert events[-1]["error"] == {"type": "overloaded_error", "message": "Overloaded"}
    assert server.ask(stream=False).status == 529


def test_side_calls_get_harmless_answers_and_take_no_turn(serve: Serve) -> None:
    server = serve('[[turn]]\ntext = "one"')
    with server.client() as client:
        title = post(client, "a title?", kind="auxiliary", tools=())
        assert (title.status, title.message["usage"]["output_tokens"]) == (200, 0)
        assert post(client, "summary", kind="compaction").status == 200
        assert post(client, "old", kind=None, tools=()).text == title.text
        client.request("POST", "/v1/messages/count_tokens", "{}")
        assert b"input_tokens" in client.getresponse().read()
        client.request("HEAD", "/api/hello")
        assert client.getresponse().read() == b""
        client.request("GET", "/api/claude_code/settings")
        unknown = client.getresponse()
        unknown.read()
        assert unknown.status == 404
        assert post(client, "go").text == "one"
    kinds = [request.kind for request in server.report().requests]
    assert kinds == ["side"] * 6 + ["main"]


def test_a_web_search_run_by_the_vendor_is_a_side_call(serve: Serve) -> None:
    server = serve('[[turn]]\ntext = "one"')
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [user("q")],
        "tools": [{"type": "web_search_20250305", "name": "web_search"}],
    }
    with server.client() as client:
        client.request("POST", "/v1/messages", json.dumps(body), {"x-claude-code-request-class": "main"})
        client.getresponse().read()
    request = server.report().requests[0]
    assert (request.kind, request.raw["label"]) == ("side", "web tool")


def test_without_a_class_a_request_with_tools_is_the_agents(serve: Serve) -> None:
    assert serve('[[turn]]\ntext = "one"').ask(kind=None).text == "one"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["tool_result", "text", "user"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "name", "effort", "is_error"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
KEYS = ["messages", "tools", "model", "max_tokens", "stream", "thinking", "output_config", "system"]


@given(st.dictionaries(st.sampled_from(KEYS), JSON), st.sampled_from(["main", "subagent", "other", None]))
def test_no_body_is_too_odd(body: dict[str, object], kind: str | None) -> None:
    headers = {"x-claude-code-request-class": kind} if kind else {}
    speaker = Anthropic()
    asked = speaker.listen(Heard("POST", "/v1/messages", headers, json.dumps(body).encode()))
    assert asked.kind in ("main", "subagent", "side")
    assert (asked.answer is None) == (asked.kind != "side")
    assert speaker.speak(asked, {"text": "x"}, [], "001").status == 200


def test_what_is_no_json_is_answered_all_the_same(serve: Serve) -> None:
    server = serve('[[turn]]\ntext = "one"\ntimes = 10')
    with server.client() as client:
        for body in (b"", b"[]", b"{", b"[" * 100_000, b"\xff\xfe"):
            client.request("POST", "/v1/messages", body, {"x-claude-code-request-class": "main"})
            answer = client.getresponse()
            answer.read()
            assert answer.status == 200


def test_a_very_long_text_is_a_stream_of_few_events(serve: Serve) -> None:
    text = "0123456789" * 100_000
    reply = serve(f'[[turn]]\ntext = "{text}"\nshell = "echo {text}"').ask()
    assert len(reply.events) < 1000
    assert reply.text == text
    assert reply.calls[0]["input"]["command"] == f"echo {text}"
