"""The Anthropic Messages API, as Claude Code 2.1.332 uses it.

A turn becomes a message streamed as server-sent events, or one JSON object where the CLI asks without streaming, which
it does by itself after a stream broke off.
"""

from __future__ import annotations

import json
import time

from assay.rehearsal.protocol import Answer, Asked, Call, Heard, Json, Kind, Result, shorten, table, tables, usage

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
CLASSES: dict[str, Kind] = {"main": "main", "subagent": "subagent", "workflow": "subagent"}
SIDE_TURN = {"text": "Rehearsal", "usage": {"input": 0, "output": 0}}
WINDOWS = {"five_hour": "5h", "seven_day": "7d"}
LIMIT_TEXT = "This request would exceed your account's rate limit. Please try again later."
TEXT_STEP, INPUT_STEP = 40, 60


class Anthropic:
    """Speaks for api.anthropic.com."""

    def listen(self, heard: Heard) -> Asked:
        """Say what a request wants; whatever is not a message of the agent is a side request."""
        if heard.route == "/v1/messages/count_tokens":
            return Asked("side", "count_tokens", Answer.of({"input_tokens": 1000}))
        if heard.method == "HEAD":
            return Asked("side", "probe", Answer.of({}))
        if heard.route != "/v1/messages" or heard.method != "POST":
            return Asked("side", "unknown", self._error(404, "not_found_error", heard.route, "side"))
        return self._message(heard, heard.json())

    def call_id(self, serial: str, n: int) -> str:
        """As `toolu_…`."""
        return f"toolu_rehearsal{serial}c{n:02d}"

    def speak(self, asked: Asked, turn: Json, calls: list[Call], serial: str) -> Answer:
        """A message with thinking, text and tool calls in this order."""
        blocks = _blocks(turn, calls)
        stop = turn.get("stop") or ("tool_use" if calls else "end_turn")
        message = {
            "id": f"msg_rehearsal{serial}",
            "type": "message",
            "role": "assistant",
            "model": asked.model,
            "content": blocks,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": _usage(turn),
        }
        headers = {"request-id": f"req_rehearsal{serial}", **turn.get("headers", {})}
        error = turn.get("stream_error")
        if not asked.streaming:
            return (
                self.refuse(asked, {"status": 529, "error": error}, serial)
                if error
                else Answer.of(message, 200, headers)
            )
        headers["content-type"] = "text/event-stream; charset=utf-8"
        headers["cache-control"] = "no-cache"
        events = _broken(message, error) if error else _events(message)
        return Answer(200, headers, events=[_event(event) for event in events])

    def refuse(self, asked: Asked, turn: Json, serial: str) -> Answer:  # noqa: ARG002 - same answer to every request
        """An error object; a `limit` is a 429 with the headers by which the CLI knows the subscription's windows."""
        headers = dict(turn.get("headers", {}))
        if "limit" in turn:
            return self._error(429, "rate_limit_error", LIMIT_TEXT, serial, {**_limit(turn["limit"]), **headers})
        status = turn["status"]
        if "retry_after" in turn:
            headers.setdefault("retry-after", f"{turn['retry_after']:g}")
        given = turn.get("error") or f"rehearsed error {status}"
        kind = ERROR_TYPES.get(status, "api_error")
        if isinstance(given, dict):
            kind, given = given.get("type", kind), given.get("message", "")
        return self._error(status, kind, given, serial, headers)

    def _error(self, status: int, kind: str, text: str, serial: str, headers: dict[str, str] | None = None) -> Answer:
        request = f"req_rehearsal{serial}"
        body = {"type": "error", "error": {"type": kind, "message": text}, "request_id": request}
        return Answer.of(body, status, {"request-id": request, **(headers or {})})

    def _message(self, heard: Heard, body: Json) -> Asked:
        messages, tools = tables(body.get("messages")), tables(body.get("tools"))
        kind, label = _kind(heard, body, tools)
        said = [n for n, m in enumerate(messages) if m.get("role") == "assistant"]
        since = [m for m in messages[said[-1] + 1 if said else 0 :] if m.get("role") == "user"]
        asked = Asked(
            kind,
            label,
            thread=heard.headers.get("x-claude-code-agent-id", "subagent") if kind == "subagent" else "main",
            same=_digest(messages),
            opening="\n".join(_text(m) for m in messages[: said[0] if said else None] if m.get("role") == "user"),
            last=shorten(_last(since)),
            messages=len(messages),
            model=str(body.get("model", "")),
            effort=_effort(body),
            tools=tuple(str(tool.get("name") or tool.get("type")) for tool in tools),
            streaming=bool(body.get("stream")),
            results=tuple(_results(since)),
        )
        if kind != "side":
            return asked
        return asked._replace(answer=self.speak(asked, SIDE_TURN, [], "side"))


def _kind(heard: Heard, body: Json, tools: list[Json]) -> tuple[Kind, str]:
    """Claude Code 2.1.332 names the class of each request; without it a request with tools is the agent's own."""
    if tools and all(str(tool.get("type", "")).startswith("web_") for tool in tools):
        return "side", "web tool"
    given = heard.headers.get("x-claude-code-request-class")
    if given is None:
        return ("main", "") if tools and body.get("max_tokens") != 1 else ("side", "no tools")
    return CLASSES.get(given, "side"), "" if given in CLASSES else shorten(given)


def _blocks(turn: Json, calls: list[Call]) -> list[Json]:
    blocks: list[Json] = []
    if "thinking" in turn:
        blocks.append({"type": "thinking", "thinking": turn["thinking"], "signature": "cmVoZWFyc2Fs"})
    if "text" in turn:
        blocks.append({"type": "text", "text": turn["text"]})
    blocks += [{"type": "tool_use", "id": call.id, "name": call.tool, "input": call.input} for call in calls]
    return blocks


def _usage(turn: Json) -> Json:
    tokens = usage(turn)
    return {
        "input_tokens": tokens["input"],
        "cache_creation_input_tokens": tokens["cache_write"],
        "cache_read_input_tokens": tokens["cached"],
        "output_tokens": tokens["output"],
        "service_tier": "standard",
    }


def _broken(message: Json, error: Json) -> list[Json]:
    return [*_events(message)[:2], {"type": "error", "error": {"type": "overloaded_error", **error}}]


def _events(message: Json) -> list[Json]:
    tokens = message["usage"]
    # The true count of output tokens comes only with message_delta; before it the API says 1.
    start = {**message, "content": [], "stop_reason": None, "usage": {**tokens, "output_tokens": 1}}
    events: list[Json] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(message["content"]):
        empty, deltas = _deltas(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events += [{"type": "message_delta", "delta": ending, "usage": tokens}, {"type": "message_stop"}]
    return events


def _deltas(block: Json) -> tuple[Json, list[Json]]:
    """A block as it starts, and what fills it."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": t} for t in _cut(block["text"], TEXT_STEP)]
    if block["type"] == "thinking":
        return {"type": "thinking", "thinking": "", "signature": ""}, [
            *({"type": "thinking_delta", "thinking": t} for t in _cut(block["thinking"], TEXT_STEP)),
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    parts = _cut(json.dumps(block["input"], ensure_ascii=False), INPUT_STEP)
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]


def _cut(text: str, step: int) -> list[str]:
    """A text in pieces, of which even a very long one gives no more than a few hundred."""
    step = max(step, len(text) // 200)
    return [text[n : n + step] for n in range(0, len(text), step)]


def _event(event: Json) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _limit(limit: Json) -> dict[str, str]:
    """Headers of a used-up window of a subscription."""
    reset = str(int(time.time() + limit["resets_in"]))
    claim = WINDOWS[limit["window"]]
    unified = {
        "status": "rejected",
        "reset": reset,
        "representative-claim": limit["window"],
        f"{claim}-status": "rejected",
        f"{claim}-reset": reset,
        f"{claim}-utilization": "1.0",
        "overage-status": "rejected",
        "overage-disabled-reason": "org_level_disabled",
    }
    return {f"anthropic-ratelimit-unified-{name}": value for name, value in unified.items()}


def _effort(body: Json) -> str | None:
    effort = table(body.get("output_config")).get("effort")
    budget = table(body.get("thinking")).get("budget_tokens")
    return str(effort) if effort else f"{budget} thinking tokens" if budget else None


def _digest(messages: list[Json]) -> int:
    """Equal for a retry, whose cache breakpoints may stand elsewhere; with them a text is a block, without a string."""
    bare = [
        [m.get("role"), [{k: v for k, v in part.items() if k != "cache_control"} for part in _parts(m.get("content"))]]
        for m in messages
    ]
    return hash(json.dumps(bare, sort_keys=True))


def _parts(content: object) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return tables(content)


def _text(message: Json) -> str:
    """All that a person could read in a message."""
    texts = []
    for part in _parts(message.get("content")):
        if part.get("type") == "tool_result":
            texts.append("".join(str(p.get("text", "")) for p in _parts(part.get("content"))))
        elif part.get("type") == "tool_use":
            texts.append(f"{part.get('name')} {json.dumps(part.get('input'))}")
        else:
            texts.append(str(part.get("text", "")))
    return "\n".join(texts)


def _last(messages: list[Json]) -> str:
    """The newest thing said to the model: all tool results, or the last text, which stands behind the reminders."""
    results = _results(messages)
    texts = [str(part.get("text", "")) for m in messages[-1:] for part in _parts(m.get("content"))]
    return "\n".join(result.text for result in results) if results else "".join(texts[-1:])


def _results(messages: list[Json]) -> list[Result]:
    return [
        Result(
            str(part.get("tool_use_id")),
            "".join(str(p.get("text", "")) for p in _parts(part.get("content"))),
            bool(part.get("is_error")),
        )
        for message in messages
        for part in _parts(message.get("content"))
        if part.get("type") == "tool_result"
    ]
