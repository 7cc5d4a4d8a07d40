"""An answer at a terminal and in a pipe; it is a stranger's text."""

from __future__ import annotations

import io

import pytest

from assay.terminal.markdown import show


class Terminal(io.StringIO):
    """What a terminal gets."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_terminal_gets_it_laid_out() -> None:
    out = Terminal()
    show("# Title\n\n- *one*\n- `two`\n\n```python\nx = 1\n```\n", out)
    assert "Title" in out.getvalue()
    assert "# Title" not in out.getvalue()
    assert " • " in out.getvalue()
    assert "\x1b[" in out.getvalue()


def test_no_color_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    show("# Title\n\n`code` and ```x```\n", out)
    assert "\x1b[3" not in out.getvalue().replace("\x1b[3m", "")


def test_nothing_in_it_acts_on_the_terminal() -> None:
    out = Terminal()
    show("a\x1b[2Jb \x1b]0;title\x07 [link](http://evil.example) [red]x[/red] :skull: \x9b31m", out)
    shown = out.getvalue()
    for bad in ("\x1b[2J", "\x1b]", "\x07", "\x9b"):
        assert bad not in shown
    assert "[red]x[/red]" in shown
    assert ":skull:" in shown


def test_a_pipe_gets_the_text_itself() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    show("# Größe\n\x1b[31m", out)
    assert raw.getvalue() == "# Größe\n\x1b[31m\n".encode()
