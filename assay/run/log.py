"""harness.jsonl: what the harness did in one run, one JSON object a line."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any


class Log:
    """A run's own log. After `close` (or when the disk is full) a line is lost, never the run.

    Args:
        run: The run directory.
    """

    def __init__(self, run: Path) -> None:
        import structlog

        self._file = (run / "harness.jsonl").open("a", encoding="utf-8", buffering=1)
        self._logger = structlog.wrap_logger(
            structlog.WriteLogger(self._file),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ],
            wrapper_class=structlog.BoundLogger,
            cache_logger_on_first_use=False,
        )

    def info(self, event: str, **facts: Any) -> None:
        """Something happened."""
        self._write("info", event, facts)

    def error(self, event: str, **facts: Any) -> None:
        """Something went wrong."""
        self._write("error", event, facts)

    def exception(self, event: str, **facts: Any) -> None:
        """Something went wrong, with the traceback of the exception being handled."""
        self._write("error", event, {**facts, "traceback": traceback.format_exc()})

    def close(self) -> None:
        """No more lines."""
        try:
            self._file.close()
        except OSError:
            return

    def _write(self, level: str, event: str, facts: dict[str, Any]) -> None:
        try:
            getattr(self._logger, level)(event, **{key: value for key, value in facts.items() if value is not None})
        except (OSError, ValueError, UnicodeError):
            return
