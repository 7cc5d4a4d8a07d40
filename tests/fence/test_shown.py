"""What a fence refused is told by `assay show`."""

from __future__ import annotations

import pytest

from tests.conftest import MakeProject

pytestmark = [pytest.mark.docker, pytest.mark.timeout(90)]


def test_names_and_addresses_that_an_agent_tried_are_shown(project: MakeProject) -> None:
    here = project({"tasks/t/prompt.md": "-"})
    tries = "for n in 1 2 3; do getent hosts forbidden.test; done; curl -s -m9 http://192.0.2.7:81/; true"
    here.run("run", "tasks/t", "--agent", "script", "--command", tries).assert_code(0)
    shown = here.run("show", "last").assert_code(0).out.splitlines()
    (names,) = (line for line in shown if "no such name: " in line)
    assert int(names.rpartition("forbidden.test (")[2].partition(")")[0]) >= 3
    assert "refused: tcp 192.0.2.7:81 (1)" in {line.strip() for line in shown}
    network = here.run("show", "last", "--json").json()["network"]
    assert network["addresses_refused"] == {"tcp 192.0.2.7:81": 1}
