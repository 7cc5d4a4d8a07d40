"""Nothing from a container acts on the terminal."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.terminal.sanitise import cut, one_line, sanitise, squeeze, width

HOSTILE = st.text(
    st.one_of(
        st.characters(),
        st.characters(max_codepoint=0x9F),
        st.sampled_from("\x1b\x9b\x9d\x07\x9c\r\n\t[];m\\\u202e\u200b\u200d\ud800\udc00ab👍"),
    )
)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07shown", "shown"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1;2qdata\x1b\\after", "after"),
        ("\x9d52;c;aGk=\x9cafter", "after"),
        ("\x1b]0;never ends", "0;never ends"),
        ("\x1bcreset", "reset"),
        ("\x1b(0box", "box"),
        ("\x1b[\x1b[2J31mx", "31mx"),
        ("10 %\r20 %\r\ndone\r", "10 %\n20 %\ndone\n"),
        ("a\u2028b\u2029c\x85d\x0be\x0cf", "a\nb\nc\nd\ne\nf"),
        ("nul\x00bel\x07bs\x08del\x7f", "nulbelbsdel"),
        ("user\u202etxt.exe", "usertxt.exe"),
        ("\u2066isolate\u2069", "isolate"),
        ("pa\u200bss\ufeff", "pass"),
        ("pa\u200dss", "pass"),
        ("\U000e0041hidden\U000e007f", "hidden"),
        ("lone \ud800 half", "lone \ufffd half"),
        ("naïve 你好 🚀", "naïve 你好 🚀"),
        ("👨\u200d👩\u200d👧 ❤\ufe0f", "👨\u200d👩\u200d👧 ❤\ufe0f"),
        ("a\u200d\u200d\u200bé", "aé"),
    ],
)
def test_known_attacks(text: str, clean: str) -> None:
    assert sanitise(text) == clean


@given(HOSTILE)
def test_no_control_survives(text: str) -> None:
    clean = sanitise(text)
    clean.encode()
    for char in clean:
        assert char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs")
        assert unicodedata.bidirectional(char) not in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        assert unicodedata.category(char) != "Cf" or ord(char) in (0x200C, 0x200D) or ord(char) > 0x600
    assert sanitise(clean) == clean


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_plain_text_is_left_alone(text: str) -> None:
    assert sanitise(text) is text


@given(HOSTILE)
def test_one_line_is_one_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1


@given(HOSTILE, st.integers(0, 20))
def test_a_cut_line_fits(text: str, columns: int) -> None:
    line = one_line(text)
    short = cut(line, columns)
    assert width(short) <= columns
    assert short == line or (not short or short.endswith("…"))


@given(HOSTILE, st.integers(0, 20))
def test_a_squeezed_line_fits_and_keeps_its_end(text: str, columns: int) -> None:
    line = one_line(text)
    short = squeeze(line, columns)
    assert width(short) <= columns
    assert short == line or not short or "…" in short


def test_what_to_do_stands_at_the_end_of_a_line_and_is_kept() -> None:
    assert squeeze("not graded: /a/long/path: gone; do this", 24) == "not graded: /a/… do this"
    assert squeeze("没有文件: 做这个", 9) == "没有文…个"
    assert squeeze("short", 5) == "short"


def test_wide_and_combining_characters_are_measured() -> None:
    assert [width(text) for text in ("abc", "你好", "e\u0301", "🚀", "")] == [3, 4, 1, 2, 0]
    assert cut("你好吗", 5) == "你好…"
    assert cut("你好吗", 4) == "你…"
    assert cut("hello", 5) == "hello"


@pytest.mark.parametrize(
    "bad",
    [
        "\x1b]",
        "\x9d",
        "\x1b[",
        "\x1b",
        "\x1b]0;",
        "\x9b1;",
        "\r",
        "\x1b\\",
        "x" * 50 + "\x1b[1m",
        "\u202e",
        "\x1b]a\x07",
        "\u200d",
        "é\u200d",
        "\u200d\u200b",
        "\u200da",
    ],
    ids=repr,
)
def test_cost_is_linear(bad: str) -> None:
    def seconds(times: int) -> float:
        text = bad * times
        start = time.process_time()
        sanitise(text)
        return time.process_time() - start

    size = 200_000 // len(bad)
    once = min(seconds(size) for _ in range(3))
    assert seconds(8 * size) < 8 * 3 * once + 0.05


def test_nested_sequences_cannot_make_it_slow() -> None:
    deep = "\x1b[" * 20_000 + "m" * 20_000
    start = time.process_time()
    sanitise(deep)
    assert time.process_time() - start < 1
