"""What another version of a CLI changes, as a diff of the renderings and of the fields."""

from __future__ import annotations

import itertools
from pathlib import Path

from assay.commands.recording import CHECKOUT, Golden, Recording, differences
from tests.project import REPOSITORY

KEPT = REPOSITORY / CHECKOUT


def kept(decoder: str) -> Recording:
    found = Golden.of(REPOSITORY, decoder, decoder).read(decoder, f"{decoder} 1")
    assert found is not None
    return found


def test_the_same_stream_differs_in_nothing() -> None:
    for decoder in ("codex", "gemini", "grok", "opencode"):
        assert differences(kept(decoder), kept(decoder)) == []


def test_a_renamed_field_shows_in_both_diffs() -> None:
    old = kept("codex")
    new = Recording("codex", "codex 2", old.stdout.replace(b'"aggregated_output"', b'"output"'))
    said = differences(old, new)
    assert "-← /app" in said
    assert "+← (no output)" in said
    assert "-item.completed: item.aggregated_output" in said
    assert "+item.completed: item.output" in said


def test_results_that_came_in_another_order_are_no_difference() -> None:
    old = kept("grok")
    lines = old.stdout.splitlines(keepends=True)
    results = [n for n, line in enumerate(lines) if b'"tool_call_update"' in line and b'"status":"completed"' in line]
    side_by_side = next((a, b) for a, b in itertools.pairwise(results) if b - a <= 2)
    first, second = side_by_side
    lines[first], lines[second] = lines[second], lines[first]
    assert differences(old, Recording("grok", "grok 2", b"".join(lines))) == []


def test_golden_files_of_a_project_lie_in_its_own_folder(tmp_path: Path) -> None:
    golden = Golden.of(tmp_path, "mycodex", "codex")
    written = golden.write(Recording("codex", "mycodex 1", b'{"type":"thread.started","thread_id":"t"}\n', b"said\n"))
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        "recordings/codex/rehearsal-mycodex.jsonl",
        "recordings/codex/rehearsal-mycodex.txt",
        "recordings/codex/rehearsal-mycodex.stderr",
    ]
    assert golden.read("codex", "x") == Recording("codex", "x", written[0].read_bytes(), b"said\n")
    golden.write(Recording("codex", "mycodex 1", b""))
    assert not written[2].exists()
