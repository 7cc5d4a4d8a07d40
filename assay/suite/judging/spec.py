"""What a suite says about judging."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from assay.model.score import exact
from assay.suite.reader import Table


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """Who judges, by what, and how often.

    Attributes:
        rubric: What a good answer is, in words.
        command: A program that reads a question as JSON and writes a grade as JSON.
        agent: An agent of the registry, asked in a container.
        model: For that agent; "" is its default.
        effort: For that agent; "" is its default.
        rehearse: A script that a stand-in for the vendor's API speaks by; "" is the vendor itself.
        votes: How often the judge is asked; the median counts.
        least: Grade from which the answer is good (score 1, else 0); None takes the grade itself as the score.
        timeout: Seconds for one vote.
    """

    rubric: str = ""
    command: tuple[str, ...] = ()
    agent: str = ""
    model: str = ""
    effort: str = ""
    rehearse: str = ""
    votes: int = 1
    least: Fraction | None = None
    timeout: float = 120.0


def read_judge(table: Table, shared: JudgeSpec | None) -> JudgeSpec:
    """A `judge` table; what it leaves out is as in `shared`."""
    from assay.suite.suite import split_command

    base = shared or JudgeSpec()
    value = table.get("command")
    command = (
        table.texts("command") if isinstance(value, list) else split_command(table, "command", table.text("command"))
    )
    agent = table.text("agent")
    if command and agent:
        table.fail("agent", "a command judges or an agent does, not both")
    least = table.number("least", 0, 1)
    return JudgeSpec(
        rubric=table.text("rubric", base.rubric),
        command=command or (() if agent else base.command),
        agent=agent or ("" if command else base.agent),
        model=table.text("model", base.model),
        effort=table.text("effort", base.effort),
        rehearse=str(table.file.parent / script) if (script := table.text("rehearse")) else base.rehearse,
        votes=table.whole("votes", 1) or base.votes,
        least=base.least if least is None else exact(getattr(least, "text", least)),
        timeout=table.seconds("timeout") or base.timeout,
    )
