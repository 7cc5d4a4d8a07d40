"""The chat completions API, as opencode 1.18.33 uses it through its OpenAI-compatible provider."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from assay.rehearsal.protocol import Answer, Asked, Call, Heard, Json, Result, shorten, table, tables, usage

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDE_TURN: Json = {"text": "Rehearsal", "usage": {"input": 0, "output": 0}}
CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
STEP = 40
MAX_RESULTS = 64


class Chat:
    """Speaks for the chat API at api.openai.com."""

    def listen(self, heard: Heard) -> Asked:
        """Say what a request wants; one that offers no tools is a side request (a title, a summary)."""
        if heard.method != "POST" or not heard.route.endswith("/chat/completions"):
            return Asked("side", "unknown", Answer.of(_error(404, {"message": f"nothing at {heard.route}"}), 404))
        body = heard.json()
        messages = tables(body.get("messages"))
        tools = tuple(str(table(tool.get("function")).get("name")) for tool in tables(body.get("tools")))
        label = "" if tools else "no tools"
        first = next((_text(m) for m in messages if m.get("role") == "user"), "")
        asked = Asked(
            "side" if label else "main",
            label,
            same=hash(json.dumps(messages, sort_keys=True)),
            opening=first,
            last=shorten(_text(messages[-1])) if messages else "",
            messages=len(messages),
            model=str(body.get("model", "")),
            effort=body.get("reasoning_effort"),
            tools=tools,
            streaming=bool(body.get("stream")),
            results=tuple(_results(messages)[-MAX_RESULTS:]),
        )
        return asked._replace(answer=self.speak(asked, SIDE_TURN, [], "side")) if label else asked

    def call_id(self, serial: str, n: int) -> str:
        """As `call_…`."""
        return f"call_rehearsal{serial}c{n:02d}"

    def speak(self, asked: Asked, turn: Json, calls: list[Call], serial: str) -> Answer:
        """A message with text and tool calls; reasoning goes where compatible vendors put it."""
        headers = {"x-request-id": f"req_rehearsal{serial}", **turn.get("headers", {})}
        base = {"id": f"chatcmpl-rehearsal{serial}", "created": int(time.time()), "model": asked.model}
        stop = {"max_tokens": "length", "refusal": "content_filter"}.get(turn.get("stop", ""))
        finish = stop or ("tool_calls" if calls else "stop")
        if not asked.streaming:
            message: Json = {"role": "assistant", "content": turn.get("text", "")}
            if calls:
                message["tool_calls"] = [_call(n, call) for n, call in enumerate(calls)]
            choice = {"index": 0, "message": message, "finish_reason": finish}
            whole = {**base, "object": "chat.completion", "choices": [choice], "usage": _usage(turn)}
            return Answer.of(whole, 200, headers)
        headers |= {"content-type": "text/event-stream", "cache-control": "no-cache"}
        chunk = {**base, "object": "chat.completion.chunk"}
        events = [{**chunk, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in _deltas(turn, calls)]
        if "stream_error" in turn:
            return Answer(200, headers, events=[_event(events[0]), _event(_error(500, turn["stream_error"] or {}))])
        events.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        events.append({**chunk, "choices": [], "usage": _usage(turn)})
        return Answer(200, headers, events=[*map(_event, events), b"data: [DONE]\n\n"])

    def refuse(self, asked: Asked, turn: Json, serial: str) -> Answer:  # noqa: ARG002 - same answer to every request
        """An error object; a `limit` is the quota of the account."""
        headers = {"x-request-id": f"req_rehearsal{serial}", **turn.get("headers", {})}
        if "limit" in turn:
            error = {"message": "You exceeded your current quota, please check your plan and billing details."}
            body = _error(429, error)
            body["error"] |= {"type": "insufficient_quota", "code": "insufficient_quota"}
            return Answer.of(body, 429, headers)
        if "retry_after" in turn:
            headers.setdefault("retry-after", f"{turn['retry_after']:g}")
        return Answer.of(_error(turn["status"], turn.get("error") or {}), turn["status"], headers)


def _deltas(turn: Json, calls: list[Call]) -> Iterator[Json]:
    yield {"role": "assistant", "content": ""}
    for key, text in (("reasoning_content", turn.get("thinking", "")), ("content", turn.get("text", ""))):
        for n in range(0, len(text), STEP):
            yield {key: text[n : n + STEP]}
    if calls:
        yield {"tool_calls": [_call(n, call) for n, call in enumerate(calls)]}


def _call(n: int, call: Call) -> Json:
    arguments = call.input if isinstance(call.input, str) else json.dumps(call.input, ensure_ascii=False)
    return {"index": n, "id": call.id, "type": "function", "function": {"name": call.tool, "arguments": arguments}}


def _event(value: Json) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _usage(turn: Json) -> Json:
    tokens = usage(turn)
    given = tokens["input"] + tokens["cached"] + tokens["cache_write"]
    return {
        "prompt_tokens": given,
        "completion_tokens": tokens["output"],
        "total_tokens": given + tokens["output"],
        "prompt_tokens_details": {"cached_tokens": tokens["cached"]},
    }


def _error(status: int, given: Json) -> Json:
    kind = given.get("type", "server_error" if status >= 500 else "invalid_request_error")
    message = given.get("message", f"rehearsed error {status}")
    return {"error": {"message": message, "type": kind, "param": None, "code": CODES.get(status)}}


def _text(message: Json) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in tables(content))


def _results(messages: list[Json]) -> list[Result]:
    """Every output in the conversation: the whole of it comes with each request."""
    return [Result(str(m.get("tool_call_id")), _text(m)) for m in messages if m.get("role") == "tool"]
