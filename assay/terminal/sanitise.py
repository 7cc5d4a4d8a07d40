"""The one sanitiser: nothing that came out of a container can move the cursor, hide or reorder what a person reads."""

from __future__ import annotations

import re
import unicodedata

_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
_STRING = r"(?:\x1b[P\]X^_]|[\x90\x98\x9d-\x9f])[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\|\x9c)"
_CSI = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
_ESCAPE = r"\x1b[ -/]*[0-~]"
_MARKS = (
    "\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"
    "\U000e0000-\U000e0fff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
"""Bidi controls, invisible letters, format characters, tags and the variation selectors beyond emoji's."""

_SUSPECT = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200c\u200d\ud800-\udfff{_MARKS}]")
_BREAK = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_REMOVED = re.compile(
    # One joiner between letters of other scripts or emoji means something; more, or beside ASCII, they deceive.
    rf"{_STRING}|{_CSI}|{_ESCAPE}|{_CONTROL}|[{_MARKS}]"
    "|[\u200c\u200d]{2,}|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def sanitise(text: str) -> str:
    r"""The text without anything that acts on a terminal or deceives a reader; `\n` and `\t` stay.

    Escape sequences (also as C1 bytes) go as a whole, carriage returns and the rarer line separators become line
    breaks, lone surrogates become U+FFFD, everything else that controls is left out. The result is encodable, and
    sanitising it again changes nothing.
    """
    if _SUSPECT.search(text) is None:
        return text
    text = _BREAK.sub("\n", text)
    # What is left may have come together anew.
    while (cleaned := _REMOVED.sub("", text)) != text:
        text = cleaned
    return _SURROGATE.sub("\ufffd", text)


def one_line(text: str) -> str:
    """Sanitised, and in one line: for names, reasons, titles."""
    return " ".join(sanitise(text).split())


def width(text: str) -> int:
    """Columns that a sanitised line takes; a tab counts as one."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def cut(text: str, columns: int) -> str:
    """The beginning of a sanitised line that fits, with `…` where something was left out."""
    if len(text) <= columns and width(text) <= columns:
        return text
    room = columns - 1
    if room < 0:
        return ""
    head = text[: room + 1]
    if head.isascii():
        return f"{head[:room]}…"
    end = used = 0
    for char in text:
        used += _columns(char)
        if used > room:
            break
        end += 1
    return f"{text[:end]}…"


def _columns(char: str) -> int:
    if char < "\u0300":
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def squeeze(text: str, columns: int) -> str:
    """A sanitised line that fits, with `…` for what stands before its last third: often that is what to do about it."""
    if len(text) <= columns and width(text) <= columns:
        return text
    start = len(text) - columns // 3
    while width(text[start:]) > columns // 3:
        start += 1
    return cut(text[:start], columns - width(text[start:])) + text[start:]
