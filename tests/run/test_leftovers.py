"""Which links of an agent's reach the checker: ordinary ones do, none that leads into /proc, /sys or /dev."""

from __future__ import annotations

import pytest

from assay.run.leftovers import leads_astray


def links(**given: str) -> dict[bytes, bytes]:
    return {b"/app/" + name.encode(): target.encode() for name, target in given.items()}


@pytest.mark.parametrize(
    "given",
    [
        {"a": "/proc/self/fd/3"},
        {"a": "/proc"},
        {"a": "/"},
        {"a": ".."},
        {"a": "../proc/self/cwd"},
        {"a": "b", "b": "/dev/stdin"},
        {"a": "b/../proc/self", "b": "/usr"},
        {"a": "b/fd", "b": "c/self", "c": "/proc"},
        {"a": "b", "b": "a"},
        {"a": "/usr/../sys"},
        {"a": "//proc//self/./fd"},
        {"a": "/var/run/../proc/self/fd/3"},
        {"a": "b/../proc/self", "b": "/var/lock"},
        {"a": "/usr/bin/../bin/python3"},
        {"a": "b/../x", "b": "/usr/lib"},
    ],
)
def test_not_passed(given: dict[str, str]) -> None:
    assert leads_astray(b"/app/a", links(**given), b"/app")


@pytest.mark.parametrize(
    "given",
    [
        {"a": "b"},
        {"a": "/usr/bin/python3"},
        {"a": "deep/er/file"},
        {"a": "../app/file"},
        {"a": "deep/../b"},
        {"a": "../usr/bin/python3"},
        {"a": "/processes"},
        {"a": "proc/self"},
    ],
)
def test_passed(given: dict[str, str]) -> None:
    assert not leads_astray(b"/app/a", links(**given), b"/app")
