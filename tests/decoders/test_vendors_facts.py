"""Every recording of every vendor, classified as its hand-written table says."""

from __future__ import annotations

import pytest

from tests.decoders.facts_table import STREAMS, Case, cases, check

VENDORS = ["antigravity", "codex", "gemini", "grok", "opencode"]


@pytest.mark.parametrize("case", [case for vendor in VENDORS for case in cases(vendor)], ids=str)
def test_facts(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("vendor", VENDORS)
def test_every_recording_is_in_the_table(vendor: str) -> None:
    recorded = {path.stem for path in (STREAMS / vendor).glob("*.jsonl")}
    assert recorded == {case.recording for case in cases(vendor)}
