"""Checks of what a server offers: tools, resources, prompts."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.model.score import Score
from assay.suite.checks import Check
from assay.suite.checks.expectation import Tally
from assay.suite.reader import Table
from assay.suite.schema import same
from assay.suite.subject import Subject
from assay.suite.wire.answers import Listing
from assay.suite.wire.faults import RpcError

_PINNED = ("inputSchema", "outputSchema")
_DEEPEST = 220


@dataclass(frozen=True, slots=True)
class ListCheck:
    """Names that must, must not, or must exactly be offered.

    Attributes:
        name: As the suite names it.
        label: The check's type.
        methods: The lists to ask for, together.
        keys: What an entry is known by; any of them will do.
        expected: Must be there.
        exact: Must be all that is there; None does not ask.
        forbidden: Must not be there.
        pins: Tool name to the digest of its schemas, or to the input schema itself.
        max_seconds: The most the whole list may take.
        timeout: Seconds to wait; None is the server's limit.
    """

    name: str
    label: str
    methods: tuple[str, ...]
    keys: tuple[str, ...]
    expected: tuple[str, ...] = ()
    exact: tuple[str, ...] | None = None
    forbidden: tuple[str, ...] = ()
    pins: Mapping[str, object] = field(default_factory=dict)
    max_seconds: float | None = None
    timeout: float | None = None
    at_end: bool = False

    @property
    def empty(self) -> bool:
        """Whether it asserts no more than that there is a list."""
        return not (self.expected or self.forbidden or self.pins) and self.exact is None and self.max_seconds is None

    def evaluate(self, subject: Subject) -> Score:
        """Ask for the lists and compare; see `Check.evaluate`."""
        session, start = subject.session, time.perf_counter()
        try:
            limit = subject.seconds(self.timeout, self.max_seconds)
            listings = [session.list_all(method, seconds=limit) for method in self.methods]
        except RpcError as error:
            return Score.of(0, 1, f"list failed: {error}")
        return self.compare(listings, time.perf_counter() - start)

    def compare(self, listings: list[Listing], seconds: float) -> Score:
        """Score lists that took `seconds`; pure."""
        noun = self.label.removesuffix("_list")
        offered = [names for listing in listings for key in self.keys for names in listing.names(key)]
        tally = Tally()
        missing = []
        for name in self.expected:
            tally.add(name in offered, "")
            missing += [] if name in offered else [name]
        tally.failures = [f"missing {', '.join(missing)}"] if missing else []
        only_expected = tally.total and self.exact is None and not (self.forbidden or self.pins or self.max_seconds)
        if self.exact is not None:
            tally.add(*self._exactly([name for listing in listings for name in listing.names(self.keys[0])]))
        for name in self.forbidden:
            tally.add(name not in offered, f"{name} is offered")
        for name, pin in self.pins.items():
            problem = _pin_problem(listings[0].named(name), pin)
            tally.add(not problem, f"{name}: {problem}")
        if self.max_seconds is not None:
            slow = f"{seconds * 1000:.1f}ms > {self.max_seconds * 1000:g}ms (too slow)"
            tally.add(seconds <= self.max_seconds, slow)
        for listing in listings:
            if listing.endless:
                tally.add(False, f"{listing.endless}: the list never ends")
        what = f"expected {noun} exposed" if only_expected else "assertions passed"
        return tally.score(what, f"no {noun} expected", offered=", ".join(offered))

    def _exactly(self, names: list[str]) -> tuple[bool, str]:
        wanted, there = Counter(self.exact), Counter(names)
        parts = [("missing", wanted - there), ("not expected", there - wanted)]
        told = [f"{word} {', '.join(names.elements())}" for word, names in parts if names]
        return not told, "; ".join(told)


def digest(tool: Mapping[str, Any]) -> str:
    """A short digest of a tool's schemas, independent of the order of keys; descriptions do not count."""
    schemas = [_without_words(tool.get(key)) for key in _PINNED]
    text = json.dumps(schemas, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _without_words(node: object, depth: int = 0) -> object:
    """A schema without what only people read; a property that happens to be called so is kept.

    What is nested more deeply than any schema that is one is left out too.
    """
    if depth > _DEEPEST:
        return None
    if not isinstance(node, Mapping):
        return [_without_words(item, depth + 1) for item in node] if isinstance(node, list) else node
    out = {}
    for key, value in node.items():
        if key in ("description", "title", "$schema", "examples") and not isinstance(value, Mapping):
            continue
        out[key] = _without_words(value, depth + 1)
    return out


def _pin_problem(tool: Mapping[str, Any] | None, pin: object) -> str:
    if tool is None:
        return "is not offered"
    if isinstance(pin, str):
        now = digest(tool)
        return "" if now == pin else f"its schemas changed (now {now}, pinned {pin})"
    return "" if same(_without_words(tool.get("inputSchema")), _without_words(pin)) else "its input schema changed"


def _tools(table: Table) -> ListCheck:
    table.flag("expect_no_error")
    pins = table.mapping("schemas") or {}
    for name, pin in pins.items():
        if not (isinstance(pin, dict) or (isinstance(pin, str) and pin.startswith("sha256:"))):
            table.fail("schemas", f"{name} must be an input schema or a digest sha256:…")
    return _read(table, "tools", ("tools/list",), ("name",), pins)


def _resources(table: Table) -> ListCheck:
    return _read(table, "resources", ("resources/list", "resources/templates/list"), ("uri", "name", "uriTemplate"))


def _prompts(table: Table) -> ListCheck:
    return _read(table, "prompts", ("prompts/list",), ("name",))


def _read(
    table: Table, noun: str, methods: tuple[str, ...], keys: tuple[str, ...], pins: Mapping[str, object] | None = None
) -> ListCheck:
    exact = f"exact_{noun}"
    return ListCheck(
        name=table.text("name"),
        label=f"{noun}_list",
        methods=methods,
        keys=keys,
        expected=table.texts(f"expect_{noun}"),
        exact=table.texts(exact) if exact in table else None,
        forbidden=table.texts(f"forbid_{noun}"),
        pins=pins or {},
        max_seconds=table.seconds("max_latency"),
        timeout=table.seconds("timeout"),
    )


READERS: dict[str, Callable[[Table], Check]] = {
    "tools_list": _tools,
    "resources_list": _resources,
    "prompts_list": _prompts,
}
