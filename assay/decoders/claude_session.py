"""Claude Code's session file: what a run spent that its stream did not say, and the effort that was really used."""

from __future__ import annotations

from assay.decoders.lines import Record, count, money, obj, records, string
from assay.model.events import Note
from assay.model.outcome import Tokens


class SessionFile:
    """This run's part of the CLI's own session file, which a resumed process goes on with and which only grows.

    Its assistant lines have the true usage, once per content block; those of sub-agents lie in files of their own
    (`isSidechain`). Its `cost-state` lines, written on every exit but by SIGKILL, are cumulative and count them all.

    Args:
        data: The file, and those of its sub-agents after it.
        first: Message id and uuid of the first assistant line on stdout.
        whole: The session began with this run, so that everything in the file is its own.

    Attributes:
        effort: Of the last response of the main agent, where the model has one to set.
        tokens: Of this run alone, sub-agents included; None where no line of it was found.
        responses: Message ids of what was counted.
        settled: Whether the CLI itself has added up this run.
        cost: In US dollars; None where the file does not tell.
    """

    def __init__(self, data: bytes, first: tuple[str, str] | None, *, whole: bool) -> None:
        kept = [line for line in data.split(b"\n") if b'"assistant"' in line or b'"cost-state"' in line]
        lines: list[Record] = []
        aside: list[Record] = []
        for record in records(kept):
            if not isinstance(record, Note):
                (aside if record.get("isSidechain") is True else lines).append(record)
        start = _start(lines, first, 0 if whole else None)
        self.effort: str | None = None
        self.tokens: Tokens | None = None
        self.cost: float | None = None
        self.responses: set[str] = set()
        self.settled = False
        if start is None:
            return
        self._count(lines[start:], aside if whole else _since(aside, lines[start]))
        self._costs(_last_state(lines[:start]), _last_state(lines[start:]))

    def _count(self, own: list[Record], aside: list[Record]) -> None:
        responses: dict[str, Tokens] = {}
        for line in (*own, *aside):
            message = obj(line.get("message"))
            if line.get("type") == "assistant" and message.get("model") != "<synthetic>":
                responses[string(message.get("id"))] = _response(obj(message.get("usage")))
                if line.get("isSidechain") is not True:
                    self.effort = string(line.get("perTurnEffort")) or self.effort
        self.responses = set(responses)
        if responses:
            self.tokens = sum(responses.values(), Tokens())

    def _costs(self, before: Record, after: Record) -> None:
        (had, paid), (has, pays) = usage_by_model(before.get("modelUsage")), usage_by_model(after.get("modelUsage"))
        spent = _less(has, had)
        if not after or (spent.output or 0) < ((self.tokens or Tokens()).output or 0):
            return
        self.tokens, self.settled = spent, True
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


def _since(aside: list[Record], line: Record) -> list[Record]:
    """Sub-agents work for a response that was there before them; all times are of one form and in UTC."""
    begun = string(line.get("timestamp"))
    return [other for other in aside if string(other.get("timestamp")) >= begun]


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
