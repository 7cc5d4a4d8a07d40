"""The API at api.x.ai, as Grok CLI 1.0.41 uses it: the Responses API, with a catalogue and side calls of its own."""

from __future__ import annotations

from assay.rehearsal.protocol import Answer, Heard, Json, shorten
from assay.rehearsal.responses import Responses

CODES = {
    400: "Client specified an invalid argument",
    401: "unauthenticated:bad-credentials",
    402: "payment required",
    403: "The caller does not have permission",
    404: "Some requested entity was not found",
    429: "Some resource has been exhausted",
    503: "unavailable",
}
API_KEY = {
    "redacted_api_key": "xai-...rehearsal",
    "user_id": "00000000-0000-0000-0000-000000000001",
    "name": "rehearsal",
    "create_time": "2026-01-01T00:00:00Z",
    "modify_time": "2026-01-01T00:00:00Z",
    "modified_by": "",
    "team_id": "00000000-0000-0000-0000-000000000002",
    "acls": ["api-key:model:*", "api-key:endpoint:*"],
    "api_key_id": "00000000-0000-0000-0000-000000000003",
    "team_blocked": False,
    "api_key_blocked": False,
    "api_key_disabled": False,
}


class Xai(Responses):
    """Speaks for api.x.ai."""

    def _side(self, heard: Heard) -> tuple[str, Answer]:
        if heard.route.endswith("/models"):
            models = [
                _model("grok-4.6", ("xhigh", "high", "medium", "low")),
                _model("grok-4.5", ("high", "medium", "low")),
            ]
            return "models", Answer.of({"object": "list", "data": models})
        if heard.route.endswith("/api-key"):
            return "api-key", Answer.of(API_KEY)
        return "unknown", Answer.of(self._error(404, {"message": f"nothing at {shorten(heard.route)}"}), 404)

    def _label(self, heard: Heard, tools: tuple[str, ...]) -> str:
        """The title of a session is asked for with one tool, a summary of the turn under a name in a header."""
        name = heard.headers.get("x-grok-req-id", "")
        if name.startswith("xai-"):
            return shorten(name.removeprefix("xai-"), 40)
        return "session title" if "session_title" in tools or len(tools) < 2 else ""

    def _error(self, status: int, given: Json) -> Json:
        code = given.get("type", CODES.get(status, "internal"))
        return {"code": code, "error": given.get("message", f"rehearsed error {status}")}

    def _limit(self, limit: Json, headers: dict[str, str]) -> Answer:  # noqa: ARG002 - no time is told
        words = "Your team has run out of credits. Purchase credits to keep using Grok Build."
        return Answer.of(self._error(402, {"message": words}), 402, headers)


def _model(name: str, efforts: tuple[str, ...]) -> Json:
    """An entry of the catalogue, which decides whether an effort is sent and whether search is offered."""
    levels = [{"value": e, "label": e, "description": e, "default": e == "high"} for e in efforts]
    return {
        "id": name,
        "object": "model",
        "created": 1780000000,
        "owned_by": "xai",
        "model": name,
        "name": name,
        "model_family": "xai",
        "context_window": 500000,
        "api_backend": "responses",
        "supports_backend_search": True,
        "supports_reasoning_effort": True,
        "reasoning_effort": "high",
        "reasoning_efforts": levels,
    }
