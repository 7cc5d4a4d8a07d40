"""run.toml: what is known of one run, from its creation to its commit."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from assay.model.errors import ConfigError
from assay.model.outcome import Ending, Tokens, Verdict


class State(StrEnum):
    """How far a run has come; it only moves forward. `committed` is the last write of run.toml, for ever."""

    CREATED = "created"
    RUNNING = "running"
    STOPPED = "stopped"
    COLLECTED = "collected"
    COMMITTED = "committed"


STATES = tuple(State)


@dataclass(slots=True)
class Times:
    """When things happened (aware, UTC), and the agent's own wall time in seconds."""

    created: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    committed: datetime | None = None
    seconds: float | None = None
    limit_seconds: float | None = None


@dataclass(slots=True)
class RunRecord:
    """One run. Unknown is None and is left out of the file, never written as 0 or "".

    Attributes:
        id: Name of the run directory.
        attempt: Ordinal of this run among those of its rung, from 1.
        agent_version: Version that the agent's entry pins; `cli_version` is what the CLI itself says, where it does.
        image: Id of the image the agent ran in; `task_image` that of the environment, where the checker runs.
        fence: `closed`, `open`, `sni` or `none` (no network at all).
        repository: Name of the copy that an ask looks at; None for a run of a task.
        cost_source: `cli` or `price-table`; None where the cost is unknown.
        reset_at: When a session limit lifts.
        secrets_redacted: How often a known secret was replaced in what was kept.
        left: `complete`, `truncated` or `none`; why, in `left_reason`.
    """

    id: str
    state: State = State.CREATED
    task: str = ""
    task_path: str = ""
    task_digest: str = ""
    stage: str | None = None
    rung: int | None = None
    attempt: int = 1
    agent: str = ""
    decoder: str | None = None
    agent_version: str | None = None
    cli_version: str | None = None
    model: str | None = None
    model_used: str | None = None
    unlisted: bool = False
    effort: str | None = None
    rehearsal: bool = False
    image: str | None = None
    task_image: str | None = None
    checker_image: str | None = None
    engine: str | None = None
    fence: str | None = None
    repository: str | None = None
    owner: str | None = None
    ending: Ending | None = None
    reason: str | None = None
    error_kind: str | None = None
    reset_at: datetime | None = None
    resumable: bool = False
    exit_code: int | None = None
    session: str | None = None
    turns: int | None = None
    tool_calls: int | None = None
    verdict: Verdict | None = None
    verdict_reason: str | None = None
    score: float | None = None
    cost_usd: float | None = None
    cost_source: str | None = None
    resumed_from: str | None = None
    snapshot: str | None = None
    left: str | None = None
    left_reason: str | None = None
    changes: int | None = None
    secrets_redacted: int | None = None
    tokens: Tokens | None = None
    times: Times = field(default_factory=Times)

    def to_toml(self) -> dict[str, Any]:
        """Known values only, tables last, as TOML wants them."""
        plain: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if value is None or f.name in ("tokens", "times"):
                continue
            plain[f.name] = str(value) if isinstance(value, StrEnum) else value
        if self.tokens is not None:
            plain["tokens"] = self.tokens.as_dict()
        plain["times"] = {key: value for key, value in asdict(self.times).items() if value is not None}
        return plain

    @classmethod
    def from_toml(cls, data: dict[str, Any], file: Path | str) -> RunRecord:
        """Read what `to_toml` wrote; keys of a newer version are ignored.

        Raises:
            ConfigError: The file is no run record.
        """
        known = {f.name for f in fields(cls)}
        values = {key: value for key, value in data.items() if key in known}
        try:
            values["state"] = State(values["state"])
            for key, kind in (("ending", Ending), ("verdict", Verdict)):
                if key in values:
                    values[key] = kind(values[key])
            if "tokens" in values:
                values["tokens"] = Tokens(**values["tokens"])
            values["times"] = Times(**values.get("times", {}))
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(file, "", f"is not a run record ({error})") from None


RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[A-Za-z0-9._-]+-[A-Za-z0-9._-]+-[0-9a-f]{4}")
"""What every run's id looks like: time, task, agent, and four digits that tell runs of one second apart."""


def slug(name: str) -> str:
    """A name fit for a run's id: letters, digits, dot, underscore and dash, at most 40 characters."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:40] or "task"
