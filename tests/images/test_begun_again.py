"""A build that went on from a cached step of another one, whose image was removed meanwhile.

The engine is a stand-in: when two builds get into each other's way cannot be chosen with a real one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.model.errors import BuildFailed
from assay.sandbox.build import TRIES, build_once
from assay.sandbox.recipe import Recipe

GONE = {"error": "unknown parent image ID sha256:04b3"}
RECIPE = Recipe("x", "assay-test", "FROM scratch\n", {})


class Engine:
    """Answers one build after the other with these."""

    def __init__(self, *answers: dict[str, str]) -> None:
        self.api = SimpleNamespace(build=self._build)
        self._answers, self._built, self.asked = answers, False, 0

    def image(self, _: str) -> dict[str, str] | None:
        return {"Id": "made"} if self._built else None

    def _build(self, **_: object) -> Iterator[dict[str, str]]:
        answer = self._answers[self.asked]
        self.asked += 1
        yield answer
        self._built = True


def built(engine: Any) -> str:
    return build_once(engine, RECIPE, lambda _: None)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_it_is_begun_again() -> None:
    engine = Engine(GONE, {"stream": "Step 1/1 : FROM scratch\n"})
    assert (built(engine), engine.asked) == ("made", 2)


@pytest.mark.parametrize(("answers", "times"), [([GONE] * 9, TRIES), ([{"error": "no such file"}] * 9, 1)])
def test_not_for_ever_and_not_for_another_reason(answers: list[dict[str, str]], times: int) -> None:
    engine = Engine(*answers)
    with pytest.raises(BuildFailed):
        built(engine)
    assert engine.asked == times
