"""Each recording renders exactly as was agreed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.decoders.goldens import STREAMS, expected, recordings, rendering


@pytest.mark.parametrize("recording", recordings(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_rendering(recording: Path) -> None:
    assert rendering(recording) == expected(recording).read_text(encoding="utf-8")


def test_there_is_no_rendering_without_its_recording() -> None:
    assert set(STREAMS.glob("*/*.txt")) == {expected(recording) for recording in recordings()}


def test_no_rendering_can_act_on_a_terminal() -> None:
    for file in STREAMS.glob("*/*.txt"):
        text = file.read_text(encoding="utf-8")
        assert all(char.isprintable() or char in "\n\t\u200c\u200d\u3000\xa0" for char in text), file
