"""How a run is told in one line."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from assay.model.place import as_named
from assay.model.units import show_moment
from assay.run.chain import Total
from assay.terminal.figures import dollars, seconds, tokens
from assay.terminal.sanitise import one_line, squeeze

LONGEST_REASON = 240
"""Columns of a reason in a line; the record has it whole."""

MARKS = {"pass": "✓", "fail": "✗", "checker-error": "!"}


def result_line(run: Mapping[str, Any], runs: Path) -> str:
    """Verdict, ending and why, time, tokens, cost, and where the run is kept."""
    verdict = run.get("verdict")
    parts = [
        f"{MARKS.get(verdict or '', '·')} {verdict_words(run)}",
        ending_words(run),
        seconds(run.get("times", {}).get("seconds")),
        tokens_words(run.get("tokens", {})),
        dollars(run.get("cost_usd")),
        str(as_named(runs / run["id"])),
    ]
    return one_line(" · ".join(part for part in parts if part))


def verdict_words(run: Mapping[str, Any]) -> str:
    """The verdict, with its reason or score where there is one."""
    verdict = run.get("verdict")
    if verdict is None:
        return _reason(run.get("verdict_reason") or "") or "not graded"
    if verdict == "none":
        return "no checker"
    said = [_reason(run.get("verdict_reason") or "")]
    if run.get("score") not in (None, 0.0, 1.0):
        said.append(f"score {run['score']:g}")
    why = "; ".join(part for part in said if part)
    return f"{verdict} ({why})" if why else str(verdict)


def ending_words(run: Mapping[str, Any]) -> str:
    """How the agent stopped, with the reason where there is one, and when a limit lifts."""
    ending = str(run.get("ending") or run.get("state") or "")
    return f"{ending} ({_reason(run['reason'])})" if run.get("reason") else ending


def unfinished_words(run: Mapping[str, Any]) -> str:
    """The state of a run that is not committed, and whether it was left behind by an assay that was killed."""
    from assay.run.owner import alive

    known = alive(run["owner"]) if run.get("owner") else None
    return f"{run.get('state')}…" if known is not False else f"{run.get('state')}, left behind (assay recover)"


def _reason(text: str) -> str:
    return squeeze(one_line(text), LONGEST_REASON)


def chain_words(total: Total) -> str:
    """What a run and those it goes on with came to."""
    costs = [dollars(total.cost_usd)] if total.cost_usd is not None else []
    costs += [f"{total.cost_unknown} of unknown cost"] if total.cost_unknown and costs else []
    spent = tokens_words(total.tokens.as_dict()) if total.tokens is not None else ""
    count = f"{total.runs} run{'' if total.runs == 1 else 's'}"
    return " · ".join(part for part in (count, seconds(total.seconds), spent, " and ".join(map(str, costs))) if part)


def tokens_words(kinds: Mapping[str, int]) -> str:
    """What went in, how much of it from a cache, and what came out; "" where nothing is known."""
    into = [kinds[kind] for kind in ("input", "cached", "cache_write") if kind in kinds]
    said = f"{tokens(sum(into))} in" if into else ""
    if kinds.get("cached"):
        said += f" ({tokens(kinds['cached'])} cached)"
    out = f"{tokens(kinds['output'])} out" if "output" in kinds else ""
    return ", ".join(part for part in (said, out) if part)


def resumable_when(run: Mapping[str, Any]) -> str:
    """`resumable`, from the beginning if nothing was kept, and when: before a limit lifts it is in vain."""
    lost = run.get("times", {}).get("started") is not None and not (run.get("snapshot") and run.get("session"))
    return f"{_resumable_at(run)} from the beginning (no snapshot)" if lost else _resumable_at(run)


def _resumable_at(run: Mapping[str, Any]) -> str:
    reset = run.get("reset_at")
    if reset is None:
        return "resumable"
    at = datetime.fromisoformat(reset) if isinstance(reset, str) else reset
    return f"resumable after {show_moment(at)}" if at > datetime.now(at.tzinfo) else "resumable"
