"""What a check may expect of an answer, each expectation one assertion of the score."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.model.score import Score
from assay.suite.patterns import MATCH_SECONDS, Pattern
from assay.suite.reader import Table
from assay.suite.schema import same, schema_problem, value_problem
from assay.suite.wire.answers import Answer, said
from assay.suite.wire.transport import clean

OUTCOMES = ("ok", "error", "tool_error", "protocol_error")
DECLARED = "declared"
_STEP = re.compile(r'\.?([^.\[\]"]+)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]')


@dataclass(slots=True)
class Tally:
    """Assertions as they are made: how many held, and the reasons of those that did not."""

    good: int = 0
    total: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, held: bool, why: str) -> None:
        """Count one assertion; `why` says what is wrong when it did not hold."""
        self.total += 1
        self.good += held
        if not held:
            self.failures.append(why)

    def score(self, what: str = "assertions passed", nothing: str = "no assertions", **evidence: str) -> Score:
        """`k/n what`, and the first reasons."""
        if not self.total:
            return Score.of(1, 1, nothing)
        told = "; ".join(self.failures[:3]) + (f"; and {len(self.failures) - 3} more" if len(self.failures) > 3 else "")
        detail = f"{self.good}/{self.total} {what}" + (f": {told}" if told else "")
        return Score.of(self.good, self.total, detail, evidence if self.failures else None)


@dataclass(frozen=True, slots=True)
class Expectation:
    """What an answer must be like; everything is optional.

    Attributes:
        outcome: One of `OUTCOMES`; "" does not look at errors that the tool reports.
        contains: Texts that must be in the answer's text.
        equals: What the text must be, white space at both ends aside.
        patterns: Regular expressions that must be found in the text.
        values: Path to value, in the structured content or else the text read as JSON.
        types: Types of the content blocks, in order.
        schema: What the data must obey: a JSON Schema, or `declared` for the tool's own output schema.
        max_seconds: The most an answer may take.
    """

    outcome: str = ""
    contains: tuple[str, ...] = ()
    equals: str | None = None
    patterns: tuple[Pattern, ...] = ()
    values: Mapping[str, object] = field(default_factory=dict)
    types: tuple[str, ...] | None = None
    schema: object = None
    max_seconds: float | None = None

    @classmethod
    def read(cls, table: Table) -> Expectation:
        """The expectations in a check's table."""
        outcome = table.choice("expect", OUTCOMES, "")
        if table.flag("expect_no_error"):
            if outcome not in ("", "ok"):
                table.fail("expect", f"{outcome} contradicts expect_no_error = true; leave one of them out")
            outcome = "ok"
        contains = table.texts("result_contains")
        if "" in contains:
            table.fail("result_contains", "the empty text is in every answer, so it asserts nothing; leave it out")
        values = table.mapping("result_json") or {}
        for path in values:
            if steps(path) is None:
                table.fail("result_json", f'{path!r} is no path; write it like temperature, items[0].name or ["a.b"]')
        return cls(
            outcome=outcome,
            contains=contains,
            equals=table.text("result_equals") if "result_equals" in table else None,
            patterns=table.patterns("result_regex"),
            values=values,
            types=table.texts("result_types") if "result_types" in table else None,
            schema=_read_schema(table),
            max_seconds=table.seconds("max_latency"),
        )

    @property
    def nothing(self) -> bool:
        """Whether nothing at all is expected."""
        return self == Expectation()

    def score(self, answer: Answer, declared: object = None, seconds: float = MATCH_SECONDS) -> Score:
        """How much of the expectations an answer meets.

        Args:
            answer: What came.
            declared: The tool's own output schema.
            seconds: What comparing with patterns and schemas may take.

        Raises:
            Undecided: It took longer.
        """
        end = time.monotonic() + min(seconds, MATCH_SECONDS)
        if answer.refused is not None and self.outcome not in ("error", "protocol_error"):
            return Score.of(0, 1, f"call failed: {answer.refused}", {"error": said(answer.refused.data)})
        tally = Tally()
        if self.outcome:
            self._outcome(tally, answer)
        text = answer.text
        got = f"got {excerpt(text)}"
        for part in self.contains:
            tally.add(part in text, f"the text does not contain {excerpt(part)}, {got}")
        if self.equals is not None:
            tally.add(text.strip() == self.equals.strip(), f"the text is not {excerpt(self.equals)}, {got}")
        for pattern in self.patterns:
            tally.add(pattern.search(text, end), f"nothing matches {excerpt(pattern.pattern)}, {got}")
        if self.types is not None:
            kinds, types = ", ".join(answer.kinds), ", ".join(self.types)
            tally.add(answer.kinds == self.types, f"content is [{kinds}], not [{types}]")
        self._data(tally, answer, declared, end)
        if self.max_seconds is not None:
            took, most = answer.seconds * 1000, self.max_seconds * 1000
            tally.add(answer.seconds <= self.max_seconds, f"{took:.1f}ms > {most:g}ms (too slow)")
        return tally.score(answer=text[:2000])

    def _outcome(self, tally: Tally, answer: Answer) -> None:
        kind = "protocol_error" if answer.refused is not None else "tool_error" if answer.is_error else "ok"
        wanted = ("tool_error", "protocol_error") if self.outcome == "error" else (self.outcome,)
        words = {
            "ok": "it succeeded",
            "tool_error": f"the tool reported an error: {excerpt(answer.text)}",
            "protocol_error": f"the server refused the call: {answer.refused}",
        }
        tally.add(kind in wanted, f"{words[kind]} (expected {self.outcome})")

    def _data(self, tally: Tally, answer: Answer, declared: object, end: float) -> None:
        if not self.values and self.schema is None:
            return
        try:
            data = answer.data()
        except ValueError:
            for path in self.values:
                tally.add(False, f"{path}: the answer is no JSON")
            if self.schema is not None:
                tally.add(False, "the answer is no JSON, so it obeys no schema")
            return
        for path, wanted in self.values.items():
            found, value = lookup(data, path)
            tally.add(found and same(value, wanted), f"{path} is {said(value)}, not {said(wanted)}")
        if self.schema == DECLARED:
            problem = answer.breaks(declared, end) if declared is not None else "the tool declares no output schema"
            tally.add(not problem, problem)
        elif self.schema is not None:
            problem = value_problem(data, self.schema, end)
            tally.add(not problem, f"schema: {problem}")


def _read_schema(table: Table) -> object:
    if table.get("schema") == DECLARED:
        return DECLARED
    if isinstance(table.get("schema"), str):
        table.fail("schema", f'must be "{DECLARED}" or a JSON Schema as a table')
    schema = table.mapping("schema")
    if schema is not None and (problem := schema_problem(schema)):
        table.fail("schema", f"is no JSON Schema: {problem}")
    return schema


def steps(path: str) -> list[str | int] | None:
    """A path such as `items[0].name` as its steps; None if it is none."""
    out: list[str | int] = []
    at = 0
    for match in _STEP.finditer(path):
        if match.start() != at:
            return None
        at = match.end()
        name, index, quoted = match.groups()
        out.append(int(index) if index is not None else name if name is not None else json.loads(f'"{quoted}"'))
    return out if out and at == len(path) else None


def lookup(data: Any, path: str) -> tuple[bool, Any]:
    """Whether there is something at a path, and what."""
    for step in steps(path) or []:
        by_name = isinstance(step, str) and isinstance(data, Mapping) and step in data
        by_place = isinstance(step, int) and isinstance(data, list) and step < len(data)
        if not (by_name or by_place):
            return False, None
        data = data[step]
    return True, data


def excerpt(text: str, most: int = 80) -> str:
    """Text from outside in quotes, on one line, cut."""
    safe = clean(text[: most + 1].encode("utf-8", "surrogatepass"))
    return f"'{safe[:most]}…'" if len(text) > most else f"'{safe}'"
