"""The stand-ins' protocols: what a request asks, and what an answer looks like on the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assay.rehearsal.gemini import Gemini
from assay.rehearsal.openai import Chat
from assay.rehearsal.protocol import Answer, Asked, Call, Heard, Speaker
from assay.rehearsal.responses import Responses
from assay.rehearsal.xai import Xai

TURN: dict[str, Any] = {
    "thinking": "Let me think.",
    "text": "naïve 日本語 " * 8,
    "usage": {"input": 10, "cached": 20, "cache_write": 5, "output": 7},
}
ROUTES = {
    Responses: "/v1/responses",
    Xai: "/v1/responses",
    Chat: "/v1/chat/completions",
    Gemini: "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
}
ALL = list(ROUTES)


def request(speaker: type[Speaker], **more: Any) -> dict[str, Any]:
    """A main request with one tool on offer, in the vendor's words."""
    if speaker is Gemini:
        tool = {"functionDeclarations": [{"name": "shell"}, {"name": "web_fetch"}]}
        return {"contents": [{"role": "user", "parts": [{"text": "hello"}]}], "tools": [tool], **more}
    if speaker is Chat:
        tools = [{"type": "function", "function": {"name": name}} for name in ("shell", "web_fetch")]
        return {
            "model": "m",
            "stream": True,
            "messages": [{"role": "user", "content": "hello"}],
            "tools": tools,
            **more,
        }
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
    tools = [{"type": "function", "name": name} for name in ("shell", "web_fetch")]
    return {"model": "m", "stream": True, "input": [message], "tools": tools, "prompt_cache_key": "k", **more}


def heard(route: str, body: dict[str, Any] | None = None, **headers: str) -> Heard:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Heard("POST" if body is not None else "GET", route, names, json.dumps(body or {}).encode())


def asked(speaker: Speaker, **more: Any) -> Asked:
    return speaker.listen(heard(ROUTES[type(speaker)], request(type(speaker), **more)))


def sent(answer: Answer) -> list[dict[str, Any]]:
    """The data of a stream's events."""
    lines = b"".join(answer.events or []).decode().splitlines()
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(line) for line in data if line != "[DONE]"]


@pytest.mark.parametrize("kind", ALL)
def test_a_request_with_tools_is_the_agents_own(kind: type[Speaker]) -> None:
    ask = asked(kind())
    assert (ask.kind, ask.answer, ask.streaming, ask.messages) == ("main", None, True, 1)
    assert ask.tools == ("shell", "web_fetch")
    assert ask.opening == ask.last == "hello"


@pytest.mark.parametrize("kind", ALL)
def test_a_request_without_tools_is_answered_beside_the_script(kind: type[Speaker]) -> None:
    ask = asked(kind(), tools=[])
    assert ask.kind == "side"
    assert ask.label
    assert ask.answer is not None
    assert ask.answer.status == 200


@pytest.mark.parametrize("kind", ALL)
def test_anything_else_is_told_that_it_is_not_there(kind: type[Speaker]) -> None:
    ask = kind().listen(heard("/somewhere/else"))
    assert (ask.kind, ask.answer and ask.answer.status) == ("side", 404)


@pytest.mark.parametrize("kind", ALL)
def test_a_retry_is_known_and_the_next_request_is_another(kind: type[Speaker]) -> None:
    speaker = kind()
    first, again = asked(speaker), asked(speaker)
    key = "contents" if kind is Gemini else "messages" if kind is Chat else "input"
    longer = asked(speaker, **{key: [*request(kind)[key], *request(kind)[key]]})
    assert first.same == again.same != longer.same


RESULTS: dict[type[Speaker], dict[str, Any]] = {
    Responses: {
        "input": [
            {"type": "function_call", "call_id": "call_1", "name": "shell", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "seven"},
            {
                "type": "custom_tool_call_output",
                "call_id": "call_2",
                "output": [{"type": "input_text", "text": "eight"}],
            },
        ]
    },
    Chat: {
        "messages": [
            {"role": "tool", "tool_call_id": "call_1", "content": "seven"},
            {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "eight"}]},
        ]
    },
    Gemini: {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "call_1", "name": "shell", "response": {"output": "seven"}}},
                    {"functionResponse": {"id": "call_2", "name": "shell", "response": {"error": "eight"}}},
                ],
            }
        ]
    },
}
RESULTS[Xai] = RESULTS[Responses]


@pytest.mark.parametrize("kind", ALL)
def test_tool_results_come_with_the_id_of_their_call(kind: type[Speaker]) -> None:
    results = asked(kind(), **RESULTS[kind]).results
    assert [(result.call, result.text) for result in results] == [("call_1", "seven"), ("call_2", "eight")]
    assert results[1].error is (True if kind is Gemini else None)


def test_an_answer_of_the_responses_api() -> None:
    speaker = Responses()
    calls = [Call("call_1", "shell", {"command": "ls"}), Call("call_2", "exec", "text(1)")]
    events = sent(speaker.speak(asked(speaker), TURN, calls, "001"))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert text == TURN["text"]
    final = events[-1]["response"]
    assert events[-1]["type"] == "response.completed"
    assert [item["type"] for item in final["output"]] == ["reasoning", "message", "function_call", "custom_tool_call"]
    assert json.loads(final["output"][2]["arguments"]) == {"command": "ls"}
    assert final["output"][3]["input"] == "text(1)"
    assert final["usage"] == {
        "input_tokens": 35, "input_tokens_details": {"cached_tokens": 20}, "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 42,
    }  # fmt: skip


def test_an_answer_of_the_chat_api() -> None:
    speaker = Chat()
    events = sent(speaker.speak(asked(speaker), TURN, [Call("call_1", "shell", {"command": "ls"})], "001"))
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == TURN["text"]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == TURN["thinking"]
    (call,) = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert (call["id"], json.loads(call["function"]["arguments"])) == ("call_1", {"command": "ls"})
    assert events[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert events[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 20}


def test_an_answer_of_the_gemini_api() -> None:
    speaker = Gemini()
    events = sent(speaker.speak(asked(speaker), TURN, [Call("call_1", "shell", {"command": "ls"})], "001"))
    parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
    assert "".join(part.get("text", "") for part in parts if not part.get("thought")) == TURN["text"]
    assert parts[0] == {"text": "Let me think.", "thought": True}
    assert {"functionCall": {"id": "call_1", "name": "shell", "args": {"command": "ls"}}} in parts
    assert events[-1]["candidates"][0]["finishReason"] == "STOP"
    assert events[-1]["usageMetadata"] == {
        "promptTokenCount": 35, "cachedContentTokenCount": 20, "candidatesTokenCount": 7, "totalTokenCount": 42,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ALL)
def test_an_answer_without_streaming_says_the_same(kind: type[Speaker]) -> None:
    speaker = kind()
    ask = asked(speaker)._replace(streaming=False)
    answer = speaker.speak(ask, {"text": "whole"}, [Call("call_1", "shell", {"command": "ls"})], "001")
    assert answer.events is None
    assert {"whole", "call_1", "shell"} <= set(_strings(json.loads(answer.body)))


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _strings(inner)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
def test_a_refusal_has_the_vendors_shape(kind: type[Speaker], status: int) -> None:
    speaker = kind()
    turn = {"status": status, "error": {"message": "not today"}, "retry_after": 1.5, "headers": {"x-more": "1"}}
    answer = speaker.refuse(asked(speaker), turn, "001")
    body = json.loads(answer.body)
    assert answer.status == status
    assert (answer.headers["retry-after"], answer.headers["x-more"]) == ("1.5", "1")
    assert (body["error"] if kind is Xai else body["error"]["message"]) == "not today"


@pytest.mark.parametrize("kind", ALL)
def test_a_limit_is_what_the_cli_knows_as_one(kind: type[Speaker]) -> None:
    speaker = kind()
    answer = speaker.refuse(asked(speaker), {"limit": {"resets_in": 7200.0, "window": "five_hour"}}, "001")
    assert answer.status == (402 if kind is Xai else 429)
    telling = {
        Responses: "usage_limit_reached",
        Xai: "run out of credits",
        Chat: "insufficient_quota",
        Gemini: "PerDay",
    }
    assert telling[kind] in answer.body.decode()


@pytest.mark.parametrize("kind", ALL)
def test_a_stream_that_breaks_off_says_so_in_it(kind: type[Speaker]) -> None:
    speaker = kind()
    events = sent(speaker.speak(asked(speaker), {"stream_error": {"message": "gone wrong"}, "text": "x"}, [], "001"))
    assert "gone wrong" in json.dumps(events[-1])


# -- what each CLI does that a test of the protocol alone would not think of


def test_codex_is_refused_a_websocket_by_the_status_that_it_takes_well() -> None:
    ask = Responses().listen(heard("/v1/responses", upgrade="websocket"))
    assert (ask.label, ask.answer and ask.answer.status) == ("websocket", 426)


def test_codex_hides_its_tools_in_an_input_item_and_web_search_in_a_description() -> None:
    hidden = {
        "type": "additional_tools",
        "tools": [
            {"type": "namespace", "name": "functions", "tools": [
                {"type": "custom", "name": "exec", "description": "Run it.\n### `exec_command`\n…\n### `web__run`\n…"},
            ]},
            {"type": "function", "name": "wait"},
        ],
    }  # fmt: skip
    body = request(Responses, input=[hidden])
    del body["tools"]
    ask = Responses().listen(heard("/v1/responses", body))
    assert ask.kind == "main"
    assert set(ask.tools) == {"exec", "wait", "web__run"}


def test_a_search_that_runs_at_the_vendor_is_a_tool_by_its_type() -> None:
    tools = [{"type": "web_search", "external_web_access": True}, {"type": "function", "name": "shell"}]
    assert asked(Responses(), tools=tools).tools == ("web_search", "shell")


def test_codex_speaks_of_its_effort() -> None:
    assert asked(Responses(), reasoning={"effort": "xhigh"}).effort == "xhigh"


def test_a_second_thread_of_codex_is_a_sub_agent() -> None:
    speaker = Responses()
    assert asked(speaker).kind == "main"
    other = asked(speaker, prompt_cache_key="another")
    assert (other.kind, other.thread) == ("subagent", "another")


def test_grok_asks_for_titles_and_summaries_that_are_no_turn() -> None:
    title = {"type": "function", "name": "session_title"}
    assert asked(Xai(), tools=[title]).label == "session title"
    summary = Xai().listen(heard("/v1/responses", request(Xai), x_grok_req_id="xai-turn-summary-1"))
    assert (summary.kind, summary.label) == ("side", "turn-summary-1")


def test_grok_is_given_a_catalogue_with_levels_and_search() -> None:
    """Without levels it would drop any effort in silence; without search there would be nothing to switch off."""
    answer = Xai().listen(heard("/v1/models")).answer
    assert answer is not None
    models = {model["id"]: model for model in json.loads(answer.body)["data"]}
    assert [level["value"] for level in models["grok-4.6"]["reasoning_efforts"]] == ["xhigh", "high", "medium", "low"]
    assert models["grok-4.6"]["supports_backend_search"] is True


def test_gemini_asks_itself_questions_in_json() -> None:
    ask = asked(Gemini(), generationConfig={"responseMimeType": "application/json"})
    assert ask.answer is not None
    texts = [part["text"] for event in sent(ask.answer) for part in event["candidates"][0]["content"]["parts"]]
    assert json.loads("".join(texts))["next_speaker"] == "user"


def test_a_web_search_of_gemini_is_a_call_beside_the_script() -> None:
    ask = asked(Gemini(), tools=[{"googleSearch": {}}])
    assert (ask.kind, ask.label, ask.tools) == ("side", "web tool", ("googleSearch",))


@pytest.mark.parametrize(
    ("config", "effort"),
    [({"thinkingBudget": 512}, "512 thinking tokens"), ({"thinkingLevel": "HIGH"}, "HIGH"), ({}, None)],
)
def test_gemini_thinks_within_a_budget_or_at_a_level(config: dict[str, Any], effort: str | None) -> None:
    assert asked(Gemini(), generationConfig={"thinkingConfig": config}).effort == effort


@pytest.mark.parametrize("kind", ALL)
def test_no_request_stops_it(kind: type[Speaker]) -> None:
    speaker = kind()
    odd: list[Any] = [None, 1, "x", [], [1], {}, {"a": 1}, [{}], [None]]
    for body in odd:
        speaker.listen(Heard("POST", ROUTES[kind], {}, json.dumps(body).encode()))
    for key in ("input", "messages", "contents", "tools", "reasoning", "generationConfig"):
        for value in odd:
            speaker.listen(heard(ROUTES[kind], {**request(kind), key: value}))
    speaker.listen(Heard("POST", ROUTES[kind], {}, b"\xff\xfe{"))
