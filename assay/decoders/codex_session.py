"""Codex's own session file, the rollout: what a run has spent, its model and effort, and the kind of a failure."""

from __future__ import annotations

import io
from dataclasses import dataclass

from assay.decoders.lines import Record, count, obj, records, string
from assay.model.events import Note
from assay.model.outcome import Tokens

LINES = (
    b'"session_meta"', b'"turn_context"', b'"token_usage_record"', b'"task_started"', b'"task_complete"',
)  # fmt: skip
"""Marks of the lines that are looked at; a rollout also holds everything that was ever said."""


@dataclass(slots=True)
class Rollout:
    """What the session file tells of the thread's last turn.

    Attributes:
        complete: Whether that turn came to its own end.
        failure: The CLI's own word for why it failed.
    """

    model: str | None = None
    effort: str | None = None
    version: str | None = None
    tokens: Tokens | None = None
    complete: bool = False
    failure: str | None = None

    @classmethod
    def read(cls, data: bytes, thread: str) -> Rollout:
        """Several files may follow each other: sub-agents have threads of their own under the same root turn."""
        rollout = cls()
        usages: dict[str, dict[str, Tokens]] = {}
        current, root = "", ""
        for record in records(line for line in io.BytesIO(data) if any(mark in line for mark in LINES)):
            if isinstance(record, Note):
                continue
            payload = obj(record.get("payload"))
            kind = payload.get("type") if record.get("type") == "event_msg" else record.get("type")
            if kind == "session_meta":
                current = string(payload.get("id"))
                rollout.version = string(payload.get("cli_version")) or rollout.version
            elif kind == "token_usage_record":
                turn = usages.setdefault(string(payload.get("root_turn_id")), {})
                turn[string(payload.get("response_id"))] = tokens_of(obj(payload.get("usage")))
            elif current != thread:
                continue
            elif kind == "task_started" and payload.get("turn_id") == payload.get("root_turn_id"):
                root = string(payload.get("turn_id"))
                rollout.complete, rollout.failure = False, None
            elif kind == "turn_context":
                rollout.model = string(payload.get("model")) or None
                rollout.effort = _effort(payload)
            elif kind == "task_complete" and payload.get("turn_id") == root:
                rollout.complete = True
                rollout.failure = string(obj(payload.get("error")).get("codex_error_info")) or None
        if root in usages:
            rollout.tokens = sum(usages[root].values(), Tokens())
        return rollout


def _effort(context: Record) -> str | None:
    settings = obj(obj(context.get("collaboration_mode")).get("settings"))
    return string(context.get("effort")) or string(settings.get("reasoning_effort")) or None


def tokens_of(usage: Record) -> Tokens:
    """Codex counts cached tokens inside the input and reasoning inside the output."""
    given, cached, written = (
        count(usage.get(key)) for key in ("input_tokens", "cached_input_tokens", "cache_write_input_tokens")
    )
    fresh = None if given is None else max(0, given - (cached or 0) - (written or 0))
    return Tokens(
        fresh, cached, written, count(usage.get("output_tokens")), count(usage.get("reasoning_output_tokens"))
    )
