"""Patterns as in .gitignore."""

from __future__ import annotations

import re


def compiled(text: str) -> tuple[bool, re.Pattern[str], str] | None:
    """A pattern of .gitignore: whether it shows again, and what it matches; None for a comment.

    Raises:
        ValueError: It means nothing.
    """
    words = re.sub(r"(?<!\\) +$", "", text)
    if not words or words.startswith("#"):
        return None
    shows = words.startswith("!")
    words = words[1:] if shows else words
    only_folders = words.endswith("/")
    anchored = "/" in words.rstrip("/")
    words = words.strip("/")
    if not words:
        msg = f"{text!r} matches nothing, so what it was meant for would be shown; name a file or a folder"
        raise ValueError(msg)
    try:
        body = re.compile(
            ("" if anchored else "(?:.*/)?") + _translated(words) + ("/.*" if only_folders else "(?:/.*)?") + r"\Z",
            re.DOTALL,
        )
    except re.error as error:
        msg = f"{text!r} is no pattern ({error}), so what it was meant for would be shown"
        raise ValueError(msg) from None
    return shows, body, text


_TOKENS = re.compile(r"\*\*/|/\*\*$|\*+|\?|\[[!^]?\]?[^\]]*\]|\\.|.", re.DOTALL)


def _translated(words: str) -> str:
    out = []
    for token in _TOKENS.findall(words):
        if token == "**/":
            out.append("(?:.*/)?")
        elif token == "/**":
            out.append("/.*")
        elif token[0] == "*":
            out.append("[^/]*")
        elif token == "?":
            out.append("[^/]")
        elif token[0] == "[" and len(token) > 1:
            inner = token[1:-1]
            negated = inner[:1] in ("!", "^")
            inner = (inner[1:] if negated else inner).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
            out.append(f"(?!/)[{'^' if negated else ''}{inner}]")
        else:
            out.append(re.escape(token[-1]))
    return "".join(out)
