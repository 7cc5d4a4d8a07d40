"""Claude Code's session file: what a run spent that its stream did not say, and the effort that was really used."""

from __future__ import annotations

from assay.decoders.lines import Record, count, money, obj, records, string
from assay.model.events import Note
from assay.model.outcome import Tokens


class SessionFile:
    """This run's part of the CLI's own session file, which a resumed process goes on with and which only grows.

    Its assistant lines have the true usage, once per content block; sub-agents have files of their own. Its
    `cost-state` lines, written on every exit but by SIGKILL, are cumulative and count them all.

    Args:
        data: The file.
        first: Message id and uuid of the first assistant line on stdout.
        whole: The session began with this run, so that everything in the file is its own.

    Attributes:
        effort: Of the last response, where the model has one to set.
        tokens: Of this run alone; None where no line of it was found.
        cost: In US dollars; None where the file does not tell.
    """

    def __init__(self, data: bytes, first: tuple[str, str] | None, *, whole: bool) -> None:
        kept = [line for line in data.split(b"\n") if b'"assistant"' in line or b'"cost-state"' in line]
        lines = [record for record in records(kept) if not isinstance(record, Note)]
        start = _start(lines, first, 0 if whole else None)
        self.effort: str | None = None
        self.tokens: Tokens | None = None
        self.cost: float | None = None
        if start is None:
            return
        responses: dict[str, Tokens] = {}
        for line in lines[start:]:
            message = obj(line.get("message"))
            if line.get("type") == "assistant" and message.get("model") != "<synthetic>":
                responses[string(message.get("id"))] = _response(obj(message.get("usage")))
                self.effort = string(line.get("perTurnEffort")) or self.effort
        if responses:
            self.tokens = sum(responses.values(), Tokens())
        self._costs(_last_state(lines[:start]), _last_state(lines[start:]))

    def _costs(self, before: Record, after: Record) -> None:
        (had, paid), (has, pays) = usage_by_model(before.get("modelUsage")), usage_by_model(after.get("modelUsage"))
        spent = _less(has, had)
        if not after or (spent.output or 0) < ((self.tokens or Tokens()).output or 0):
            return
        self.tokens = spent
        if not after.get("hasUnknownModelCost"):
            self.cost = round(pays - paid, 12)


def _start(lines: list[Record], first: tuple[str, str] | None, otherwise: int | None) -> int | None:
    if first is not None:
        for n, line in enumerate(lines):
            if first[1] and line.get("uuid") == first[1]:
                return n
        for n, line in enumerate(lines):
            if first[0] and obj(line.get("message")).get("id") == first[0]:
                return n
    return otherwise


def _response(usage: Record) -> Tokens:
    return Tokens(
        count(usage.get("input_tokens")),
        count(usage.get("cache_read_input_tokens")),
        count(usage.get("cache_creation_input_tokens")),
        count(usage.get("output_tokens")),
        count(obj(usage.get("output_tokens_details")).get("thinking_tokens")),
    )


def _last_state(lines: list[Record]) -> Record:
    return next((line for line in reversed(lines) if line.get("type") == "cost-state"), {})


def _less(all_: Tokens, earlier: Tokens) -> Tokens:
    return Tokens(**{kind: max(0, n - earlier.as_dict().get(kind, 0)) for kind, n in all_.as_dict().items()})


def usage_by_model(by_model: object) -> tuple[Tokens, float]:
    """What a table of usage by model adds up to; nothing in it is nothing spent."""
    tokens, cost = Tokens(0, 0, 0, 0, 0), 0.0
    for usage in map(obj, obj(by_model).values()):
        tokens = tokens + Tokens(
            count(usage.get("inputTokens")),
            count(usage.get("cacheReadInputTokens")),
            count(usage.get("cacheCreationInputTokens")),
            count(usage.get("outputTokens")),
            count(usage.get("thinkingTokens")),
        )
        cost += money(usage.get("costUSD")) or 0.0
    return tokens, cost
