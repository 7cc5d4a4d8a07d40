"""Checks of the server as a whole: does it keep its output clean, are its schemas schemas?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assay.model.score import Score
from assay.suite.checks import Check
from assay.suite.checks.expectation import Tally
from assay.suite.reader import Table
from assay.suite.subject import Subject
from assay.suite.wire.faults import RpcError


@dataclass(frozen=True, slots=True)
class CleanStdout:
    """Nothing but messages on standard output, during the whole suite."""

    name: str
    label: str = "clean_stdout"
    at_end: bool = True
    empty: bool = False

    def evaluate(self, subject: Subject) -> Score:
        """Look back; see `Check.evaluate`."""
        if not subject.starts:
            subject.session.list_all("tools/list")
        stray = subject.stray
        if not stray.count:
            return Score.of(1, 1, "nothing but messages")
        first = f"{stray.count} stray lines, first: {stray.samples[0]}"
        return Score.of(0, 1, first, {"stray output": "\n".join(stray.samples)})


@dataclass(frozen=True, slots=True)
class ValidSchemas:
    """Every tool has a name of its own and schemas that are JSON Schemas."""

    name: str
    timeout: float | None = None
    label: str = "valid_schemas"
    at_end: bool = False
    empty: bool = False

    def evaluate(self, subject: Subject) -> Score:
        """List the tools and look at each; see `Check.evaluate`."""
        try:
            tools = subject.session.list_all("tools/list", seconds=subject.seconds(self.timeout))
        except RpcError as error:
            return Score.of(0, 1, f"list failed: {error}")
        tally = Tally(tools.entries - len(tools.problems), tools.entries, list(tools.problems))
        for name in tools.repeated():
            tally.add(False, f"{name} is listed more than once")
        return tally.score("tools well-formed", "no tools to look at")


def _clean_stdout(table: Table) -> CleanStdout:
    return CleanStdout(table.text("name"))


def _valid_schemas(table: Table) -> ValidSchemas:
    return ValidSchemas(table.text("name"), table.seconds("timeout"))


READERS: dict[str, Callable[[Table], Check]] = {"clean_stdout": _clean_stdout, "valid_schemas": _valid_schemas}
