"""The Responses API, as Codex 0.171.0 uses it at api.openai.com; xai.py says what differs at api.x.ai.

Codex tries a WebSocket first. A refusal by 426 makes it go over to HTTP at once and in silence; 404 or 401 cost it ten
seconds and four errors in its stream. The request of a model that programs its tools has no `tools`: they are in an
input item, and web search is a paragraph in the description of one of them.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from assay.rehearsal.protocol import Answer, Asked, Call, Heard, Json, Result, shorten, table, tables, usage

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDE_TURN: Json = {"text": "Rehearsal", "usage": {"input": 0, "output": 0}}
OUTPUTS = ("function_call_output", "custom_tool_call_output")
ANSWERS = ("function_call", "custom_tool_call", "reasoning", "web_search_call")
ERROR_TYPES = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
STEP = 40
MAX_RESULTS = 64


class Responses:
    """Speaks for api.openai.com."""

    def __init__(self) -> None:
        self._main = ""

    def listen(self, heard: Heard) -> Asked:
        """Say what a request wants; whatever is not a response of the agent is a side request."""
        if heard.headers.get("upgrade", "").lower() == "websocket":
            return Asked("side", "websocket", Answer.of({"error": {"message": "HTTP only"}}, 426))
        if heard.method == "POST" and heard.route.endswith("/responses"):
            return self._response(heard, heard.json())
        return Asked("side", *self._side(heard))

    def call_id(self, serial: str, n: int) -> str:
        """As `call_…`."""
        return f"call_rehearsal{serial}c{n:02d}"

    def speak(self, asked: Asked, turn: Json, calls: list[Call], serial: str) -> Answer:
        """A response with reasoning, a message and tool calls in this order."""
        response = {
            "id": f"resp_rehearsal{serial}",
            "object": "response",
            "created_at": int(time.time()),
            "model": asked.model,
            "status": "in_progress",
            "output": [],
            "error": None,
            "incomplete_details": None,
        }
        output = _output(turn, calls, serial)
        final = {**response, **self._end(turn), "output": output, "usage": self._usage(turn)}
        headers = {"x-request-id": f"req_rehearsal{serial}", **turn.get("headers", {})}
        if not asked.streaming:
            return Answer.of(final, 200, headers)
        headers |= {"content-type": "text/event-stream", "cache-control": "no-cache"}
        events = [{"type": "response.created", "response": response}]
        if "stream_error" not in turn:
            events += [event for n, item in enumerate(output) for event in _item_events(n, item)]
        events.append({"type": f"response.{final['status']}", "response": final})
        lines = [
            f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': n})}\n\n".encode()
            for n, event in enumerate(events)
        ]
        return Answer(200, headers, events=lines)

    def refuse(self, asked: Asked, turn: Json, serial: str) -> Answer:  # noqa: ARG002 - same answer to every request
        """An error object; a `limit` is the 429 of a subscription whose window is used up."""
        headers = {"x-request-id": f"req_rehearsal{serial}", **turn.get("headers", {})}
        if "limit" in turn:
            return self._limit(turn["limit"], headers)
        status, given = turn["status"], turn.get("error") or {}
        if "retry_after" in turn:
            headers.setdefault("retry-after", f"{turn['retry_after']:g}")
        return Answer.of(self._error(status, given), status, headers)

    # -- what differs between vendors

    def _side(self, heard: Heard) -> tuple[str, Answer]:
        label = "models" if heard.route.endswith("/models") else "unknown"
        return label, Answer.of({"error": {"message": f"rehearsal: nothing at {shorten(heard.route)}"}}, 404)

    def _label(self, heard: Heard, tools: tuple[str, ...]) -> str:  # noqa: ARG002 - xai.py asks the headers
        """Why a request is none of the agent's own; "" if it is."""
        return "" if tools else "no tools"

    def _usage(self, turn: Json) -> Json:
        tokens = usage(turn)
        given = tokens["input"] + tokens["cached"] + tokens["cache_write"]
        return {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": tokens["cached"]},
            "output_tokens": tokens["output"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": given + tokens["output"],
        }

    def _error(self, status: int, given: Json) -> Json:
        kind, code = ERROR_TYPES.get(status, ("server_error", None))
        message = given.get("message", f"rehearsed error {status}")
        return {"error": {"message": message, "type": given.get("type", kind), "param": None, "code": code}}

    def _limit(self, limit: Json, headers: dict[str, str]) -> Answer:
        seconds = int(limit["resets_in"])
        error = {
            "type": "usage_limit_reached",
            "message": "The usage limit has been reached",
            "plan_type": "plus",
            "resets_at": int(time.time()) + seconds,
            "resets_in_seconds": seconds,
        }
        window = "primary" if limit["window"] == "five_hour" else "secondary"
        used = {f"x-codex-{window}-used-percent": "100", f"x-codex-{window}-reset-after-seconds": str(seconds)}
        return Answer.of({"error": error}, 429, {"x-codex-plan-type": "plus", **used, **headers})

    # -- reading

    def _response(self, heard: Heard, body: Json) -> Asked:
        given = tables(body.get("input"))
        tools = tuple(_tools(body, given))
        label = self._label(heard, tools)
        thread = str(body.get("prompt_cache_key") or "main")
        if not label:
            self._main = self._main or thread
        user = [_text(item) for item in given if item.get("role") == "user"]
        asked = Asked(
            "side" if label else "main" if thread == self._main else "subagent",
            label,
            thread="main" if thread == self._main else thread,
            same=hash(json.dumps(given, sort_keys=True)),
            opening="\n".join(user),
            last=shorten(_text(given[-1])) if given else "",
            messages=len(given),
            model=str(body.get("model", "")),
            effort=table(body.get("reasoning")).get("effort"),
            tools=tools,
            streaming=bool(body.get("stream")),
            results=tuple(_results(given)[-MAX_RESULTS:]),
        )
        return asked._replace(answer=self.speak(asked, SIDE_TURN, [], "side")) if label else asked

    def _end(self, turn: Json) -> Json:
        if "stream_error" in turn:
            error = turn["stream_error"] or {}
            code = error.get("type", "server_error")
            return {"status": "failed", "error": {"code": code, "message": error.get("message", "rehearsed error")}}
        if turn.get("stop") == "max_tokens":
            return {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        return {"status": "completed"}


def _output(turn: Json, calls: list[Call], serial: str) -> list[Json]:
    output: list[Json] = []
    if "thinking" in turn:
        summary = [{"type": "summary_text", "text": turn["thinking"]}]
        output.append({"type": "reasoning", "id": f"rs_rehearsal{serial}", "summary": summary})
    if "text" in turn:
        kind, key = ("refusal", "refusal") if turn.get("stop") == "refusal" else ("output_text", "text")
        content = {"type": kind, key: turn["text"], **({"annotations": []} if key == "text" else {})}
        message = {"type": "message", "id": f"msg_rehearsal{serial}", "role": "assistant", "status": "completed"}
        output.append({**message, "content": [content], "phase": "commentary" if calls else "final_answer"})
    for n, call in enumerate(calls):
        free = isinstance(call.input, str)
        common = {"call_id": call.id, "name": call.tool, "status": "completed"}
        if free:
            output.append({"type": "custom_tool_call", "id": f"ctc_{serial}{n}", **common, "input": call.input})
        else:
            arguments = json.dumps(call.input, ensure_ascii=False)
            output.append({"type": "function_call", "id": f"fc_{serial}{n}", **common, "arguments": arguments})
    return output


def _item_events(index: int, item: Json) -> Iterator[Json]:
    """One output item as it is streamed."""
    where = {"output_index": index, "item_id": item["id"]}
    begun = {**item, "status": "in_progress"}
    if item["type"] == "message":
        part = item["content"][0]
        yield {"type": "response.output_item.added", "output_index": index, "item": {**begun, "content": []}}
        yield {"type": "response.content_part.added", **where, "content_index": 0, "part": {**part, **_emptied(part)}}
        name = part["type"]
        for piece in _cut(part.get("text", part.get("refusal", ""))):
            yield {"type": f"response.{name}.delta", **where, "content_index": 0, "delta": piece}
        yield {"type": f"response.{name}.done", **where, "content_index": 0, **_kept(part)}
        yield {"type": "response.content_part.done", **where, "content_index": 0, "part": part}
    elif item["type"] == "reasoning":
        text = item["summary"][0]["text"]
        yield {"type": "response.output_item.added", "output_index": index, "item": {**begun, "summary": []}}
        empty = {"type": "summary_text", "text": ""}
        yield {"type": "response.reasoning_summary_part.added", **where, "summary_index": 0, "part": empty}
        for piece in _cut(text):
            yield {"type": "response.reasoning_summary_text.delta", **where, "summary_index": 0, "delta": piece}
        yield {"type": "response.reasoning_summary_text.done", **where, "summary_index": 0, "text": text}
        yield {"type": "response.reasoning_summary_part.done", **where, "summary_index": 0, "part": item["summary"][0]}
    elif item["type"] == "function_call":
        yield {"type": "response.output_item.added", "output_index": index, "item": {**begun, "arguments": ""}}
        yield {"type": "response.function_call_arguments.delta", **where, "delta": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **where, "arguments": item["arguments"]}
    else:
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _emptied(part: Json) -> Json:
    return {key: "" for key in ("text", "refusal") if key in part}


def _kept(part: Json) -> Json:
    return {key: part[key] for key in ("text", "refusal") if key in part}


def _cut(text: str) -> list[str]:
    return [text[n : n + STEP] for n in range(0, len(text), STEP)]


def _tools(body: Json, given: list[Json]) -> Iterator[str]:
    """Names of all tools on offer, web tools that are hidden in another's description included."""
    stack = tables(body.get("tools"))
    stack += [tool for item in given if item.get("type") == "additional_tools" for tool in tables(item.get("tools"))]
    for tool in stack:
        if tool.get("type") == "namespace":
            stack += tables(tool.get("tools"))
            continue
        yield str(tool.get("name") or tool.get("type"))
        for part in str(tool.get("description", "")).split("### `")[1:]:
            if part.startswith("web"):
                yield part.partition("`")[0]


def _text(item: Json) -> str:
    """All that a person could read in an input item."""
    for key in ("output", "arguments", "input"):
        if key in item:
            return _joined(item[key])
    return _joined(item.get("content"))


def _joined(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in tables(content))


def _results(given: list[Json]) -> list[Result]:
    """Every output in the conversation: the whole of it comes with each request."""
    return [
        Result(str(item.get("call_id")), _joined(item.get("output"))) for item in given if item.get("type") in OUTPUTS
    ]
