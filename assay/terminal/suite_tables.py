"""Tables of reports: cases, their metrics, the verdict; and the faults behind them."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable
from typing import TextIO

from assay.model.report import Case, Report
from assay.model.score import Score, State

PASS, PART, NONE = "✓", "~", "✗"
_GAP = 2
_OF_A_FAULT = {"command", "url"}
"""Evidence that only a fault of the server's has; what an answer was like is in its detail."""


def report_text(report: Report) -> str:
    """A report as text: a table of aligned columns, notes, the verdict."""
    rows: list[tuple[str, ...]] = [("CASE", "SCORE", "RESULT")]
    for case in report.cases:
        rows += _case_rows(case)
    lines = [] if report.error else _aligned(rows)
    if report.error:
        lines = [f"ERROR: {line}" if number == 0 else line for number, line in enumerate(_safe_lines(report.error))]
    if report.notes:
        lines += ["", *(f"note: {safe(note)}" for note in report.notes)]
    return "\n".join([*lines, "", verdict(report), ""])


def verdict(report: Report) -> str:
    """The last line: score, threshold, and whether that is enough."""
    word = "PASS" if report.passed else "FAIL" if report.exit_code == 1 else "ERROR"
    why = ""
    if word == "ERROR" and not report.error:
        count = sum(case.state is State.ERROR for case in report.cases)
        why = f" ({count} of {len(report.cases)} could not be measured)"
    threshold = "" if report.threshold is None else f"threshold {float(report.threshold):.2f}   "
    return f"SUITE SCORE: {float(report.value):.2f}   {threshold}{word}{why}"


def print_report(report: Report, stream: TextIO | None = None) -> None:
    """Write a report to a stream, standard output by default."""
    out = stream or sys.stdout
    text = report_text(report)
    encoding = getattr(out, "encoding", None) or "utf-8"
    out.write(text.encode(encoding, "replace").decode(encoding))
    out.flush()


def print_text(text: str) -> None:
    """Write text that is meant for another program (JSON, a suite) to standard output, as it is."""
    sys.stdout.write(text)
    sys.stdout.flush()


def print_remark(text: str) -> None:
    """Write lines for a person, made safe, to standard error."""
    sys.stderr.write("\n".join(_safe_lines(text)) + "\n")


def mark(value: float) -> str:
    """All, nothing, or something between."""
    return PASS if value >= 1 else NONE if value <= 0 else PART


def _case_rows(case: Case) -> Iterable[tuple[str, ...]]:
    state = case.state
    if state is State.SKIPPED:
        yield (safe(case.name), "-", "SKIPPED")
    else:
        shown = "ERROR" if state is State.ERROR else mark(float(case.value))
        yield (safe(case.name), f"{float(case.value):.2f}", shown)
    metrics = {**({"pass_rate": case.total} if case.total else {}), **case.scores}
    for name, score in metrics.items():
        yield (f"  {safe(name)}", _number(score), safe(score.detail))
        if score.state is State.ERROR or _OF_A_FAULT & score.evidence.keys():
            for label, text in score.evidence.items():
                for number, line in enumerate(_safe_lines(text)):
                    yield ("", "", f"{label}: {line}" if number == 0 else f"{' ' * len(label)}  {line}")


def _number(score: Score) -> str:
    if score.value is None:
        return "ERROR" if score.state is State.ERROR else "-"
    return f"{float(score.value):.2f}"


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(_width, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    lines = []
    for row in rows:
        cells = [cell + " " * (width - _width(cell) + _GAP) for cell, width in zip(row, widths, strict=False)]
        lines.append(("".join(cells) + row[-1]).rstrip())
    return lines


def _width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def safe(text: str) -> str:
    """Text that may come from outside, on one line, in which nothing acts on a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _safe_lines(text: str) -> list[str]:
    return [safe(line) for line in text.splitlines()] or [""]
