"""Which signals stop gently, and which give up what is not kept yet."""

from __future__ import annotations

from signal import SIGHUP, SIGINT, SIGTERM, Signals

import pytest

from assay.commands.stopping import Insistence

Heard = list[tuple[float, Signals]]


@pytest.mark.parametrize(
    ("heard", "asked"),
    [
        pytest.param([(0, SIGINT), (0.1, SIGINT)], [False, True], id="Ctrl-C twice"),
        pytest.param([(0, SIGHUP), (0, SIGHUP), (60, SIGHUP)], [False, None, None], id="a closed terminal"),
        pytest.param([(0, SIGTERM), (0.01, SIGTERM)], [False, None], id="timeout"),
        pytest.param([(0, SIGTERM), (0.01, SIGTERM), (2, SIGTERM)], [False, None, True], id="SIGTERM again, later"),
        pytest.param([(0, SIGTERM), (0.1, SIGINT), (0.2, SIGINT)], [False, None, True], id="a service and a person"),
        pytest.param([(0, SIGHUP), (5, SIGINT)], [False, True], id="Ctrl-C after a while"),
        pytest.param([(0, SIGINT), (0.1, SIGTERM), (0.2, SIGHUP)], [False, None, None], id="one of each"),
    ],
)
def test_only_who_insists_is_heard_twice(heard: Heard, asked: list[bool | None]) -> None:
    insistence = Insistence()
    assert [insistence.heard(number, 1000 + at) for at, number in heard] == asked
