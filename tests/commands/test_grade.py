"""`assay grade`: the kept files once more, by the checker as it is now."""

from __future__ import annotations

import pytest

from assay.model.outcome import Ending
from assay.run.record import grades, read_record
from tests.commands.kept import keep
from tests.conftest import MakeProject

NO_ENGINE = {"DOCKER_HOST": "tcp://127.0.0.1:1"}

TASK = {
    "tasks/t/prompt.md": "Write ok.",
    "tasks/t/checker/check.sh": "#!/bin/sh\necho first\n[ -e ok ] || exit 1\n",
    "tasks/t/solution/solve.sh": "#!/bin/sh\ntouch ok\nmkfifo pipe\nln -s /proc/self/fd link\n",
}


def test_what_cannot_be_graded_is_refused(project: MakeProject) -> None:
    here = project(TASK)
    cases = {
        "was cut short": (keep(here.root, 1, ending=Ending.SESSION_LIMIT, verdict=None), ["session-limit", "resume"]),
        "not whole": (keep(here.root, 2, left="truncated", left_reason="too large"), ["not kept whole", "too large"]),
        "no files": (keep(here.root, 3), ["left.tar.zst is not there"]),
        "task gone": (keep(here.root, 4, {"left.tar.zst": ""}, task_path="/no/such"), ["/no/such", "--task"]),
    }
    for run, words in cases.values():
        here.run("grade", run.record.id, env=NO_ENGINE).assert_refused(run.record.id, *words)
        assert not (run.path / "checker").exists()
    whole = keep(here.root, 5, {"left.tar.zst": ""})
    here.run("grade", whole.record.id, env=NO_ENGINE).assert_refused("Docker")
    here.write({"tasks/open/prompt.md": "Say hello."})
    here.run("grade", whole.record.id, "--task", "tasks/open", env=NO_ENGINE).assert_refused("no checker/")


@pytest.mark.docker
@pytest.mark.timeout(180)
def test_a_new_verdict_stands_beside_the_first(project: MakeProject) -> None:
    here = project(TASK)
    here.run("run", "tasks/t", "--agent", "oracle", timeout=120).assert_code(0)
    (run,) = here.runs
    committed = (run / "run.toml").read_bytes()

    here.write({"tasks/t/checker/check.sh": "#!/bin/sh\necho second\n[ -e more ] || exit 1\n"})
    again = here.run("grade", "last").assert_code(1)
    again.assert_says("✗ fail", "grading 2", "at first: pass", "the task has changed")
    here.write({"tasks/t/checker/check.sh": "#!/bin/sh\nexit 77\n"})
    here.run("grade", run.name).assert_code(3).assert_says("checker-error")
    here.write({"tasks/t/checker/check.sh": TASK["tasks/t/checker/check.sh"]})
    told = here.run("grade", str(run), "--json").assert_code(0).json()
    assert (told["grade"], told["verdict"], told["verdict_at_first"], told["task_changed"]) == (
        4,
        "pass",
        "pass",
        False,
    )

    assert [grade["verdict"] for grade in grades(run)] == ["pass", "fail", "checker-error", "pass"]
    assert (run / "checker/1/output.txt").read_text() == "first\n"
    assert (run / "checker/2/output.txt").read_text() == "second\n"
    assert (run / "run.toml").read_bytes() == committed
    assert read_record(run).verdict == "pass"
    assert len(here.run("ls", "--json").json()) == 1
