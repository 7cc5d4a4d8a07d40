"""Zeros are passed over when a kept file is unpacked; what is read from it is the same, however the pieces fall."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from assay.run.collect import HOLE, _Kept
from assay.run.redact import Redactor


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("secrets", [(), ("a-secret-of-some-length",)])
def test_what_is_written_is_what_was_there(tmp_path: Path, seed: int, secrets: tuple[str, ...]) -> None:
    dice = random.Random(seed)
    runs = [bytes(dice.choice([0, 1, 511, len(HOLE) - 1, len(HOLE), 3 * len(HOLE) + 7])) for _ in range(6)]
    data = b"".join(run + dice.randbytes(dice.choice([0, 1, 4096, len(HOLE)])) for run in runs)
    path = tmp_path / "f"
    with path.open("wb") as file, _Kept(file, Redactor(secrets)) as kept:
        at = 0
        while at < len(data):
            piece = dice.choice([1, 100, len(HOLE), 5 * len(HOLE)])
            kept.write(data[at : at + piece])
            at += piece
    assert path.read_bytes() == data
