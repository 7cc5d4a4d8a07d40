"""The record of what was asked, and its judgement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.rehearsal import server
from assay.rehearsal.report import Report, judge, read

TURNS: list[dict[str, Any]] = [{"text": "a"}, {"text": "s", "subagent": True}, {"limit": {}}, {"text": "b"}]


def judged(*lines: dict[str, Any], first: int = 0) -> Report:
    data = b"".join(json.dumps({"n": n, **line}).encode() + b"\n" for n, line in enumerate(lines, 1))
    return judge(read(data), TURNS, first)


def main(turn: int | None, outcome: str | None = "sent", how: str = "turn") -> dict[str, Any]:
    return {"kind": "main", "turn": turn, "how": how, "outcome": outcome}


@pytest.mark.parametrize(
    ("lines", "turn"),
    [
        ([], 0),
        ([main(0)], 1),
        ([main(0, "gone")], 0),
        ([main(0, None)], 0),
        ([main(0, "gone"), main(0, how="repeat")], 1),
        ([main(0), {"kind": "subagent", "turn": 1, "how": "turn", "outcome": "gone"}], 1),
        ([main(0), main(2, "gone")], 3),
        ([main(0), main(2), main(3), main(None, how="beyond")], 4),
    ],
)
def test_where_a_resumed_conversation_goes_on(lines: list[dict[str, Any]], turn: int) -> None:
    assert judged(*lines).next_turn == turn


def test_it_goes_on_where_it_was_begun_when_nothing_was_asked() -> None:
    report = judged(first=2)
    assert report.next_turn == 2
    assert report.problems == ["never reached: turn 3, 4"]


@pytest.mark.parametrize(("number", "said"), [(1, "1 request"), (2, "2 requests")])
def test_requests_beyond_the_end_are_counted(number: int, said: str) -> None:
    played = [main(0), {"kind": "subagent", "turn": 1, "how": "turn", "outcome": "sent"}, main(2), main(3)]
    report = judged(*played, *[main(None, how="beyond")] * number)
    assert report.problems == [f"{said} came after the script's end"]


def test_a_connection_without_tls_matters_only_when_nothing_else_came() -> None:
    refused = {"kind": "no TLS", "error": "unknown ca"}
    assert judged(refused).problems[0] == "a connection got no TLS: unknown ca"
    assert judged(refused, main(0)).problems == ["never reached: turn 2, 3, 4"]


def test_a_fault_of_the_stand_in_always_matters() -> None:
    assert judged({"kind": "fault", "error": "KeyError"}, main(0)).problems[0].endswith("bug: KeyError")


def test_a_half_written_line_is_left_out() -> None:
    assert [r.kind for r in read(b'{"n": 1, "kind": "side"}\n{"n": 2, "ki')] == ["side"]
    assert read(b"") == []


def test_a_full_record_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_RECORD", 100)
    path = tmp_path / "record"
    with path.open("wb", buffering=0) as file:
        record = server.Record(file)
        for _ in range(20):
            record.write({"n": record.number(), "kind": "side"})
    requests = read(path.read_bytes())
    assert [request.kind for request in requests].count("full") == 1
    assert len(requests) < 8
    assert judge(requests, TURNS).problems[0] == "the record is full, later requests are missing"
