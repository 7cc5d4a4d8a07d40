"""Reading lines: nothing a container can print may stop a decoder."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.decoders.lines import count, items, loads, money, obj, records, string
from assay.model.events import Note


def read(*lines: bytes) -> list[object]:
    return list(records(lines))


def test_objects_come_in_order_and_blank_lines_are_passed_over() -> None:
    assert read(b'{"a":1}\n', b"", b" \r\n", b'{"a":2}\r\n') == [{"a": 1}, {"a": 2}]


def test_key_order_and_repeated_keys_do_not_matter() -> None:
    assert read(b'{"b":2,"type":"x","b":3}') == [{"b": 3, "type": "x"}]


@pytest.mark.parametrize(
    "line", [b"garbage", b'{"type":"assis', b"[1]", b"7", b'"text"', b"null", b"\xff\xfe", b"\0", b"[" * 100_000]
)
def test_what_is_no_object_becomes_one_note(line: bytes) -> None:
    (note,) = read(line)
    assert isinstance(note, Note)
    assert note.level == "warning"
    assert f"{len(line)} bytes" in note.text
    assert len(note.text) < 300


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (rb'{"a":"x\ud800y"}', {"a": "x\ufffdy"}),
        (rb'{"\udfffa":["\ud83d\ude00"]}', {"\ufffda": ["\U0001f600"]}),
        (b'{"a":"\xff"}', {"a": "\ufffd"}),
        (b'{"a":"1\x1b[2m\x00"}', {"a": "1\x1b[2m\x00"}),
        (b'\xef\xbb\xbf {"a":1}', None),
    ],
)
def test_what_only_the_lenient_parser_reads_is_repaired_and_noted(line: bytes, value: object) -> None:
    found = read(line)
    if value is None:
        assert isinstance(found[0], Note)
        return
    assert found[0] == value
    assert isinstance(found[1], Note)
    json.dumps(value, ensure_ascii=False).encode()


def test_nan_is_read_and_is_no_number() -> None:
    first, note = read(b'{"cost":NaN,"n":Infinity}')
    assert isinstance(first, dict)
    assert isinstance(note, Note)
    assert money(first["cost"]) is None
    assert count(first["n"]) is None


def test_a_line_of_twenty_megabytes_is_read() -> None:
    (found,) = read(b'{"text":"' + b"x" * 20_000_000 + b'"}')
    assert isinstance(found, dict)
    assert len(found["text"]) == 20_000_000


@given(st.lists(st.binary(max_size=200)))
def test_no_bytes_raise(lines: list[bytes]) -> None:
    for record in records(lines):
        assert isinstance(record, dict | Note)


def test_memory_does_not_grow_with_the_stream() -> None:
    def lines(n: int) -> Iterator[bytes]:
        for at in range(n):
            yield b'{"type":"assistant","text":"%s","at":%d}' % (b"x" * 1000, at)

    tracemalloc.start()
    try:
        for _ in records(lines(1_000)):
            pass
        _, small = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in records(lines(20_000)):
            pass
        _, large = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert large < small + 100_000


def test_a_document_in_a_string_is_read_too() -> None:
    assert loads(r'{"a":"\ud800"}') == {"a": "\ufffd"}
    with pytest.raises(ValueError, match=r".+"):
        loads("{")
    with pytest.raises(ValueError, match=r".+"):
        loads("[" * 100_000)


def test_looks_into_values_of_the_wrong_kind_are_safe() -> None:
    assert (obj([1]), items({}), string(3), count("3"), count(True), count(-1), count(2.0)) == (
        {},
        [],
        "",
        None,
        None,
        None,
        2,
    )
    assert (money(True), money(-1), money(math.inf), money("1"), money(2)) == (None, None, None, None, 2.0)
    assert (count(1 << 40), count((1 << 40) + 1), count(10**400), count(1e300)) == (1 << 40, None, None, None)
    assert (money(10**400), money(math.nan), money(-0.5), money(0.5)) == (None, None, None, 0.5)
