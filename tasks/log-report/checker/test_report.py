"""Counts everything again, in its own way, from its own copy of the log."""

import json
from pathlib import Path

LOG = Path(__file__).with_name("access.log")
REQUESTS = [fields for fields in (line.split() for line in LOG.read_text().splitlines()) if len(fields) == 7]


def report():
    """The agent's report; whatever is wrong with it fails the test that asks."""
    file = Path("report.json")
    assert file.is_file(), "report.json is not there"
    content = json.loads(file.read_text())
    assert isinstance(content, dict), "report.json is not an object"
    return content


def test_requests():
    assert report()["requests"] == len(REQUESTS)


def test_errors():
    assert report()["errors"] == sum(int(status) >= 500 for *_, status, _, _ in REQUESTS)


def test_bytes():
    assert report()["bytes"] == sum(int(sent) for *_, sent, _ in REQUESTS if sent != "-")


def test_slowest():
    assert report()["slowest"] == max(REQUESTS, key=lambda fields: int(fields[6]))[3]


def test_clients():
    assert report()["clients"] == len({fields[1] for fields in REQUESTS})
