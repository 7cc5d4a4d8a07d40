"""What an agent did with one prompt: its words, its tool calls in order, what they cost.

A trajectory comes from anywhere: a callable's answer, chat messages, a file, or the events of a kept run. Metrics
see nothing else, so they grade all of these alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.model.events import Event, Text, ToolResult
from assay.model.events import ToolCall as CallEvent
from assay.model.outcome import Tokens


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call.

    Attributes:
        name: The tool.
        args: Its arguments; None where the source does not say.
        id: As the source numbers its calls; "" if it does not.
        parent: Id of the call that this one was made inside (a sub-agent's call); "" for the main agent's.
        actor: Label of the agent that called; "" for the main agent.
        result: What it gave back, as text.
        is_error: Whether the tool reported an error; None where the source does not say.
        seconds: How long it took; None where the source does not say.
    """

    name: str
    args: Mapping[str, object] | None = None
    id: str = ""
    parent: str = ""
    actor: str = ""
    result: str = ""
    is_error: bool | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One answer of an agent and how it got there.

    Attributes:
        output: The final answer.
        calls: Tool calls in order, sub-agents' included.
        seconds: Wall time of the whole; None where the source does not say.
        tokens: Of this answer alone; None where the source does not say.
        cost_usd: Of this answer alone; None where the source does not say.
        error: Why there is no usable answer; "" when there is one.
    """

    output: str = ""
    calls: tuple[Call, ...] = ()
    seconds: float | None = None
    tokens: Tokens | None = None
    cost_usd: float | None = None
    error: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Trajectory:
        """Read `{"output": ..., "calls": [{"name": ..., "args": {...}}, ...], ...}`.

        Raises:
            ValueError: A key is unknown or a value has the wrong type.
        """
        known = {"output", "calls", "seconds", "tokens", "cost_usd", "error"}
        if unknown := sorted(set(data) - known):
            msg = f"a trajectory has no {unknown[0]!r}; it has {', '.join(sorted(known))}"
            raise ValueError(msg)
        calls = data.get("calls") or []
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            msg = "a trajectory's calls are a list"
            raise ValueError(msg)  # noqa: TRY004 - one kind of error for everything that is wrong in the data
        return cls(
            output=_text(data, "output"),
            calls=tuple(_call(call) for call in calls),
            seconds=_number(data, "seconds"),
            tokens=_tokens(data.get("tokens")),
            cost_usd=_number(data, "cost_usd"),
            error=_text(data, "error"),
        )

    @classmethod
    def from_messages(cls, messages: Iterable[object]) -> Trajectory:
        """Read a chat in the OpenAI form: `assistant` messages with `tool_calls`, `tool` messages with answers.

        The output is the text of the last assistant message that has any.

        Raises:
            ValueError: A message or a tool call is not an object, or arguments are not a JSON object.
        """
        output, calls, results = "", [], {}
        for message in messages:
            if not isinstance(message, Mapping):
                msg = f"a message is an object with a role, not {type(message).__name__}"
                raise ValueError(msg)  # noqa: TRY004 - one kind of error for everything that is wrong in the data
            if message.get("role") == "assistant":
                output = _content(message.get("content")) or output
                listed = message.get("tool_calls") or []
                calls += [_message_call(call) for call in (listed if isinstance(listed, list) else [])]
            elif message.get("role") == "tool":
                results[str(message.get("tool_call_id", ""))] = _content(message.get("content"))
        return cls(output, tuple(replace(call, result=results.get(call.id, "")) for call in calls))

    @classmethod
    def from_events(
        cls,
        events: Iterable[Event],
        *,
        output: str = "",
        seconds: float | None = None,
        tokens: Tokens | None = None,
        cost_usd: float | None = None,
        error: str = "",
    ) -> Trajectory:
        """Read a decoder's events; `output` empty means the main agent's last words.

        A sub-agent's calls belong to the call that was open when it first spoke; where several were open, to the
        earliest without a sub-agent yet whose title or arguments name it, else to the earliest of all.
        """
        calls: list[Call] = []
        words: dict[str, set[str]] = {}
        open_ids: list[str] = []
        parents: dict[str, str] = {"": ""}
        last = ""
        for number, event in enumerate(events):
            actor = getattr(event, "actor", "")
            if actor not in parents:
                parents[actor] = _parent(actor, open_ids, words, parents)
            if isinstance(event, CallEvent):
                call_id = event.id or f"call-{number}"
                calls.append(Call(event.name, event.input, call_id, parents[actor], actor))
                words[call_id] = {
                    call_id,
                    event.title,
                    *(v for v in (event.input or {}).values() if isinstance(v, str)),
                }
                open_ids.append(call_id)
            elif isinstance(event, ToolResult):
                _settle(calls, open_ids, event)
            elif isinstance(event, Text) and not actor:
                last = event.text
        return cls(output or last, tuple(calls), seconds, tokens, cost_usd, error)


def _parent(actor: str, open_ids: list[str], words: dict[str, set[str]], parents: dict[str, str]) -> str:
    """The call that a sub-agent seen for the first time was started by; its label may end in a number."""
    taken = set(parents.values())
    free = [call_id for call_id in open_ids if call_id not in taken]
    labels = {actor, actor.rpartition(" ")[0]} - {""}
    named = [call_id for call_id in free if labels & words[call_id]]
    return next(iter(named or free or open_ids), "")


def _settle(calls: list[Call], open_ids: list[str], event: ToolResult) -> None:
    """Give a result to its call: by id, else to the latest open call of the same actor."""
    for index in range(len(calls) - 1, -1, -1):
        call = calls[index]
        if call.id in open_ids and (call.id == event.id if event.id else call.actor == event.actor):
            calls[index] = replace(call, result=event.text, is_error=None if event.ok is None else not event.ok)
            open_ids.remove(call.id)
            return


def _text(data: Mapping[str, object], key: str) -> str:
    value = data.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        msg = f"{key} is text, not {type(value).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - as above
    return value


def _number(data: Mapping[str, object], key: str) -> float | None:
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        msg = f"{key} is a number, not {type(value).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - as above
    return value


def _tokens(value: object) -> Tokens | None:
    if value is None or isinstance(value, Tokens):
        return value
    kinds = {"input", "cached", "cache_write", "output", "reasoning"}
    if not isinstance(value, Mapping) or set(value) - kinds or not all(type(n) is int for n in value.values()):
        msg = f"tokens is an object of whole numbers with the keys {', '.join(sorted(kinds))}"
        raise ValueError(msg)
    return Tokens(**value)


def _call(value: object) -> Call:
    if isinstance(value, Call):
        return value
    known = set(Call.__dataclass_fields__)
    if not isinstance(value, Mapping) or set(value) - known or not isinstance(value.get("name"), str):
        msg = f"a call is an object with a name and, of {', '.join(sorted(known - {'name'}))}, what is known"
        raise ValueError(msg)
    args, failed = value.get("args"), value.get("is_error")
    if not (args is None or isinstance(args, Mapping)) or not (failed is None or isinstance(failed, bool)):
        msg = f"call {value['name']!r}: args is an object and is_error true or false, where they are known"
        raise ValueError(msg)
    texts = {key: _text(value, key) for key in ("name", "id", "parent", "actor", "result")}
    return Call(**texts, args=args, is_error=failed, seconds=_number(value, "seconds"))


def _content(value: object) -> str:
    """Text of a message's content, which is text or a list of parts."""
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, Mapping)]
        return "".join(part for part in parts if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _message_call(value: object) -> Call:
    function = value.get("function") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(function, Mapping):
        msg = "a tool call in a message is an object with a function"
        raise ValueError(msg)  # noqa: TRY004 - as above
    args = function.get("arguments") or {}
    if isinstance(args, str):
        args = json.loads(args)
    if not isinstance(args, Mapping):
        msg = f"the arguments of {function.get('name')!r} are no JSON object"
        raise ValueError(msg)  # noqa: TRY004 - as above
    return Call(str(function.get("name", "")), args, str(value.get("id") or ""))
