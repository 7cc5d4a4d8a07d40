"""What a decoder makes of a vendor's stream: a few kinds of event, and the facts of the whole.

A decoder is a pure generator: it takes the CLI's stdout as lines of bytes and yields events as they come;
its return value is the `Facts` that the stream states. `conclude` then adds what only the exit tells.

    gen = decoder.decode(lines)          # Generator[Event, None, Facts]
    facts = decoder.conclude(facts, exit_)

Events are never changed once they are yielded. They are not frozen all the same: that would quadruple what it costs to
make one, which is most of what decoding costs beyond parsing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from assay.model.outcome import Ending, Tokens

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping


@dataclass(slots=True)
class Started:
    """The CLI introduced itself. `tools` are the names it offers to the model; None where the stream does not say."""

    session: str = ""
    model: str = ""
    version: str = ""
    tools: tuple[str, ...] | None = None


@dataclass(slots=True)
class Text:
    """Words of the model. `actor` is "" for the main agent, else the sub-agent's label."""

    text: str
    actor: str = ""


@dataclass(slots=True)
class Thinking:
    """The model's reasoning, where the stream shows it."""

    text: str
    actor: str = ""


@dataclass(slots=True)
class ToolCall:
    """A tool call. `title` is the one argument a reader wants to see (a command, a path), as it was given."""

    name: str
    title: str = ""
    id: str = ""
    input: Mapping[str, object] | None = None
    actor: str = ""


@dataclass(slots=True)
class ToolResult:
    """What a tool call gave back. `ok` is None where the stream does not say."""

    text: str
    ok: bool | None = None
    id: str = ""
    actor: str = ""


@dataclass(slots=True)
class Note:
    """Anything else worth a line: retries, warnings, unknown events, the end. `level` is info, warning or error."""

    text: str
    level: str = "info"
    actor: str = ""


@dataclass(slots=True)
class Progress:
    """Spend so far, for the status line only; the record is made from `Facts`."""

    tokens: Tokens
    cost_usd: float | None = None


Event = Started | Text | Thinking | ToolCall | ToolResult | Note | Progress


@dataclass(slots=True)
class ToolUse:
    """One tool call in the facts; `ok` is None while no result was seen."""

    name: str
    ok: bool | None = None


@dataclass(slots=True)
class Facts:
    """What is known of a run from its stream, its exit and its session file.

    Attributes:
        ending: How the agent stopped, as far as the CLI tells (`timeout`, `stalled` and `interrupted` are the
            harness's own to say); None until `conclude`.
        reason: One line for the user; "" when there is nothing to add.
        error_kind: For `api-error`: auth, rate, server, network, billing, model or other; else "".
        reset_at: When a session limit lifts, where the vendor says so (aware, UTC).
        session: The CLI's own session id.
        model: The model as the stream names it (resolved, not the alias asked for).
        effort: The effort really used, where a stream or session file states it.
        cli_version: As the CLI says.
        turns: As the CLI counts them; None if it does not.
        tool_calls: In order, sub-agents' included.
        tools_offered: Names the CLI offered to the model, None where the stream does not say.
        tokens: Of this run alone (disjoint, see `Tokens`); None when nothing is known.
        cost_usd: Of this run alone; None unless the CLI says it.
        text: The final answer.
        terminal: The stream's own last word, verbatim (for notes and tests); None when it had none.
    """

    ending: Ending | None = None
    reason: str = ""
    error_kind: str = ""
    reset_at: datetime | None = None
    session: str | None = None
    model: str | None = None
    effort: str | None = None
    cli_version: str | None = None
    turns: int | None = None
    tool_calls: list[ToolUse] = field(default_factory=list)
    tools_offered: tuple[str, ...] | None = None
    tokens: Tokens | None = None
    cost_usd: float | None = None
    text: str = ""
    terminal: str | None = None


@dataclass(frozen=True, slots=True)
class Exit:
    """How the process ended.

    Attributes:
        code: Exit code, 128 + signal when killed; None when it is not known.
        stderr: The CLI's stderr as kept (bytes, at most the last MiB is needed).
        session_file: The CLI's own session file, where it was kept.
        stopped: True when the harness stopped the process (a missing terminal event is then no crash).
        resumed: True when the CLI went on with an earlier session: what its stream counts may then include that one.
        ended_at: When the process ended (aware, UTC); what a vendor's "resets in 34m" or "try again at 5:33 PM" is
            counted from. None when it is not known.
    """

    code: int | None
    stderr: bytes = b""
    session_file: bytes | None = None
    stopped: bool = False
    resumed: bool = False
    ended_at: datetime | None = None


class Decoder(Protocol):
    """What a module in `assay/decoders/` offers. Stateless: all state lives in the generator."""

    def decode(self, lines: Iterable[bytes]) -> Generator[Event, None, Facts]:
        """Yield events for the lines of the CLI's stdout; return what the stream states."""
        ...

    def conclude(self, facts: Facts, exit_: Exit) -> Facts:
        """Add ending and reason from the exit, stderr and session file; pure."""
        ...
