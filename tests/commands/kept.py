"""Kept runs made by hand, as a run leaves them: for commands that only read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from assay.model.outcome import Ending, Tokens, Verdict
from assay.model.record import RunRecord, State, Times
from assay.run.record import RunDir

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def keep(root: Path, number: int = 1, files: dict[str, str | bytes] | None = None, **facts: Any) -> RunDir:
    """A committed run in root/runs; `number` sorts it among the others."""
    at = NOON + timedelta(seconds=number)
    known: dict[str, Any] = {
        "task": "t",
        "task_path": str(root / "tasks/t"),
        "task_digest": "0" * 64,
        "agent": "nop",
        "ending": Ending.FINISHED,
        "verdict": Verdict.FAIL,
        "tokens": Tokens(100, 20, output=30),
        "cost_usd": 0.5,
        "left": "complete",
        "fence": "closed",
    }
    record = RunRecord(id=f"{at:%Y%m%dT%H%M%S}Z-t-nop-{number:04x}", **{**known, **facts})
    record.times = Times(at, at, at, None, seconds=2.0 + number, limit_seconds=1800.0)
    path = root / "runs" / record.id
    path.mkdir(parents=True)
    run = RunDir(path, record)
    run.save(State.CREATED)
    for name, content in (files or {}).items():
        run.write(name, content)
    run.commit()
    return run
