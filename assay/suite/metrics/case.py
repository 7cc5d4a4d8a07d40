"""A case for an agent: a prompt, and what is asked of the answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from assay.model.score import Score, exact
from assay.model.trajectory import Trajectory
from assay.suite.judging.spec import JudgeSpec, read_judge
from assay.suite.metrics.output import Answered, MaxCost, MaxLatency, MaxTokens, OutputContains, OutputRegex
from assay.suite.metrics.tools import (
    ARGS_MATCHES,
    ORDERS,
    SCOPES,
    ExpectedCall,
    ForbiddenTools,
    MaxCalls,
    ToolCorrectness,
)
from assay.suite.patterns import BadPattern, Pattern
from assay.suite.reader import Table


class Metric(Protocol):
    """One thing that is asked of an answer.

    Attributes:
        label: As reports show it.
    """

    @property
    def label(self) -> str: ...  # noqa: D102

    def score(self, prompt: str, trajectory: Trajectory) -> Score:
        """Score a trajectory that has an answer."""
        ...


@dataclass(frozen=True, slots=True)
class AgentCase:
    """A prompt and what is asked.

    Attributes:
        name: For reports.
        prompt: What the agent is told.
        metrics: What is asked; nothing else counts.
        judge: What a judge is asked, beside the metrics.
        repeat: How often the agent is asked.
        pass_rate: The share of the repetitions that must pass in full; None reports the share as the score.
        timeout: Seconds for one answer; None is the agent's own limit.
    """

    name: str
    prompt: str
    metrics: tuple[Metric, ...]
    judge: JudgeSpec | None = None
    repeat: int = 1
    pass_rate: Fraction | None = None
    timeout: float | None = None


def read_cases(suite: Table) -> tuple[AgentCase, ...]:
    """The `cases` of a suite; its `judge` table is what cases fall back on."""
    base = suite.table("judge")
    shared = read_judge(base, None) if base is not None else None
    if base is not None:
        base.finish()
    cases: list[AgentCase] = []
    for number, table in enumerate(suite.tables("cases"), 1):
        cases.append(_read_case(table, number, shared))
        table.finish()
    names = Counter([case.name for case in cases])
    for name, count in names.items():
        if count > 1:
            suite.fail("cases", f"the name {name!r} is given {count} times; names tell results apart")
    return tuple(cases)


def _read_case(table: Table, number: int, shared: JudgeSpec | None) -> AgentCase:
    metrics: list[Metric] = [*_tools(table), *_output(table)]
    judge = _judge(table, shared)
    repeat = table.whole("repeat", 1)
    rate = table.number("pass_rate", 0, 1)
    if rate is not None and repeat is None:
        table.fail("pass_rate", "says which share of the repetitions must pass; add repeat = 5, say")
    return AgentCase(
        name=table.text("name") or f"case {number}",
        prompt=table.text("input"),
        metrics=tuple(metrics) or (() if judge is not None else (Answered(),)),
        judge=judge,
        repeat=repeat or 1,
        pass_rate=None if rate is None else exact(getattr(rate, "text", rate)),
        timeout=table.seconds("timeout"),
    )


def _tools(table: Table) -> list[Metric]:
    tools, calls = table.texts("expect_tools"), table.each("calls", _expected_call)
    order, extra = table.choice("order", ORDERS, "any"), table.choice("extra", ("allow", "deny"), "allow") == "allow"
    scope, forbidden = _scope(table), table.texts("forbid_tools")
    most = table.whole("max_calls")
    if (order != "any" or not extra) and not (tools or calls):
        key = "order" if order != "any" else "extra"
        table.fail(key, "asserts nothing without expect_tools or calls; for no calls at all write max_calls = 0")
    if order != "any" or not extra:
        if tools and calls:
            table.fail("expect_tools", "an order or extra = deny is about one list; put these names into calls")
        calls = calls or tuple(ExpectedCall(tool) for tool in tools)
        tools = ()
    out: list[Metric] = []
    if tools or calls:
        out.append(ToolCorrectness(tools, calls, order, extra, scope))
    if forbidden:
        out.append(ForbiddenTools(forbidden, scope))
    if most is not None:
        out.append(MaxCalls(most, scope))
    if "scope" in table and not out:
        table.fail("scope", "says which calls are looked at, but nothing here looks at calls")
    return out


def _output(table: Table) -> list[Metric]:
    out: list[Metric] = []
    contains, patterns = table.texts("output_contains"), table.patterns("output_regex")
    if "" in contains:
        table.fail("output_contains", "the empty text is in every answer, so it asserts nothing; leave it out")
    if contains:
        out.append(OutputContains(contains))
    if patterns:
        out.append(OutputRegex(patterns))
    if (seconds := table.seconds("max_latency")) is not None:
        out.append(MaxLatency(seconds))
    if (tokens := table.whole("max_tokens", 1)) is not None:
        out.append(MaxTokens(tokens))
    if (cost := table.number("max_cost_usd", 0)) is not None:
        out.append(MaxCost(exact(getattr(cost, "text", cost))))
    return out


def _scope(table: Table) -> str:
    value = table.text("scope", "all")
    if value in SCOPES or (value.startswith("actor:") and value != "actor:"):
        return value
    return table.choice("scope", (*SCOPES, "actor:NAME"), "all")


def _expected_call(table: Table) -> ExpectedCall:
    tool, args = table.text("tool"), table.mapping("args")
    if not tool:
        table.fail("tool", "which tool is expected?")
    match = table.choice("args_match", ARGS_MATCHES, "ignore" if args is None else "exact")
    if match != "ignore" and args is None:
        table.fail("args_match", f"{match} compares arguments, but no args are given")
    patterns = {}
    for key, value in (args or {}).items():
        if match == "regex" and isinstance(value, str):
            try:
                patterns[key] = Pattern(value)
            except BadPattern as error:
                table.fail("args", f"{key}: {value!r} is no regular expression: {error}")
    return ExpectedCall(tool, args, match, patterns)


def _judge(table: Table, shared: JudgeSpec | None) -> JudgeSpec | None:
    if "judge" not in table:
        return None
    if isinstance(table.get("judge"), str):
        part = Table({"rubric": table.get("judge")}, table.file, (*table.where, "judge"))
    else:
        part = table.table("judge") or table
    spec = read_judge(part, shared)
    part.finish()
    if not spec.rubric:
        part.fail("rubric", "what is a good answer? The judge goes by it")
    if not (spec.command or spec.agent):
        part.fail("command", "who judges? Give command or agent here or in the suite's [judge] table")
    return spec
