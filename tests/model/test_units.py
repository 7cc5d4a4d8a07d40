from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.model.units import parse_duration, parse_size, show_duration, show_moment, show_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5), ("30m", 1800), ("1h30m", 5400), ("1.5h", 5400), ("200ms", 0.2), ("2d", 172800), (90, 90), ("90", 90)],
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "5x",
        "m",
        "5 m",
        "-5s",
        "0s",
        0,
        -1,
        True,
        None,
        [],
        float("nan"),
        float("inf"),
        "1h,",
        "٣",
        10**400,
        "9" * 400,
        "366d",
    ],
)
def test_what_is_no_duration(wrong: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(wrong)


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GiB", 2 << 30), ("512MB", 512_000_000), ("512 MB", 512_000_000), ("1.5KiB", 1536), ("64kb", 64_000), (7, 7)],
)
def test_sizes(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "wrong", ["", "2G", "GiB", "-1MB", "0B", 0, -5, True, 1.5, None, "2GiBB", "1e3B", 10**30, "9999999TiB"]
)
def test_what_is_no_size(wrong: object) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(wrong)


@given(st.integers(min_value=1, max_value=365 * 86400))
def test_shown_is_read_back(n: int) -> None:
    assert parse_duration(show_duration(n)) == n
    assert parse_size(show_size(n)) == n


def test_shown_as_people_write() -> None:
    assert show_duration(1800) == "30m"
    assert show_duration(0.2) == "0.2s"
    assert show_size(2 << 30) == "2GiB"
    assert show_size(512_000_000) == "512MB"


@pytest.fixture
def clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine's clock in some zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("clock", "zone", "hours"),
    [("UTC0", "UTC", 0), ("XXX-2", "UTC+02:00", 2), ("XXX3:30", "UTC-03:30", -3.5), ("XXX-5:45", "UTC+05:45", 5.75)],
    indirect=["clock"],
)
@pytest.mark.usefixtures("clock")
def test_a_moment_names_its_zone(zone: str, hours: float) -> None:
    at = datetime(2026, 11, 30, 15, 40, tzinfo=UTC)
    local = at + timedelta(hours=hours)
    assert show_moment(at, dated=True) == f"{local:%Y-%m-%d %H:%M} {zone}"
    assert show_moment(at.astimezone(timezone(timedelta(hours=9))), dated=True) == show_moment(at, dated=True)


@pytest.mark.parametrize("clock", ["UTC0", "XXX-13", "XXX11"], indirect=True)
@pytest.mark.usefixtures("clock")
def test_a_moment_of_another_day_names_it() -> None:
    now = datetime.now().astimezone()
    noon = now.replace(hour=12, minute=0)
    assert show_moment(noon).startswith("12:00 UTC")
    assert show_moment(noon + timedelta(days=1)).startswith(f"{noon + timedelta(days=1):%a %d %b} 12:00 UTC")
