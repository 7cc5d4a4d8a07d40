"""Counts everything again, in its own way, from its own copy of the log."""

import json
from pathlib import Path

import pytest

LOG = Path(__file__).with_name("access.log")
REQUESTS = [fields for fields in (line.split() for line in LOG.read_text().splitlines()) if len(fields) == 7]


@pytest.fixture(scope="module")
def report():
    file = Path("report.json")
    assert file.is_file(), "report.json is not there"
    content = json.loads(file.read_text())
    assert isinstance(content, dict), "report.json is not an object"
    return content


def test_requests(report):
    assert report["requests"] == len(REQUESTS)


def test_errors(report):
    assert report["errors"] == sum(int(status) >= 500 for *_, status, _, _ in REQUESTS)


def test_bytes(report):
    assert report["bytes"] == sum(int(sent) for *_, sent, _ in REQUESTS if sent != "-")


def test_slowest(report):
    assert report["slowest"] == max(REQUESTS, key=lambda fields: int(fields[6]))[3]


def test_clients(report):
    assert report["clients"] == len({fields[1] for fields in REQUESTS})
