"""A report: cases, what each metric said, and whether the whole meets its threshold.

Suites, stages and single graded runs are reported in this one form, so that a table, JSON and JUnit look alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from assay.model.outcome import ExitCode
from assay.model.score import Score, State, mean

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Case:
    """One check, one prompt or one run, and what was asked of it.

    Attributes:
        name: As the suite names it.
        scores: Metric name to score, in the order in which they are shown; only what was asked for.
        seconds: Wall time, where it was measured.
        total: The case's own score where it is not the mean of `scores` (a pass rate); else None.
    """

    name: str
    scores: Mapping[str, Score]
    seconds: float | None = None
    total: Score | None = None

    @property
    def state(self) -> State:
        """Error if anything could not be measured, skipped if nothing was tried, else passed or failed."""
        states = [score.state for score in self.scores.values()]
        if State.ERROR in states or (self.total and self.total.state is State.ERROR):
            return State.ERROR
        if states and all(state is State.SKIPPED for state in states):
            return State.SKIPPED
        return State.PASSED if self.value == 1 else State.FAILED

    @property
    def value(self) -> Fraction:
        """Exact mean of what was asked for; what could not be measured adds nothing."""
        if self.total is not None:
            return self.total.value or Fraction(0)
        return mean(score.value or Fraction(0) for score in self.scores.values())

    def told(self) -> str:
        """The case as lines of text: its score, what each metric said, and the evidence."""
        lines = [f"{self.name}: {float(self.value):.2f}"]
        for name, score in self.scores.items():
            number = score.state.value if score.value is None else f"{float(score.value):.2f}"
            lines.append(f"  {name}  {number}  {score.detail}")
            lines += [f"    {label}: {text}" for label, text in score.evidence.items()]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """JSON form."""
        out: dict[str, object] = {
            "name": self.name,
            "score": float(self.value),
            "exact": str(self.value),
            "state": self.state.value,
            "scores": {name: None if s.value is None else float(s.value) for name, s in self.scores.items()},
            "details": {name: score.as_dict() for name, score in self.scores.items()},
            "latency_ms": None if self.seconds is None else round(self.seconds * 1000, 3),
        }
        errors = [score.detail for score in self.scores.values() if score.state is State.ERROR]
        return {**out, **({"error": errors[0]} if errors else {})}


@dataclass(frozen=True, slots=True)
class Report:
    """What a suite (or a stage) came to.

    Attributes:
        name: Of the suite.
        threshold: The least score that passes, exact; None where the report is no test of anything.
        cases: In the order of the suite.
        error: Why nothing could be measured; "" otherwise.
        errors_fail: True if what could not be measured is a score of 0 like any other, instead of exit 3.
        about: Facts about what was tested: server, protocol, versions.
        notes: Findings that no check asked for; shown, never scored.
        seconds: Wall time of the whole.
    """

    name: str
    threshold: Fraction | None
    cases: tuple[Case, ...]
    error: str = ""
    errors_fail: bool = False
    about: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float | None = None

    @property
    def value(self) -> Fraction:
        """Exact mean over the cases that were not skipped on purpose."""
        return mean(case.value for case in self.cases if case.state is not State.SKIPPED)

    @property
    def measured(self) -> bool:
        """Whether everything that was asked for could be measured."""
        return not self.error and bool(self.cases) and all(case.state is not State.ERROR for case in self.cases)

    @property
    def passed(self) -> bool:
        """Whether the score meets the threshold and nothing is missing from it (unless `errors_fail`)."""
        enough = self.threshold is None or self.value >= self.threshold
        return bool(self.cases) and not self.error and enough and (self.measured or self.errors_fail)

    @property
    def exit_code(self) -> int:
        """0 passed, 1 below the threshold, 3 could not be measured."""
        if self.passed:
            return ExitCode.DONE
        if self.measured or (self.errors_fail and not self.error):
            return ExitCode.NOTHING_PASSED
        return ExitCode.UNMEASURED

    def as_dict(self) -> dict[str, object]:
        """JSON form."""
        from assay import __version__

        return {
            "format": FORMAT,
            "assay": __version__,
            "suite": self.name,
            "score": float(self.value),
            "exact": str(self.value),
            "threshold": None if self.threshold is None else float(self.threshold),
            "passed": self.passed,
            "measured": self.measured,
            "cases": [case.as_dict() for case in self.cases],
            **({"error": self.error} if self.error else {}),
            "notes": list(self.notes),
            "about": dict(self.about),
            "seconds": self.seconds,
        }


def junit_xml(report: Report) -> str:
    """The report in the JUnit form that CI systems read; one testcase per metric."""
    import re
    from xml.sax.saxutils import escape, quoteattr

    not_xml = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

    def attr(text: str) -> str:
        return quoteattr(not_xml.sub("�", text))

    def body(score: Score) -> str:
        lines = [score.detail, *(f"{label}: {text}" for label, text in score.evidence.items())]
        return escape(not_xml.sub("�", "\n".join(lines)))

    rows = [(case, name, score) for case in report.cases for name, score in case.scores.items()]
    count = {state: sum(score.state is state for _, _, score in rows) for state in State}
    extra_error = 1 if report.error else 0
    head = (
        f"<testsuite name={attr(report.name)} tests={attr(str(len(rows) + extra_error))} "
        f'failures="{count[State.FAILED]}" errors="{count[State.ERROR] + extra_error}" '
        f'skipped="{count[State.SKIPPED]}" time="{report.seconds or 0:.3f}">'
    )
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<testsuites>", head]
    facts = {"score": str(float(report.value))}
    if report.threshold is not None:
        facts |= {"threshold": str(float(report.threshold)), "passed": str(report.passed).lower()}
    properties = [f'<property name="{name}" value="{value}"/>' for name, value in facts.items()]
    lines += ["<properties>", *properties, "</properties>"]
    if report.error:
        lines.append(
            f"<testcase classname={attr(report.name)} name={attr(report.name)}>"
            f"<error message={attr(report.error)}/></testcase>"
        )
    tags = {State.FAILED: "failure", State.ERROR: "error", State.SKIPPED: "skipped"}
    for case, name, score in rows:
        open_tag = (
            f"<testcase classname={attr(f'{report.name}.{case.name}')} name={attr(name)} "
            f'time="{case.seconds or 0:.3f}">'
        )
        tag = tags.get(score.state)
        inner = f"<{tag} message={attr(score.detail)}>{body(score)}</{tag}>" if tag else ""
        lines.append(f"{open_tag}{inner}</testcase>")
    return "\n".join([*lines, "</testsuite>", "</testsuites>", ""])
