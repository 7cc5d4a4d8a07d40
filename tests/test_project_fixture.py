"""The tests' own tools must not be able to look away."""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path

import pytest

from tests import project as tools
from tests.conftest import MakeProject
from tests.order import TOGETHER
from tests.project import Outcome, leftovers


def test_the_environment_is_clean(project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("ASSAY_TIMEOUT", "1s")
    here = project()
    assert "SOME_API_KEY" not in here.env
    assert "ASSAY_TIMEOUT" not in here.env
    assert Path(here.env["HOME"]).is_dir()
    assert here.env["HOME"] != str(Path.home())


def test_checkers_are_executable_and_samples_are_copied(project: MakeProject) -> None:
    here = project({"tasks/foo/checker/check.sh": "exit 0", "tasks/foo/prompt.md": "x"}, "hello")
    assert (here.root / "tasks/foo/checker/check.sh").stat().st_mode & 0o111
    assert not (here.root / "tasks/foo/prompt.md").stat().st_mode & 0o111
    assert (here.root / "tasks/hello/prompt.md").is_file()


@pytest.fixture
def python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drive Python itself instead of assay, to see how the tools watch a command."""
    monkeypatch.setattr(tools, "COMMAND", Path(sys.executable))


@pytest.mark.usefixtures("python")
def test_waiting_for_words_and_a_signal(project: MakeProject) -> None:
    running = project().start("-uc", "import time; print('ready'); time.sleep(60)")
    running.wait_for("ready")
    running.signal(signal.SIGTERM)
    assert running.finish(20).code == -signal.SIGTERM


@pytest.mark.usefixtures("python")
def test_words_that_never_come(project: MakeProject) -> None:
    here = project()
    with pytest.raises(AssertionError, match="ended without 'ready'"):
        here.start("-c", "print('other')").wait_for("ready", 20)
    with pytest.raises(AssertionError, match="did not come"):
        here.start("-c", "import time; time.sleep(60)").wait_for("ready", 0.1)


@pytest.mark.usefixtures("python")
def test_a_command_that_does_not_end_fails_with_what_it_said(project: MakeProject) -> None:
    running = project().start("-uc", "import time; print('so far'); time.sleep(60)")
    running.wait_for("so far")
    with pytest.raises(AssertionError, match="so far"):
        running.finish(0.1)
    assert running.process.poll() is not None


@pytest.mark.usefixtures("python")
def test_standard_input_is_given_or_empty(project: MakeProject) -> None:
    echo = "import sys; print(repr(sys.stdin.read()))"
    assert project().run("-c", echo).out == "''\n"
    assert project().run("-c", echo, stdin="ä").out == "'ä'\n"


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome([], 1, "", "assay: no", 0),
        Outcome([], 2, "", "", 0),
        Outcome([], 2, "", "assay: no\nassay: again", 0),
        Outcome([], 2, "something", "assay: no", 0),
        Outcome([], 2, "", "assay: else", 0),
        Outcome([], 2, "", "Traceback (most recent call last): no", 0),
    ],
    ids=["code", "silent", "two lines", "output", "other words", "bug"],
)
def test_what_is_no_refusal(outcome: Outcome) -> None:
    with pytest.raises(AssertionError):
        outcome.assert_refused("no")


@pytest.mark.docker
def test_a_container_left_behind_is_found_and_removed(tmp_path: Path) -> None:
    import docker

    image = "debian:bookworm-slim"
    with contextlib.closing(docker.APIClient(version="auto")) as api:

        def container(project: Path) -> str:
            labels = {"assay": "1", "assay.project": str(project)}
            return str(api.create_container(image, ["true"], labels=labels)["Id"])

        mine, other = container(tmp_path / "mine"), container(tmp_path / "other")
        try:
            left = leftovers({tmp_path / "mine": "test_x"})
            assert list(left.values()) == ["test_x"]
            there = {found["Id"] for found in api.containers(all=True, filters={"label": "assay"})}
            assert mine not in there
            assert other in there
        finally:
            api.remove_container(other)


def test_tests_that_share_a_run_stay_on_one_worker() -> None:
    here = Path(__file__).parent
    files = {str(path.relative_to(here.parent)): path.read_text("utf-8") for path in here.rglob("test_*.py")}
    module = '\n@pytest.fixture(scope="module")\n'
    shared = [name for name, text in files.items() if "pytest.mark.docker" in text and module in text]
    assert len(shared) > 4
    assert not [name for name in shared if not name.startswith(TOGETHER)], "see tests/order.py"
