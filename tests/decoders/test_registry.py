"""Finding a decoder by name."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from assay import decoders
from assay.model.errors import UsageError


@pytest.mark.parametrize("name", decoders.names())
def test_every_file_is_a_decoder_with_the_two_functions(name: str) -> None:
    decoder = decoders.get(name)
    assert inspect.isgeneratorfunction(decoder.decode)
    assert list(inspect.signature(decoder.conclude).parameters) == ["facts", "exit_"]


def test_shared_parts_are_no_decoders() -> None:
    assert not decoders.SHARED & set(decoders.names())
    with pytest.raises(UsageError, match="unknown decoder 'lines'"):
        decoders.get("lines")


def test_a_typo_is_answered_with_the_nearest_name() -> None:
    (name, *_) = decoders.names()
    with pytest.raises(UsageError, match=f"did you mean '{name}'"):
        decoders.get(name[:-1] + "x")


def test_decoders_are_light() -> None:
    code = """
import sys
from assay import decoders
for name in decoders.names():
    decoders.get(name)
print({"pydantic", "docker", "rich", "structlog", "requests"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
