"""ls, show and report: what kept runs say, however they came to be, and nothing that acts on a terminal."""

from __future__ import annotations

import json
import re
import resource
import xml.etree.ElementTree as ET
from datetime import timedelta
from pathlib import Path

import pytest
import tomli_w

from assay.cli import COMMANDS
from assay.model.outcome import Ending, Verdict
from assay.model.record import RunRecord, State
from assay.run.index import INDEX, append_index, index_line
from tests.commands.kept import NOON, keep
from tests.conftest import MakeProject
from tests.project import Project

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\r\x08"
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


# -- ls -------------------------------------------------------------------------------------------------------------


def test_filters_narrow_and_widen(project: MakeProject) -> None:
    here = project()
    first = keep(here.root, 1, stage="prune", rung=1, verdict=Verdict.PASS, score=1.0).record
    other = keep(
        here.root, 2, task="u", task_path=str(here.root / "tasks/u"), agent="oracle", ending=Ending.TIMEOUT
    ).record
    cut = keep(here.root, 3, stage="prune", rung=2, ending=Ending.SESSION_LIMIT, verdict=None).record

    def ids(*argv: str) -> list[str]:
        return here.run("ls", "--ids", *argv).assert_code(0).out.split()

    assert ids() == [first.id, other.id, cut.id]
    assert ids("--task", "t") == ids("--task", "tasks/t") == [first.id, cut.id]
    assert ids("--stage", "prune", "--verdict", "pass") == [first.id]
    assert ids("--ending", "timeout", "--ending", "session-limit") == [other.id, cut.id]
    assert ids("--agent", "oracle", "--task", "t") == []
    assert ids("-n", "1") == [cut.id]
    assert [run["id"] for run in here.run("ls", "--json", "--task", "u").json()] == [other.id]
    here.run("ls", "--verdict", "passed").assert_code(2)


def test_what_can_be_gone_on_with_is_told(project: MakeProject) -> None:
    here = project()
    soon = NOON.replace(year=2099)
    limited = keep(here.root, 1, ending=Ending.SESSION_LIMIT, verdict=None, resumable=True, reset_at=soon)
    lifted = keep(here.root, 2, ending=Ending.SESSION_LIMIT, verdict=None, resumable=True, reset_at=NOON - timedelta(1))
    resumed = keep(here.root, 3, ending=Ending.STALLED, verdict=None, resumable=True)
    resumed.claim_resume("another")
    rows = dict(
        zip((r.record.id for r in (limited, lifted, resumed)), here.run("ls").out.splitlines()[1:], strict=True)
    )
    assert "session-limit, resumable after " in rows[limited.record.id]
    assert "session-limit, resumable " in rows[lifted.record.id]
    assert "after" not in rows[lifted.record.id]
    assert "stalled, resumed" in rows[resumed.record.id]


def test_a_run_under_way_and_one_left_behind(project: MakeProject) -> None:
    from assay.run.owner import me

    here = project()
    ids = []
    for number, owner in enumerate((me(), me().replace(":", ":9", 1))):
        run = keep(here.root, number)
        ids.append(run.record.id)
        record = {**run.record.to_toml(), "state": "running", "owner": owner}
        del record["ending"], record["verdict"]
        (run.path / "run.toml").write_text(tomli_w.dumps(record))
    (here.root / "runs" / INDEX).unlink()
    working, left = here.run("ls").out.splitlines()[1:]
    assert "running…" in working
    assert "left behind (assay recover)" in left
    states = [re.search(r"^state +(.*)$", here.run("show", name).assert_code(0).out, re.MULTILINE) for name in ids]
    assert [said and said[1] for said in states] == ["running…", "running, left behind (assay recover)"]


def test_every_command_says_that_a_run_was_left_behind(project: MakeProject) -> None:
    """Before anything it does or refuses, on standard error; nothing is touched."""
    from assay.run.owner import me

    here = project({"tasks/t/prompt.md": "-"})
    run = keep(here.root, 0)
    record = {**run.record.to_toml(), "state": "running", "owner": me().replace(":", ":9", 1)}
    del record["ending"], record["verdict"]
    (run.path / "run.toml").write_text(tomli_w.dumps(record))
    (run.path / ".lock").touch()
    (here.root / "runs" / INDEX).unlink()
    before = (run.path / "run.toml").read_bytes()
    unusable = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    for name in COMMANDS:
        arguments = ["tasks/t", "--agent", "nop"] if name == "run" else []
        said = here.run(name, *arguments, env=unusable).err
        assert said.count("left behind unfinished; `assay recover`") == (name != "recover"), name
    for refused in (("resume", "last"), ("grade", "last"), ("run", "tasks/none", "--agent", "nop"), ("ls", "--lost")):
        assert here.run(*refused, env=unusable).assert_code(2).err.startswith("note: run "), refused
    assert (run.path / "run.toml").read_bytes() == before
    assert here.run("ls", "--json", env=unusable).json()[0]["state"] == "running"


def test_an_index_that_is_missing_torn_or_stale_is_made_good(project: MakeProject) -> None:
    here = project()
    runs = [keep(here.root, number).record.id for number in range(3)]
    index = here.root / "runs" / INDEX
    for content in (b"", b'{"id": "torn', index.read_bytes()[:-40], b"\xff\n[]\n"):
        index.write_bytes(content)
        assert here.run("ls", "--ids").out.split() == runs
    here.run("ls", "--ids")
    (here.root / "runs" / runs[1] / "run.toml").unlink()
    index.unlink()
    assert here.run("ls", "--ids").out.split() == [runs[0], runs[2]], "a folder without a record is passed over"


def test_a_record_that_cannot_be_listed_hides_no_other(project: MakeProject) -> None:
    here = project()
    runs = [keep(here.root, number).record.id for number in range(3)]
    file = here.root / "runs" / runs[1] / "run.toml"
    file.chmod(0o644)
    file.write_text(file.read_text().replace("output = 30", f"output = 1{'0' * 400}"))
    (here.root / "runs" / INDEX).unlink()
    assert here.run("ls", "--ids").assert_code(0).out.split() == [runs[0], runs[2]]
    here.run("report").assert_code(0)


def test_no_runs(project: MakeProject) -> None:
    here = project()
    here.run("ls").assert_code(0).assert_says("no run in")
    assert here.run("ls", "--json").json() == []
    here.run("show", "last").assert_refused("there is no run")
    here.run("report").assert_code(0).assert_says("no run in")


def test_ten_thousand_runs_are_listed_in_a_second(project: MakeProject) -> None:
    here = project()
    runs = here.root / "runs"
    runs.mkdir()
    lines = []
    for number in range(10_000):
        record = RunRecord(id=f"20261130T{number:06}Z-t-nop-0000", state=State.COMMITTED, task="t", agent="nop")
        (runs / record.id).mkdir()
        lines.append(index_line(record))
    (runs / INDEX).write_bytes(b"".join(lines))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len(here.run("ls").out.splitlines()) == 10_001
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # One thread that waits for nothing: its CPU time is what a machine with nothing else to do takes.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


# -- show -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "lines"),
    [
        ({"packets_refused": 0}, ["closed", "refused nothing"]),
        ({"complete": False}, ["closed", "ended before it could report"]),
        ({"packets_refused": 7}, ["closed", "refused: 7 packets"]),
        ({"packets_refused": 0, "servers_refused": {"other.test": 2}}, ["closed", "wrong server: other.test (2)"]),
        (
            {"packets_refused": 0, "requests_refused": {"a.test/x": 1}, "requests_injected": 0},
            ["closed", "refused request: a.test/x (1)", "requests that got the credential: 0"],
        ),
        (
            {
                "names_asked": {"api.t": 1, **{f"n{n}.t": n for n in range(1, 8)}},
                "names_refused": {f"n{n}.t": n for n in range(1, 8)},
                "addresses_refused": {"tcp 8.8.8.8:80": 2},
                "servers_refused": {"-": 1},
                "requests_refused": {"api.test/admin not below a path of the entry": 4},
                "requests_injected": 12,
                "packets_refused": 2,
            },
            [
                "closed",
                "answered: api.t (1)",
                "no such name: n7.t (7), n6.t (6), n5.t (5), n4.t (4), n3.t (3), 2 more (--part network)",
                "refused: tcp 8.8.8.8:80 (2)",
                "wrong server: - (1)",
                "refused request: api.test/admin not below a path of the entry (4)",
                "requests that got the credential: 12",
            ],
        ),
        (
            {"requests_injected": 0, "requests_refused": {"api.t/x: no": 2}, "packets_refused": 0},
            ["closed", "refused request: api.t/x: no (2)", "requests that got the credential: 0"],
        ),
        ([], ["closed"]),
        ({"names_asked": 3, "addresses_refused": {"x": "y"}, "packets_refused": None}, ["closed", "refused nothing"]),
        (None, ["closed"]),
    ],
)
def test_what_the_fence_saw_is_a_few_lines(project: MakeProject, report: object, lines: list[str]) -> None:
    here = project()
    files: dict[str, str | bytes] = {} if report is None else {"fence.json": json.dumps(report)}
    run = keep(here.root, 1, files, fence="closed").record.id
    shown = here.run("show", run, "--part", "record").assert_code(0).out.splitlines()
    first = next(n for n, line in enumerate(shown) if line.startswith("fence "))
    assert [line.removeprefix("fence").strip() for line in shown[first : first + len(lines)]] == lines
    assert not shown[first + len(lines)].startswith(" ")


def hostile(here: Project) -> str:
    files: dict[str, str | bytes] = {
        "transcript.txt": f"→ Bash {EVIL}\n[bold]not markup[/bold]\n",
        "changes.txt": b'A "caf\\303\\251"\nA \xff\xfe\x1b[31m\n',
        "checker/1/output.txt": EVIL.encode() + b"\n\xff",
        "checker/1/result.toml": 'verdict = "fail"\nseconds = 1.5\n',
        "stderr.log": EVIL,
        "fence.json": json.dumps({"names_asked": {EVIL: 3}, "names_refused": {EVIL: 3}, "packets_refused": 0}),
        "prompt.md": "Do it.",
    }
    return keep(here.root, 1, files, reason=f"a reason {EVIL}", model=EVIL).record.id


@pytest.mark.parametrize(
    "parts", [[], *(["--part", p] for p in ("record", "transcript", "changes", "checker", "stderr"))]
)
def test_nothing_from_a_container_acts_on_the_terminal(project: MakeProject, parts: list[str]) -> None:
    here = project()
    run = hostile(here)
    out = here.run("show", run, *parts).assert_code(0).out
    assert out.strip()
    assert not ACTS.search(out)
    if not parts:
        assert "[bold]not markup[/bold]" in out
        assert 'A "caf\\303\\251"' in out
    listed = here.run("ls").assert_code(0).out + here.run("report").out + here.run("report", "--markdown").out
    assert not ACTS.search(listed)


def test_show_tells_the_record_and_a_prefix_is_enough(project: MakeProject) -> None:
    here = project()
    run = keep(here.root, 7, stage="prune", rung=2, attempt=3, score=0.25, cost_source="cli")
    out = here.run("show", run.record.id[:16]).assert_code(0)
    out.assert_says("prune, rung 2, attempt 3", "fail (score 0.25)", "9.0 s of 30:00", "$0.5000 as its CLI says")
    told = here.run("show", "last", "--json").json()
    assert told["record"]["id"] == run.record.id
    assert told["record"]["tokens"] == {"input": 100, "cached": 20, "output": 30}
    keep(here.root, 8)
    here.run("show", "2026").assert_refused("means 2 runs")
    here.run("show", "nothing").assert_refused("no run 'nothing'", "assay ls")


def test_the_latest_grading_is_the_verdict_everywhere(project: MakeProject) -> None:
    here = project()
    run = keep(here.root, 1, {"checker/1/result.toml": 'verdict = "fail"\n'})
    before = (run.path / "run.toml").read_bytes()
    run.write("checker/2/result.toml", 'verdict = "pass"\nscore = 1.0\nreason = "3 of 3 tests passed"\n')
    (run.path / "checker/3").mkdir()
    (here.root / "runs" / INDEX).unlink()
    assert here.run("ls", "--verdict", "pass", "--ids").out.split() == [run.record.id]
    here.run("show", "last").assert_says("pass (3 of 3 tests passed)", "1: fail", "2: pass")
    assert here.run("report", "--json").json()[0]["passes"] == 1
    assert (run.path / "run.toml").read_bytes() == before


# -- report ---------------------------------------------------------------------------------------------------------


def test_a_report_counts_what_was_measured(project: MakeProject) -> None:
    here = project()
    for number in range(4):
        keep(here.root, number, agent="claude", model="m", verdict=Verdict.PASS if number == 0 else Verdict.FAIL)
    keep(here.root, 5, agent="claude", model="m", ending=Ending.API_ERROR, verdict=None)
    keep(here.root, 6, agent="claude", model="m", verdict=Verdict.CHECKER_ERROR)
    keep(here.root, 7, agent="claude", model="m", ending=Ending.INTERRUPTED, reason="rung passed", verdict=None)
    keep(here.root, 8, agent="claude", model="m", rehearsal=True, verdict=Verdict.PASS)

    real, rehearsal = here.run("report", "--json").json()
    assert (real["passes"], real["judged"], real["unmeasured"], real["runs"]) == (1, 4, 2, 7)
    assert real["interval"] == pytest.approx([0.0456, 0.6994], abs=1e-4)
    assert real["median_seconds"] == 3.5
    assert real["median_tokens"] == 150
    assert real["spent_usd"] == pytest.approx(3.5)
    assert rehearsal["rehearsal"] is True
    assert rehearsal["passes"] == 1
    table = here.run("report").assert_says("1 of 4", "5% to 70%", "claude (rehearsal)", "5 finished, api-error").out
    assert len(table.splitlines()) == 3
    markdown = here.run("report", "--markdown").out.splitlines()
    assert markdown[1].startswith("| --- |")
    assert len(markdown) == 4


def test_a_resumed_run_counts_once_with_all_its_parts(project: MakeProject) -> None:
    here = project()
    cut = keep(here.root, 1, ending=Ending.SESSION_LIMIT, verdict=None).record
    keep(here.root, 2, verdict=Verdict.PASS, resumed_from=cut.id)
    (row,) = here.run("report", "--json").json()
    assert (row["runs"], row["passes"], row["unmeasured"]) == (1, 1, 0)
    assert row["median_seconds"] == 7.0
    assert row["median_tokens"] == 300
    assert row["spent_usd"] == 1.0


def test_junit_has_a_case_for_each_run(project: MakeProject) -> None:
    here = project()
    keep(here.root, 1, verdict=Verdict.PASS)
    keep(here.root, 2, verdict_reason=f"1 of 2 {EVIL}")
    keep(here.root, 3, ending=Ending.STALLED, verdict=None)
    keep(here.root, 4, verdict=Verdict.NONE)
    here.run("report", "--junit", "out.xml").assert_code(0)
    suite = ET.fromstring((here.root / "out.xml").read_text()).find("testsuite")
    assert suite is not None
    assert [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "1"]
    # It is no suite, so nothing says that it passed.
    assert [fact.get("name") for fact in suite.iter("property")] == ["score"]
    seconds = [float(case.get("time", "")) for case in suite.iter("testcase")]
    assert all(seconds)
    assert float(suite.get("time", "")) == pytest.approx(sum(seconds))
    here.run("report", "--junit", "no/such/folder.xml").assert_refused("cannot be written")


def test_an_index_line_that_came_later_wins(project: MakeProject, tmp_path: Path) -> None:
    here = project()
    run = keep(here.root, 1)
    run.record.verdict = Verdict.PASS
    append_index(here.root / "runs", run.record)
    assert json.loads(here.run("ls", "--json").out)[0]["verdict"] == "pass"
