"""No known secret survives, in any of its forms, wherever a stream is cut; everything else does, byte for byte."""

from __future__ import annotations

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from assay.run.redact import SHORTEST, Redactor, Stream

SECRETS = st.text(st.characters(codec="utf-8", exclude_characters="*"), min_size=SHORTEST, max_size=40)


@given(SECRETS, st.binary(max_size=30), st.binary(max_size=30))
def test_plain_and_json_forms(secret: str, before: bytes, after: bytes) -> None:
    for form in (secret.encode(), json.dumps(secret)[1:-1].encode()):
        cleaned = Redactor([secret]).clean(before + form + after)
        assert form not in cleaned
        assert len(cleaned) == len(before + form + after)


@given(SECRETS, st.binary(max_size=9), st.binary(max_size=9))
def test_base64_at_every_alignment(secret: str, before: bytes, after: bytes) -> None:
    plain = secret.encode()
    encoded = base64.b64encode(before + plain + after)
    cleaned = Redactor([secret]).clean(encoded)
    assert len(cleaned) == len(encoded)
    # What is left of it cannot be decoded to more than the two bytes that share a character with their neighbours.
    rest = base64.b64decode(cleaned.replace(b"*", b"A"))
    assert plain not in rest
    assert cleaned.count(b"*") >= len(base64.b64encode(plain).rstrip(b"=")) - 4


@given(st.lists(st.binary(max_size=20), max_size=8), SECRETS, st.integers(1, 30))
def test_stream_cut_anywhere(parts: list[bytes], secret: str, step: int) -> None:
    data = secret.encode().join(parts)
    out: list[bytes] = []
    stream = Stream(Redactor([secret]), out.append)
    for at in range(0, len(data), step):
        stream.write(data[at : at + step])
    stream.close()
    assert secret.encode() not in b"".join(out)
    assert len(b"".join(out)) == len(data)


@given(st.binary(max_size=200))
def test_without_secrets_nothing_changes(data: bytes) -> None:
    out: list[bytes] = []
    stream = Stream(Redactor(), out.append)
    stream.write(data)
    stream.close()
    assert b"".join(out) == data


def test_counts_and_learns() -> None:
    redactor = Redactor(["first-secret"])
    assert redactor.clean(b"first-secret first-secret second-secret") == b"************ ************ second-secret"
    redactor.know(["second-secret"])
    assert redactor.clean(b"second-secret") == b"*" * 13
    assert redactor.count == 3


def test_too_short_to_be_looked_for() -> None:
    assert Redactor(["abc"]).clean(b"abcabc") == b"abcabc"
