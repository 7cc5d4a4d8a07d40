"""The Gemini API, as Gemini CLI 0.61.0 uses it at generativelanguage.googleapis.com."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from assay.rehearsal.protocol import Answer, Asked, Call, Heard, Json, Result, shorten, table, tables, usage

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDE_TURN: Json = {"text": "Rehearsal", "usage": {"input": 0, "output": 0}}
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
SIDE_JSON = {
    "reasoning": "rehearsal",
    "next_speaker": "user",
    "model_choice": "flash",
    "complexity_reasoning": "rehearsal",
    "complexity_score": 1,
}
"""What the CLI's own questions are answered with: who speaks next, how hard the task is."""

STEP = 40
MAX_RESULTS = 64


class Gemini:
    """Speaks for generativelanguage.googleapis.com."""

    def listen(self, heard: Heard) -> Asked:
        """Say what a request wants; a web search is a call of its own, and no turn of the script."""
        model, _, verb = heard.route.rpartition("/models/")[2].partition(":")
        if verb == "countTokens":
            return Asked("side", "count_tokens", Answer.of({"totalTokens": 1000}))
        if heard.method != "POST" or verb not in ("generateContent", "streamGenerateContent"):
            return Asked("side", "unknown", Answer.of(_error(404, {"message": f"nothing at {heard.route}"}), 404))
        body = heard.json()
        contents = tables(body.get("contents"))
        tools = tuple(_tools(body))
        config = table(body.get("generationConfig"))
        label = _label(config, tools)
        asked = Asked(
            "side" if label else "main",
            label,
            same=hash(json.dumps(contents, sort_keys=True)),
            opening=next((_text(c) for c in contents if c.get("role") == "user"), ""),
            last=shorten(_text({"parts": tables(contents[-1].get("parts"))[-1:]})) if contents else "",
            messages=len(contents),
            model=model,
            effort=_effort(config),
            tools=tools,
            streaming=verb == "streamGenerateContent",
            results=tuple(_results(contents)[-MAX_RESULTS:]),
        )
        if not label:
            return asked
        turn: Json = {**SIDE_TURN, "text": json.dumps(SIDE_JSON)} if label == "json" else SIDE_TURN
        return asked._replace(answer=self.speak(asked, turn, [], "side"))

    def call_id(self, serial: str, n: int) -> str:
        """The API gives an id of its own, which the CLI sends back with the result."""
        return f"rehearsal{serial}c{n:02d}"

    def speak(self, asked: Asked, turn: Json, calls: list[Call], serial: str) -> Answer:
        """Candidates with thoughts, text and function calls; the tokens come with the last of them."""
        headers = {"x-request-id": f"rehearsal{serial}", **turn.get("headers", {})}
        finish = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}.get(turn.get("stop", ""), "STOP")
        last = {"usageMetadata": _usage(turn), "modelVersion": asked.model}
        pieces = list(_parts(turn, calls))
        if not asked.streaming:
            return Answer.of({"candidates": [_candidate(pieces, finish)], **last}, 200, headers)
        headers["content-type"] = "text/event-stream"
        events: list[Json] = [
            {"candidates": [_candidate([piece], None)], "modelVersion": asked.model} for piece in pieces
        ]
        if "stream_error" in turn:
            return Answer(
                200, headers, events=[*map(_event, events[:1]), _event(_error(500, turn["stream_error"] or {}))]
            )
        events.append({"candidates": [_candidate([], finish)], **last})
        return Answer(200, headers, events=[*map(_event, events)])

    def refuse(self, asked: Asked, turn: Json, serial: str) -> Answer:  # noqa: ARG002 - same answer to every request
        """An error object; a `limit` is the quota of a day."""
        headers = {"x-request-id": f"rehearsal{serial}", **turn.get("headers", {})}
        if "limit" in turn:
            violation = {
                "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
                "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier",
            }
            body = _error(
                429, {"message": "You exceeded your current quota, please check your plan and billing details."}
            )
            detail = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}
            body["error"]["details"] = [detail]
            return Answer.of(body, 429, headers)
        if "retry_after" in turn:
            headers.setdefault("retry-after", f"{turn['retry_after']:g}")
        return Answer.of(_error(turn["status"], turn.get("error") or {}), turn["status"], headers)


def _label(config: Json, tools: tuple[str, ...]) -> str:
    if config.get("responseMimeType") == "application/json":
        return "json"
    if "googleSearch" in tools:
        return "web tool"
    return "" if tools else "no tools"


def _tools(body: Json) -> Iterator[str]:
    for tool in tables(body.get("tools")):
        yield from (str(function.get("name")) for function in tables(tool.get("functionDeclarations")))
        yield from (key for key in tool if key != "functionDeclarations")


def _effort(config: Json) -> str | None:
    thinking = table(config.get("thinkingConfig"))
    budget = thinking.get("thinkingBudget")
    return thinking.get("thinkingLevel") or (f"{budget} thinking tokens" if budget is not None else None)


def _parts(turn: Json, calls: list[Call]) -> Iterator[Json]:
    if "thinking" in turn:
        yield {"text": turn["thinking"], "thought": True}
    text = turn.get("text", "")
    for n in range(0, len(text), STEP):
        yield {"text": text[n : n + STEP]}
    for call in calls:
        yield {"functionCall": {"id": call.id, "name": call.tool, "args": call.input}}


def _candidate(parts: list[Json], finish: str | None) -> Json:
    content = {"role": "model", "parts": parts or [{"text": ""}]}
    return {"content": content, "index": 0, **({"finishReason": finish} if finish else {})}


def _event(value: Json) -> bytes:
    return f"data: {json.dumps(value)}\r\n\r\n".encode()


def _usage(turn: Json) -> Json:
    tokens = usage(turn)
    given = tokens["input"] + tokens["cached"] + tokens["cache_write"]
    return {
        "promptTokenCount": given,
        "cachedContentTokenCount": tokens["cached"],
        "candidatesTokenCount": tokens["output"],
        "totalTokenCount": given + tokens["output"],
    }


def _error(status: int, given: Json) -> Json:
    message = given.get("message", f"rehearsed error {status}")
    return {"error": {"code": status, "message": message, "status": given.get("type", STATUSES.get(status, "UNKNOWN"))}}


def _text(content: Json) -> str:
    texts = []
    for part in tables(content.get("parts")):
        response = table(table(part.get("functionResponse")).get("response"))
        texts.append(str(part.get("text") or response.get("output") or response.get("error") or ""))
    return "\n".join(texts)


def _results(contents: list[Json]) -> list[Result]:
    """Every output in the conversation: the whole of it comes with each request."""
    results = []
    for part in (part for content in contents for part in tables(content.get("parts"))):
        if found := table(part.get("functionResponse")):
            response = table(found.get("response"))
            text = str(response.get("output") or response.get("error") or "")
            results.append(Result(str(found.get("id")), text, True if "error" in response else None))
    return results
