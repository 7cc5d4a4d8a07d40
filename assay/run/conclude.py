"""What the end of an agent means: its stream, its exit code, its session and the engine's word on it."""

from __future__ import annotations

import traceback

from assay.decoders.ends import signal_name
from assay.model.events import Decoder, Exit, Facts
from assay.model.outcome import Ending
from assay.model.record import RunRecord
from assay.run import answer, limits, promises
from assay.run.attempt import Attempt
from assay.run.follow import STDERR, Follower
from assay.run.session import session_begun, session_file

STDERR_TAIL = 1 << 20
STOPPED_CODE = 128 + 15
"""Of a process that was told to stop. If its harness died then, nobody else is known to have sent the signal."""


def conclude(attempt: Attempt, decoder: Decoder, follower: Follower, code: int, container: str) -> None:
    """Write down how the run ended and what the stream stated.

    Args:
        attempt: The run.
        decoder: Of its stream.
        follower: Which has seen the whole stream.
        code: Of the agent's process.
        container: The agent's, stopped.
    """
    record, cut, earlier, engine = attempt.record, attempt.cut, attempt.job.earlier, attempt.engine
    stderr = (attempt.dir.path / STDERR).read_bytes()[-STDERR_TAIL:]
    session = follower.facts.session or record.session
    kept = session_file(engine, container, attempt.job, session, attempt.start)
    resumed = earlier is not None and earlier.kept
    stopped = cut is not None or (attempt.taken_over and code == STOPPED_CODE)
    exit_ = Exit(code, stderr, kept, stopped=stopped, resumed=resumed, ended_at=record.times.ended)
    try:
        facts = decoder.conclude(follower.facts, exit_)
        ending, reason = facts.ending or Ending.CRASHED, facts.reason
    except Exception:
        attempt.log.exception("decoder failed")
        facts, ending, reason = follower.facts, Ending.CRASHED, "the decoder failed; see harness.jsonl"
    if follower.fault is not None:
        attempt.log.error("decoder failed", traceback="".join(traceback.format_exception(follower.fault)))
        ending, reason = Ending.CRASHED, f"the decoder failed on this stream ({follower.fault!r}); see harness.jsonl"
    unasked = not stopped and ending is Ending.INTERRUPTED
    if unasked and not attempt.taken_over:
        ending, reason = Ending.CRASHED, _by_another(code, reason)
    if (memory := limits.memory_ran_out(engine, container, attempt.job.settings.memory)) is not None:
        if (ending is Ending.CRASHED or unasked) and facts.terminal is None:
            ending, reason = Ending.CRASHED, memory
        else:
            attempt.say(f"a process of the agent was killed: {memory}")
    # A CLI that said its last word and then did not end has finished all the same.
    if cut is not None and not (cut[0] is Ending.STALLED and ending is Ending.FINISHED):
        ending, reason = cut
    record.ending, record.reason, record.exit_code = ending, reason or None, code
    _write_facts(record, facts, vendor=attempt.job.choice.entry is not None)
    if record.error_kind == "auth" and attempt.job.held.names:
        record.reason = f"{record.reason or 'refused'} (the credential was {', '.join(attempt.job.held.names)})"
    _settle_resumable(attempt, begun=session_begun(engine, container, attempt.job, session, kept))
    promises.broken(attempt, facts)
    if attempt.job.ask is not None:
        answer.keep(attempt, container, facts.text, attempt.job.ask)


def _by_another(code: int, reason: str) -> str:
    """Why a CLI ended that says it was interrupted, though nobody of ours did that: its own tool calls can, too."""
    by = signal_name(code)
    return f"ended by {by}, which assay did not send" if by else f"{reason or 'interrupted'}; assay did not stop it"


def _write_facts(record: RunRecord, facts: Facts, *, vendor: bool) -> None:
    record.error_kind, record.reset_at = facts.error_kind or None, facts.reset_at
    record.session, record.model_used = facts.session or record.session, facts.model
    record.cli_version = facts.cli_version or record.cli_version
    record.turns, record.tokens, record.cost_usd = facts.turns, facts.tokens, facts.cost_usd
    record.cost_source = "cli" if facts.cost_usd is not None else None
    record.tool_calls = len(facts.tool_calls) if vendor else None


def _settle_resumable(attempt: Attempt, *, begun: bool) -> None:
    """Whether this run can be resumed, and whether there is a session of the CLI's to go on with."""
    record, entry = attempt.record, attempt.job.choice.entry
    if record.ending is None or entry is None or not record.ending.resumable:
        record.resumable = False
        return
    record.resumable = begun or record.ending is not Ending.CRASHED
    if not begun:
        record.session = None
