"""What a suite says about the agent under test."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from assay.suite.reader import Table

DEFAULT_TIMEOUT = 300.0
KINDS = ("object", "command", "name", "run", "recorded")


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """Which agent is tested; one of `KINDS` is set.

    Attributes:
        object: A Python object, `module:attribute`.
        command: A program: prompt on standard input, answer on standard output.
        format: What the program writes: text, or json (a trajectory or chat messages).
        name: An agent of the registry, run in a container.
        model: For that agent; "" is its default.
        effort: For that agent; "" is its default.
        rehearse: A script that a stand-in for the vendor's API speaks by; "" is the vendor itself.
        run: A kept run.
        recorded: A file with a trajectory or chat messages as JSON.
        env: Variables for the program.
        cwd: Where the program starts; None is the current folder.
        timeout: Seconds for one answer.
    """

    object: str = ""
    command: tuple[str, ...] = ()
    format: str = "text"
    name: str = ""
    model: str = ""
    effort: str = ""
    rehearse: str = ""
    run: str = ""
    recorded: Path | None = None
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    timeout: float = DEFAULT_TIMEOUT

    @property
    def kinds(self) -> list[str]:
        """Which of `KINDS` are set."""
        return [kind for kind in KINDS if getattr(self, kind)]

    @property
    def only_cli(self) -> str:
        """What of it only `assay agent` takes up, as in `run = "last"`: containers and kept runs; "" if nothing."""
        return next((f'{kind} = "{value}"' for kind in ("name", "run") if (value := getattr(self, kind))), "")


def read_agent(suite: Table) -> AgentSpec:
    """The `agent` table of a suite."""
    from assay.suite.suite import read_texts, split_command

    table = suite.table("agent")
    if table is None:
        return AgentSpec()
    value = table.get("command")
    words = (
        table.texts("command") if isinstance(value, list) else split_command(table, "command", table.text("command"))
    )
    cwd, recorded = table.text("cwd"), table.text("recorded")
    spec = AgentSpec(
        object=table.text("object"),
        command=words,
        format=table.choice("format", ("text", "json"), "text"),
        name=table.text("name"),
        model=table.text("model"),
        effort=table.text("effort"),
        rehearse=str(suite.file.parent / script) if (script := table.text("rehearse")) else "",
        run=table.text("run"),
        recorded=suite.file.parent / recorded if recorded else None,
        env=read_texts(table, "env"),
        cwd=suite.file.parent / cwd if cwd else None,
        timeout=table.seconds("timeout") or DEFAULT_TIMEOUT,
    )
    if len(spec.kinds) > 1:
        table.fail(spec.kinds[1], f"one agent is tested; {' and '.join(spec.kinds)} name several")
    table.finish()
    return spec
