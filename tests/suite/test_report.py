"""Scores are exact, reports count what they should, and all three forms say the same."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from fractions import Fraction

import pytest

from assay.model.report import Case, Report, junit_xml
from assay.model.score import Score, State, exact, mean
from assay.terminal.suite_tables import report_text


def case(name: str, *values: Fraction | str | Score) -> Case:
    made = [v if isinstance(v, Score) else Score.of(Fraction(v), 1) for v in values]
    return Case(name, {f"m{i}": score for i, score in enumerate(made)})


def report(*cases: Case, threshold: str = "1", errors_fail: bool = False) -> Report:
    return Report("s", exact(threshold), cases, errors_fail=errors_fail)


def test_three_times_seven_tenths_meet_seven_tenths() -> None:
    whole = report(case("a", "7/10"), case("b", "7/10"), case("c", "7/10"), threshold="0.7")
    assert whole.value == whole.threshold
    assert (whole.passed, whole.exit_code) == (True, 0)
    assert 0.7 * 3 / 3 < 0.7, "which binary floats get wrong"


def test_the_mean_is_over_cases_and_within_a_case_over_metrics() -> None:
    assert report(case("a", "1", "0"), case("b", "1")).value == Fraction(3, 4)
    assert mean([]) == 0


@pytest.mark.parametrize(
    ("cases", "errors_fail", "code"),
    [
        ([case("a", "1")], False, 0),
        ([case("a", "1/2")], False, 1),
        ([case("a", "1"), case("b", Score.error("e"))], False, 3),
        ([case("a", "1"), case("b", Score.error("e"))], True, 1),
        ([case("a", "1"), case("b", Score.skipped("s"))], False, 0),
        ([], False, 3),
    ],
)
def test_exit_codes(cases: list[Case], errors_fail: bool, code: int) -> None:
    assert report(*cases, errors_fail=errors_fail).exit_code == code


def test_an_error_is_nothing_in_the_mean_and_null_in_json() -> None:
    whole = report(case("a", "1", Score.error("gone", {"stderr": "x"})))
    assert whole.value == Fraction(1, 2)
    data = json.loads(json.dumps(whole.as_dict()))
    assert data["cases"][0]["scores"] == {"m0": 1.0, "m1": None}
    assert data["cases"][0]["error"] == "gone"
    assert data["cases"][0]["details"]["m1"]["evidence"] == {"stderr": "x"}
    assert (data["passed"], data["measured"]) == (False, False)


def test_a_score_is_what_it_says() -> None:
    with pytest.raises(ValueError, match="has no value"):
        Score(State.ERROR, Fraction(0))
    with pytest.raises(ValueError, match="needs a value"):
        Score(State.PASSED)
    with pytest.raises(ValueError, match="lies in"):
        Score.of(2, 1)


def test_almost_all_is_not_all() -> None:
    text = report_text(report(case("a", "9999/10000")))
    assert "a     1.00   ~" in text
    assert text.endswith("SUITE SCORE: 1.00   threshold 1.00   FAIL\n")


def test_wide_names_stay_aligned() -> None:
    lines = report_text(report(case("名前", "1"), case("e\u0301a", "0"))).splitlines()
    assert lines[1] == "名前  1.00   ✓"
    assert lines[3].endswith("a    0.00   ✗")


def test_junit_of_a_suite_says_whether_it_passed() -> None:
    suite = ET.fromstring(junit_xml(Report("s", Fraction(1), (Case("a", {"m": Score.of(1, 2, "half")}),))))[0]
    facts = {fact.get("name"): fact.get("value") for fact in suite.iter("property")}
    assert facts == {"score": "0.5", "threshold": "1.0", "passed": "false"}


def test_junit_is_xml_whatever_is_in_it() -> None:
    nasty = 'a<b>&"\x00\x1b[31m\ud800'
    whole = Report(nasty, Fraction(1), (Case(nasty, {nasty: Score.of(0, 1, nasty, {nasty: nasty})}),), error=nasty)
    suite = ET.fromstring(junit_xml(whole))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert 'a<b>&"' in (failure.get("message") or "")
