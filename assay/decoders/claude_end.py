"""How a run of Claude Code ended: what `conclude` makes of the stream's facts, the exit and the session file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime

from assay.decoders.claude_session import SessionFile
from assay.decoders.ends import last_words, signal_name
from assay.decoders.envelope import blocks
from assay.decoders.lines import Record, count, items, money, obj, string
from assay.model.events import Exit, Facts
from assay.model.outcome import Ending, Tokens

GAVE_UP = frozenset(
    {
        "budget_exhausted",
        "error_max_budget_usd",
        "error_max_turns",
        "max_output_tokens",
        "max_turns",
        "prompt_too_long",
        "refusal",
    }
)
"""Values of subtype, terminal_reason, stop_reason or api_error that are a result of the model's own doing."""
KINDS = {
    "authentication_failed": "auth",
    "billing_error": "billing",
    "connection_failed": "network",
    "model_not_found": "model",
    "rate_limit": "rate",
}
STATUSES = {401: "auth", 402: "billing", 403: "auth", 404: "model", 429: "rate"}

LIMIT_WORDS = re.compile(r"hit your .*limit|limit reached", re.IGNORECASE)
"""The wording changed at least four times; looked at only where the machine-readable `api_error` is missing."""

LIMIT_EPOCH = re.compile(r"\|(\d{10})\b")
UNKNOWN_EFFORT = re.compile(r"^.*Unknown --effort value.*$", re.MULTILINE)


@dataclass(slots=True)
class Stated(Facts):
    """The facts, and what `conclude` needs besides.

    Attributes:
        result: The last result line.
        error: The last assistant line that reports an API error.
        limit: The last rejected `rate_limit_info`.
        begun: Whether the CLI introduced itself or anything was said.
        pending: Something happened that no result line covers yet.
        cumulative: The result lines only tell totals, which go on from a session that was resumed.
        first: Message id and uuid of the first assistant line: where this run begins in the session file.
        metered: What the API responses add up to, where partial messages were asked for.
        responses: Message ids of all API responses on stdout, sub-agents' included.
    """

    result: Record | None = None
    error: Record = field(default_factory=dict)
    limit: Record = field(default_factory=dict)
    begun: bool = False
    pending: bool = False
    cumulative: bool = False
    first: tuple[str, str] | None = None
    metered: Tokens | None = None
    responses: set[str] = field(default_factory=set)


def conclude(facts: Facts, exit_: Exit) -> Facts:
    """Add ending and reason, and what only the session file knows."""
    stated = facts if isinstance(facts, Stated) else Stated(**{f.name: getattr(facts, f.name) for f in fields(Facts)})
    stated = _with_session_file(stated, exit_)
    ending, reason = _ending(stated, exit_)
    kind, reset_at = "", None
    if ending is Ending.API_ERROR:
        kind = _kind(stated)
    elif ending is Ending.SESSION_LIMIT:
        reset_at = _reset(stated)
    warning = UNKNOWN_EFFORT.search(exit_.stderr.decode("utf-8", "replace"))
    if warning:
        stated.effort, reason = "default", reason or warning[0].strip()
    plain = {f.name: getattr(stated, f.name) for f in fields(Facts)}
    return Facts(**plain | {"ending": ending, "reason": reason, "error_kind": kind, "reset_at": reset_at})


def _ending(stated: Stated, exit_: Exit) -> tuple[Ending, str]:
    result = stated.result
    if result is None or (stated.pending and (exit_.stopped or exit_.code != 0)):
        return _cut_short(stated, exit_)
    reason = words(result)
    signs = {string(result.get(key)) for key in ("subtype", "terminal_reason", "stop_reason", "api_error")}
    if signs & GAVE_UP:
        return Ending.GAVE_UP, reason
    if _limited(stated, signs):
        return Ending.SESSION_LIMIT, reason
    if string(result.get("terminal_reason")).startswith("aborted"):
        return Ending.INTERRUPTED, "interrupted in a tool call" if "aborted_tools" in signs else "interrupted"
    if string(result.get("subtype")).startswith("error"):
        return Ending.INTERRUPTED if exit_.stopped else Ending.CRASHED, reason
    if result.get("is_error"):
        return Ending.API_ERROR, reason
    if not successful(result):
        return Ending.CRASHED, f"ended with {string(result.get('terminal_reason'))!r}"
    return _ended_well(stated, result, exit_)


def _ended_well(stated: Stated, result: Record, exit_: Exit) -> tuple[Ending, str]:
    """The last result line is a success: whether it is to be believed."""
    if stated.turns == 0:
        return Ending.CRASHED, "the prompt was not run"
    if exit_.code and not exit_.stopped:
        words = last_words(exit_.stderr)
        return Ending.CRASHED, f"exit code {exit_.code} after a result that says success" + (
            f": {words}" if words else ""
        )
    denied = [string(obj(denial).get("tool_name")) for denial in items(result.get("permission_denials"))]
    if denied:
        calls = "tool call was" if len(denied) == 1 else "tool calls were"
        return Ending.FINISHED, f"{len(denied)} {calls} denied: {', '.join(denied)}"
    return Ending.FINISHED, "" if stated.text else "the answer is empty"


def _cut_short(stated: Stated, exit_: Exit) -> tuple[Ending, str]:
    """There is no result line for the last thing that went on."""
    by = signal_name(exit_.code)
    if not stated.begun and not exit_.stopped:
        return Ending.CRASHED, last_words(exit_.stderr) or (f"ended by {by}" if by else "the prompt was not run")
    if by:
        return Ending.INTERRUPTED, f"ended by {by} before its result"
    if exit_.stopped or not exit_.code:
        return Ending.INTERRUPTED, "ended before its result"
    return Ending.CRASHED, last_words(exit_.stderr) or f"exit code {exit_.code} without a result"


def _limited(stated: Stated, signs: set[str]) -> bool:
    """Whether the subscription's limit stopped it; a throttled request is an API error."""
    result = stated.result or {}
    if "usage_limit_reached" in signs or stated.error.get("api_error") == "usage_limit_reached":
        return True
    if not result.get("is_error") or result.get("api_error"):
        return False
    told = result.get("api_error_status") == 429 and "resetsAt" in stated.limit
    return told or LIMIT_WORDS.search(words(result)) is not None


def _reset(stated: Stated) -> datetime | None:
    said_so = obj(obj(stated.error.get("api_error_params")).get("rate_limit_info")).get("resetsAt")
    epoch = LIMIT_EPOCH.search(words(stated.result or {}))
    return moment(said_so) or moment(stated.limit.get("resetsAt")) or moment(int(epoch[1]) if epoch else None)


def _kind(stated: Stated) -> str:
    result, error = stated.result or {}, stated.error
    for sign in (result.get("api_error"), error.get("api_error"), error.get("error")):
        if string(sign) in KINDS:
            return KINDS[string(sign)]
    status = count(result.get("api_error_status")) or count(error.get("api_error_status"))
    if status is not None:
        return STATUSES.get(status, "server" if status >= 500 else "other")
    # A request that never got an answer has no status.
    return "network" if error.get("error") == "server_error" else "other"


def _with_session_file(stated: Stated, exit_: Exit) -> Stated:
    """Spend of a run without a last result line, and the effort that was really used."""
    unsettled = stated.result is None or stated.pending
    if stated.cumulative and exit_.resumed:
        stated = replace(stated, tokens=None, cost_usd=None)
    if exit_.session_file is None:
        return replace(stated, tokens=stated.metered, cost_usd=None) if unsettled else stated
    kept = SessionFile(exit_.session_file, stated.first, whole=not exit_.resumed)
    stated = replace(stated, effort=kept.effort)
    if not unsettled:
        return stated
    # SIGKILL leaves no state; a response that is in no file then, a sub-agent's say, was spent all the same.
    known = kept.settled or stated.responses <= kept.responses
    return replace(stated, tokens=kept.tokens if known else None, cost_usd=kept.cost)


def moment(epoch: object) -> datetime | None:
    """Seconds since 1970 as a time; None where there is none that makes sense."""
    seconds = money(epoch)
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else None
    except (OverflowError, OSError, ValueError):
        return None


def successful(result: Record) -> bool:
    """Whether a result line says that all went well."""
    # A local command and older versions have no terminal_reason.
    return not result.get("is_error") and result.get("terminal_reason") in ("completed", None)


def words(record: Record) -> str:
    """What a result line or an error message says to the user, in one line."""
    errors = [string(error) for error in items(record.get("errors"))]
    texts = [string(record.get("result")), *errors, *(string(block.get("text")) for block in blocks(record))]
    return " ".join(next(filter(None, texts), "").split())
