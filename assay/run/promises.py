"""What was promised of a run, held against what its CLI says and does: a run that was another measures nothing."""

from __future__ import annotations

from assay.model.events import Event, Facts, Started, ToolCall, ToolResult
from assay.model.outcome import Ending
from assay.run.attempt import Attempt


class NoWeb:
    """Ends a run without internet whose CLI has the vendor's own web tools all the same: no fence sees those.

    Args:
        attempt: The run.
    """

    def __init__(self, attempt: Attempt) -> None:
        entry = attempt.job.choice.entry
        offline = entry is not None and not attempt.job.settings.internet
        self._attempt = attempt
        self._web = frozenset(entry.web_tools) if entry is not None and offline else frozenset()
        self._called: dict[str, str] = {}

    def event(self, event: Event) -> None:
        """Look at what the agent said or did."""
        if isinstance(event, Started):
            self._attempt.log.info("introduced", session=event.session, model=event.model, version=event.version)
            if offered := [tool for tool in event.tools or () if tool in self._web]:
                self._end(f"the CLI offers {', '.join(offered)}")
        elif isinstance(event, ToolCall) and event.name in self._web:
            self._called[event.id] = event.name
        elif isinstance(event, ToolResult) and event.id in self._called:
            # A model may ask for a tool that it was never given; the CLI then tells it so.
            name = self._called.pop(event.id)
            if event.ok is not False:
                self._end(f"the CLI has used {name}")

    def _end(self, what: str) -> None:
        self._attempt.cut_short(Ending.CRASHED, f"{what} although the run has no internet")


def broken(attempt: Attempt, facts: Facts) -> None:
    """Write down where the run was not the one that was asked for: another effort, another session."""
    record, earlier = attempt.record, attempt.job.earlier
    if facts.effort is not None and record.effort is not None and facts.effort != record.effort:
        record.ending, record.resumable = Ending.CRASHED, False
        record.reason = f"effort {record.effort} was asked for, the CLI used {facts.effort}"
    if earlier is not None and earlier.kept and facts.session not in (None, earlier.record.session):
        record.ending = Ending.CRASHED
        record.reason = f"the CLI began a new session {facts.session} instead of going on with {earlier.record.session}"
        attempt.not_begun()
