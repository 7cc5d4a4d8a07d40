"""Tables, fields and figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.terminal import figures
from assay.terminal.sanitise import width
from assay.terminal.tables import fields, table


def test_columns_are_aligned_by_what_is_seen() -> None:
    assert table(["run", "cost"], [["a", "$1.00"], ["你好", None]], right="cost") == (
        "run    cost\n"
        "a     $1.00\n"
        "你好\n"
    )  # fmt: skip


def test_cells_are_sanitised_and_in_one_line() -> None:
    assert table(["name"], [["a\nb\x1b[2J\u202e"]]) == "name\na b\n"


def test_the_widest_column_gives_way() -> None:
    shown = table(["id", "reason"], [["abc", "x" * 100], ["defg", "short"]], columns=30)
    assert shown.splitlines() == ["id    reason", f"abc   {'x' * 23}…", "defg  short"]


@given(st.lists(st.lists(st.text(max_size=40), min_size=3, max_size=3), max_size=5), st.integers(30, 90))
def test_no_row_is_wider_than_the_terminal(rows: list[list[str]], columns: int) -> None:
    for line in table(["a", "b", "c"], rows, right="c", columns=columns).splitlines():
        assert width(line) <= columns


def test_fields_leave_out_what_is_not_known() -> None:
    assert fields([("ending", "finished"), ("reason", ""), ("cost", None), ("turns", 0), ("why", "a\nb")]) == (
        "ending  finished\n"
        "turns   0\n"
        "why     a\n"
        "        b\n"
    )  # fmt: skip
    assert fields([]) == ""
    assert fields([("a", "x" * 50)], columns=10) == "a  xxxxxx…\n"


@pytest.mark.parametrize(
    ("value", "want"),
    [(None, ""), (0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.9, "60 s"), (185, "3:05"), (3723, "1:02:03")],
)
def test_seconds(value: float | None, want: str) -> None:
    assert figures.seconds(value) == want


@pytest.mark.parametrize(
    ("value", "want"), [(None, ""), (0, "0"), (999, "999"), (12_345, "12.3k"), (999_960, "1.00M"), (4_560_000, "4.56M")]
)
def test_tokens(value: int | None, want: str) -> None:
    assert figures.tokens(value) == want


@pytest.mark.parametrize(
    ("value", "want"), [(None, ""), (0, "$0"), (0.026235, "$0.0262"), (1.92012, "$1.92"), (0.0000135, "<$0.0001")]
)
def test_dollars(value: float | None, want: str) -> None:
    assert figures.dollars(value) == want
