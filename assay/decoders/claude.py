"""Claude Code's stream: `claude -p --output-format stream-json --verbose`, as version 2.1.332 writes it.

What the stream gets wrong, and what is believed instead:

* `subtype` says "success" for every API failure; `is_error`, `terminal_reason` and `api_error` tell the truth.
* One process prints an init and a result line for every activation, of which a background task's end is one: turns,
  tokens and cost are sums over the result lines, and the last one says how it ended.
* `message.usage` repeats for every content block and has one output token; `result.usage` leaves sub-agents out;
  `modelUsage` and `total_cost_usd` go on from the session that was resumed. What this run spent is
  `model_usage_since_last_result`.
* SIGINT exits 0, and no signal promises a result line: without one the run was cut short, whatever the exit code, and
  its spend is in the session file alone.
* The keys of a line come in any order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from assay.decoders.claude_end import Stated, conclude, moment, successful, words
from assay.decoders.claude_session import usage_by_model
from assay.decoders.ends import Calls
from assay.decoders.envelope import blocks, result_text, said
from assay.decoders.lines import Record, count, items, money, obj, records, string
from assay.model.events import Event, Facts, Note, Progress, Started, Text, ToolCall, ToolResult
from assay.model.outcome import Tokens

__all__ = ["conclude", "decode"]

QUIET = frozenset(
    {"background_tasks_changed", "status", "task_progress", "task_updated", "thinking_tokens", "ui_invalidate"}
)
"""System lines that say nothing to a reader."""

METERED = ("message_start", "message_delta")
"""Partial events that carry usage."""


def decode(lines: Iterable[bytes]) -> Generator[Event, None, Facts]:
    """Yield events for the lines of the CLI's stdout; return what the stream states."""
    reader = _Reader()
    by_type = {
        "assistant": reader.assistant,
        "user": reader.user,
        "system": reader.system,
        "result": reader.result,
        "rate_limit_event": reader.rate_limit,
    }
    for record in records(lines):
        if isinstance(record, Note):
            yield record
            continue
        kind = record.get("type")
        if kind == "stream_event":
            # Nine lines of ten where partial messages are asked for, and hardly one of them counts.
            event = record.get("event")
            if type(event) is dict and event.get("type") in METERED:
                yield reader.metered(event)
        elif read := by_type.get(string(kind)):
            yield from read(record)
        elif kind != "tool_progress":
            yield Note(f"event of unknown type {string(kind)!r}")
    return reader.stated


class _Reader:
    """State of one stream."""

    def __init__(self) -> None:
        self.stated = Stated()
        self._calls = Calls()
        self.stated.tool_calls = self._calls.uses
        self._actors: dict[str, str] = {}
        self._input = self._cached = self._cache_write = 0
        self._output: int | None = None
        self._background: set[str] = set()

    def assistant(self, record: Record) -> Iterable[Event]:
        stated = self.stated
        message = obj(record.get("message"))
        if message.get("model") == "<synthetic>" or record.get("is_api_error_message"):
            return self._synthetic(record)
        actor = self._actor(record)
        id_ = string(message.get("id"))
        events: list[Event] = []
        for block in blocks(record):
            event = said(block, actor)
            if type(event) is ToolCall:
                self._calls.start(event.name, event.id)
            elif type(event) is Text and not actor:
                stated.text = event.text
            if event is not None:
                events.append(event)
        stated.begun = True
        if not actor:
            stated.pending = True
            stated.model = stated.model or string(message.get("model")) or None
            if stated.first is None:
                stated.first = (id_, string(record.get("uuid")))
        if id_ not in self.stated.responses:
            events.append(self._response(id_, obj(message.get("usage"))))
        return events

    def _synthetic(self, record: Record) -> Iterator[Event]:
        """A message the CLI made itself, in the model's name."""
        failed = bool(record.get("is_api_error_message"))
        if failed:
            self.stated.error = record
        for block in blocks(record):
            if text := string(block.get("text")):
                yield Note(text, "error" if failed else "info", self._actor(record))

    def user(self, record: Record) -> Iterator[Event]:
        actor = self._actor(record)
        for block in blocks(record):
            kind = block.get("type")
            if kind == "tool_result":
                id_, ok = string(block.get("tool_use_id")), not block.get("is_error")
                self._calls.end(id_, ok=ok)
                yield ToolResult(result_text(block.get("content")), ok, id_, actor)
            elif kind == "text" and not actor:
                # The prompt is not echoed: this is the CLI urging the model on, or the mark of an interrupt.
                yield Note(string(block.get("text")))

    def metered(self, event: Record) -> Progress:
        """A partial event with usage: a response begins, or its true output count is known."""
        if event.get("type") == "message_start":
            message = obj(event.get("message"))
            return self._response(string(message.get("id")), obj(message.get("usage")))
        self._output = (self._output or 0) + (count(obj(event.get("usage")).get("output_tokens")) or 0)
        progress = self._progress()
        self.stated.metered = progress.tokens
        return progress

    def _response(self, id_: str, usage: Record) -> Progress:
        """A response has begun: its prompt is known, its output count is a placeholder."""
        self.stated.responses.add(id_)
        self._input += count(usage.get("input_tokens")) or 0
        self._cached += count(usage.get("cache_read_input_tokens")) or 0
        self._cache_write += count(usage.get("cache_creation_input_tokens")) or 0
        return self._progress()

    def _progress(self) -> Progress:
        return Progress(Tokens(self._input, self._cached, self._cache_write, self._output), self.stated.cost_usd)

    def system(self, record: Record) -> Iterator[Event]:
        subtype = string(record.get("subtype"))
        if subtype == "init":
            yield from self._init(record)
        elif subtype == "api_retry":
            yield Note(_retry(record), "warning")
        elif subtype == "permission_denied":
            yield Note(f"denied: {string(record.get('tool_name'))}: {string(record.get('message'))}", "warning")
        elif subtype == "task_started":
            if record.get("is_backgrounded"):
                self._background.add(string(record.get("task_id")))
        elif subtype == "task_notification":
            if string(record.get("task_id")) in self._background:
                yield Note(f"background task {string(record.get('status'))}: {string(record.get('summary'))}")
        elif subtype not in QUIET:
            told = string(record.get("content"))
            yield Note(f"{subtype}: {told}" if told else f"system event {subtype!r}")

    def _init(self, record: Record) -> Iterator[Event]:
        stated = self.stated
        stated.begun = stated.pending = True
        session, model = string(record.get("session_id")), string(record.get("model"))
        version = string(record.get("claude_code_version"))
        tools = tuple(map(string, items(record["tools"]))) if "tools" in record else None
        stated.session = stated.session or session or None
        stated.model = stated.model or model or None
        stated.cli_version = stated.cli_version or version or None
        stated.tools_offered = tools if stated.tools_offered is None else stated.tools_offered
        yield Started(session, model, version, tools)
        for server in map(obj, items(record.get("mcp_servers"))):
            if server.get("status") == "failed":
                yield Note(f"MCP server {string(server.get('name'))!r} failed to start", "warning")

    def rate_limit(self, record: Record) -> Iterator[Event]:
        info = obj(record.get("rate_limit_info"))
        window, until = string(info.get("rateLimitType")) or "rate", moment(info.get("resetsAt"))
        resets = f", resets {until:%Y-%m-%d %H:%M} UTC" if until else ""
        if info.get("status") == "rejected":
            self.stated.limit = info
            yield Note(f"{window} limit reached{resets}", "error")
        elif info.get("status") == "allowed_warning":
            used = money(info.get("utilization"))
            yield Note(f"{window} limit: {f'{used:.0%} used' if used else 'nearly reached'}{resets}", "warning")

    def result(self, record: Record) -> Iterator[Event]:
        stated = self.stated
        since, total = record.get("model_usage_since_last_result"), record.get("modelUsage")
        stated.cumulative = not isinstance(since, dict)
        if isinstance(since, dict):
            tokens, cost = usage_by_model(since)
            stated.tokens, stated.cost_usd = (stated.tokens or Tokens()) + tokens, (stated.cost_usd or 0) + cost
        elif isinstance(total, dict):
            stated.tokens, _ = usage_by_model(total)
            stated.cost_usd = money(record.get("total_cost_usd"))
        spent = stated.tokens or Tokens()
        self._input, self._cached = spent.input or 0, spent.cached or 0
        self._cache_write, self._output = spent.cache_write or 0, spent.output
        turns = count(record.get("num_turns"))
        stated.turns = stated.turns if turns is None else (stated.turns or 0) + turns
        stated.session = stated.session or string(record.get("session_id")) or None
        stated.model = stated.model or next(iter(obj(record.get("modelUsage"))), None)
        if not record.get("is_error"):
            stated.text = string(record.get("result")) or stated.text
        stated.terminal = string(record.get("terminal_reason")) or string(record.get("subtype"))
        stated.result, stated.pending = record, False
        yield Progress(spent, stated.cost_usd)
        if successful(record):
            yield Note(string(record.get("subtype")) or "success")
        else:
            told = words(record)
            known = not told or told == words(stated.error)
            yield Note(stated.terminal if known else f"{stated.terminal}: {told}", "error")

    def _actor(self, record: Record) -> str:
        """The label of the sub-agent whose line this is, numbered where several are alike; "" for the main agent."""
        parent = record.get("parent_tool_use_id")
        if not isinstance(parent, str):
            return ""
        if parent not in self._actors:
            name = string(record.get("subagent_type")) or "agent"
            alike = sum(label.rpartition(" ")[0] == name or label == name for label in self._actors.values())
            self._actors[parent] = f"{name} {alike + 1}" if alike else name
        return self._actors[parent]


def _retry(record: Record) -> str:
    status, delay = count(record.get("error_status")), money(record.get("retry_delay_ms"))
    wait = "" if delay is None else f" in {delay / 1000:.1f} s"
    error = " ".join(filter(None, ["" if status is None else str(status), string(record.get("error"))]))
    return f"retry {count(record.get('attempt'))} of {count(record.get('max_retries'))}{wait}: {error}"
