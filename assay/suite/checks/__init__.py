"""The checks of MCP suites, by their `type`. A package may add its own through the entry point group `assay.checks`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from assay.model.score import Score
from assay.suite.reader import Table
from assay.suite.subject import Subject

ENTRY_POINTS = "assay.checks"


@runtime_checkable
class Check(Protocol):
    """One check of a suite.

    Attributes:
        name: As the suite names it; "" if it does not.
        label: What kind of check on what, as reports show it: `tool_call:echo`.
        at_end: Whether it looks back at the whole run and is made last.
        empty: Whether it asserts nothing.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def label(self) -> str: ...  # noqa: D102
    @property
    def at_end(self) -> bool: ...  # noqa: D102
    @property
    def empty(self) -> bool: ...  # noqa: D102

    def evaluate(self, subject: Subject) -> Score:
        """Ask the server and score what it does.

        Raises:
            WireFault: The server is gone, silent, or breaks the protocol; the runner makes a score of that.
        """
        ...


Reader = Callable[[Table], Check]


def builtin() -> dict[str, Reader]:
    """Readers of the check types that come with Assay."""
    from assay.suite.checks import calls, lists, server

    return {**lists.READERS, **calls.READERS, **server.READERS}


def reader_of(kind: str) -> Reader | None:
    """The reader of a check type, a package's own included; None if there is none."""
    if (known := builtin().get(kind)) is not None:
        return known
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS, name=kind):
        reader: Reader = entry.load()
        return reader
    return None


def known_types() -> list[str]:
    """Names of every check type there is."""
    from importlib.metadata import entry_points

    return sorted({*builtin(), *(entry.name for entry in entry_points(group=ENTRY_POINTS))})
