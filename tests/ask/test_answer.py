"""Which places an answer cites, and several answers side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.commands.ask_output import exit_code, facts_line
from assay.model.outcome import Ending
from assay.model.record import RunRecord
from assay.run.answer import Answer, file_names, places, write_together
from assay.run.ask import Ask
from assay.stage.climb import Climbed
from assay.stage.plan import Outcome, Place, Result, Slot, Standing, State


def about(*names: str) -> Ask:
    return Ask("Why?", Path("/x"), "/repo/x", "v", frozenset(names or (".py", ".tsx", "Makefile", ".gitignore")))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see src/a.py:12 and b.py:3.", ["src/a.py:12", "b.py:3"]),
        ("(`src/a.py:12`)", ["src/a.py:12"]),
        ("[a](src/a.py:12), **src/b.py:1**", ["src/a.py:12", "src/b.py:1"]),
        ("src/a.py:10-20 and `b.py:3\u20134`", ["b.py:3-4", "src/a.py:10-20"]),
        ("src/a.py:12:5", ["src/a.py:12"]),
        ("/repo/x/src/a.py:12, ./b.py:1", ["src/a.py:12", "b.py:1"]),
        ("`app/(group)/[id]/page.tsx:7`", ["app/(group)/[id]/page.tsx:7"]),
        ("`with space.py:3`", ["with space.py:3"]),
        ("Makefile:3 and sub/Makefile:4", ["Makefile:3", "sub/Makefile:4"]),
        (".gitignore:1", [".gitignore:1"]),
        ("lib/foo.rs:9 is of another language", ["lib/foo.rs:9"]),
        ("für/größe.py:2", ["für/größe.py:2"]),
        ("src/a.py:1 src/a.py:1", ["src/a.py:1"]),
        ("localhost:8080, example.com:443, 127.0.0.1:80, 12:30, TODO:3", []),
        ("http://example.com/a.py:80 and https://x.org:1/b.py:2", []),
        ("and/or:3, ratio 3:4, version v1.2:3", []),
        ("`print(x):3` and `a.py`", []),
        ("a.py:12345678901234567890", []),
    ],
)
def test_places(text: str, found: list[str]) -> None:
    assert [str(place) for place in places(text, about())] == found


def test_hostile_text_costs_little() -> None:
    import time

    began = time.process_time()
    for text in ("a/" * 200_000, "`" * 200_000, "a.py:1 " * 50_000, ":1" * 200_000, "a" * 400_000 + ":1"):
        places(text, about())
    assert time.process_time() - began < 10


def answer(
    agent: str, text: str = "", ending: Ending = Ending.FINISHED, dead: tuple[dict[str, str], ...] = ()
) -> Answer:
    record = RunRecord(id=f"1-{agent}", agent=agent, model="m/1", ending=ending)
    return Answer(record, Path("/runs") / record.id, text, {"cited": 2, "dead": list(dead)})


def test_side_by_side(tmp_path: Path) -> None:
    answers = [
        answer("one", "# A\n\nfirst | answer\n", dead=({"place": "a.py:9", "why": "the file has 2 lines"},)),
        answer("one", "second\n"),
        answer("two", "half", Ending.TIMEOUT),
        answer("three", "", Ending.API_ERROR),
    ]
    assert file_names(answers) == ["one-m-1.md", "one-m-1-2.md", "two-m-1.md", "three-m-1.md"]
    facts = [facts_line(one) for one in answers]
    written = write_together(tmp_path / "new", "Why?\nReally?", answers, facts)
    assert sorted(p.name for p in written.parent.iterdir()) == [
        "answers.md",
        "one-m-1-2.md",
        "one-m-1.md",
        "two-m-1.md",
    ]
    text = written.read_text()
    assert "> Why?\n> Really?\n" in text
    assert "- `a.py:9`: the file has 2 lines" in text
    assert "*Unfinished: timeout.*" in text
    assert "No answer: api-error." in text
    assert text.index("first | answer") < text.index("second") < text.index("half")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(answers)
    assert "cost unknown" in rows[2]


@pytest.mark.parametrize(
    ("answers", "result", "closed", "code"),
    [
        ([answer("a", "x")], Result.UNJUDGED, False, 0),
        ([answer("a", "x"), answer("b", "", Ending.API_ERROR)], Result.CUT, False, 0),
        ([answer("a", "", Ending.API_ERROR)], Result.CUT, False, 4),
        ([answer("a", "half", Ending.TIMEOUT)], Result.UNJUDGED, False, 1),
        ([answer("a", "no", Ending.GAVE_UP)], Result.UNJUDGED, False, 1),
        ([answer("a", "")], Result.UNJUDGED, False, 1),
        ([answer("a", "", Ending.CRASHED)], Result.UNMEASURED, False, 3),
        ([answer("a", "x")], Result.UNJUDGED, True, 130),
    ],
)
def test_exit_codes(answers: list[Answer], result: Result, closed: bool, code: int) -> None:
    slots = {Slot(n, 1, 1): Outcome(Result.UNJUDGED if one.whole else result) for n, one in enumerate(answers)}
    standing = Standing.HELD if result in (Result.CUT, Result.UNMEASURED) else Standing.DONE
    climbed = Climbed(State(ended=slots, closed=closed), tuple(Place(standing, 1) for _ in answers))
    assert exit_code(answers, climbed) == code
