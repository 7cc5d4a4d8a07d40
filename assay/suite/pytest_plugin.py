"""Collects `*.assay.toml` and `*.assay.yaml` as pytest items, one for each check or case.

A file's server is started once, when its first check runs. An item passes when its check scores in full. Where the
suite's threshold is below 1, a partial score does not fail an item, and one more item compares the mean with it; with
`on_error = "fail"` an error is a partial score too. The suite's timeout begins with the first item of its file. What
only `assay agent` takes up, a kept run or a container, is skipped and says so.
Fixtures for tests of one's own: `assay_server` and `assay_check`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from assay.model.report import Case
    from assay.model.trajectory import Trajectory
    from assay.suite.agents.sources import Agent
    from assay.suite.judging.judge import Judge
    from assay.suite.subject import Subject
    from assay.suite.suite import Suite
    from assay.suite.wire.session import Session

ENDINGS = (".assay.toml", ".assay.yaml", ".assay.yml")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SuiteFile | None:
    """Take suites; pytest calls this for every file."""
    return SuiteFile.from_parent(parent, path=file_path) if file_path.name.endswith(ENDINGS) else None


class ScoreTooLow(Exception):
    """A check or a suite did not score enough; the text is its rows of the table."""


class SuiteFile(pytest.File):
    """One suite, and the server or agent that its items share."""

    suite: Suite
    _subject: Subject | None = None
    _agent: Agent | None = None
    _end: float | None = None

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each check or case, and one for a threshold below 1.

        Raises:
            CollectError: The suite is wrong.
        """
        from assay.model.errors import AssayError
        from assay.suite.mcp_runner import case_names
        from assay.suite.suite import load_suite

        try:
            self.suite = load_suite(self.path)
        except AssayError as error:
            raise self.CollectError(str(error)) from None
        suite = self.suite
        names = case_names(suite.checks) if suite.checks else [case.name for case in suite.cases]
        self.done: dict[int, Case] = {}
        order = sorted(range(len(names)), key=lambda i: bool(suite.checks) and suite.checks[i].at_end)
        for index in order:
            yield SuiteItem.from_parent(self, name=names[index], index=index)
        if suite.threshold < 1:
            yield ThresholdItem.from_parent(self, name="threshold")

    def teardown(self) -> None:
        """Close the server."""
        if self._subject is not None:
            subject, self._subject = self._subject, None
            subject.drop()

    @property
    def end(self) -> float:
        """Monotonic time at which the suite must be over, from when it is first asked for."""
        if self._end is None:
            self._end = time.monotonic() + self.suite.timeout
        return self._end

    def only_cli(self, index: int) -> str:
        """Why a case is not for pytest; "" if it is."""
        if self.suite.checks:
            return ""
        agent, judge = self.suite.agent, self.suite.cases[index].judge
        what = f"[agent] {agent.only_cli}" if agent is not None and agent.only_cli else ""
        if not what and judge is not None and judge.agent and not judge.command:
            what = f'the judge agent = "{judge.agent}"'
        return f"{what} is for `assay agent --suite {self.path.name}`" if what else ""

    def case(self, index: int) -> Case:
        """A check or case, made if it has not been made."""
        if index not in self.done:
            self.done[index] = self._check(index) if self.suite.checks else self._ask(index)
        return self.done[index]

    def _check(self, index: int) -> Case:
        from assay.model.errors import UsageError
        from assay.suite.mcp_runner import case_names, make_case
        from assay.suite.subject import Subject
        from assay.suite.wire.faults import StartFault

        if not (self.suite.server.command or self.suite.server.url):
            msg = f"{self.path}: under pytest a suite needs a [server] table with a command or a url"
            raise UsageError(msg)
        if self._subject is None:
            self._subject = Subject(self.suite.server, self.end)
        try:
            self._subject.session  # noqa: B018 - a server that does not start is no check's score
        except StartFault as fault:
            raise ScoreTooLow(fault.told()) from None
        name = case_names(self.suite.checks)[index]
        return make_case(self.suite, self.suite.checks[index], name, self._subject)

    def _ask(self, index: int) -> Case:
        from assay.model.errors import UsageError
        from assay.suite.agent_runner import run_case
        from assay.suite.agents.sources import make_agent
        from assay.suite.agents.spec import AgentSpec

        if self._agent is None:
            self._agent = make_agent(self.suite.agent or AgentSpec())
        if self._agent is None:
            msg = f"{self.path}: under pytest a suite needs an [agent] table with an object, a command or a recording"
            raise UsageError(msg)
        return run_case(self.suite, self.suite.cases[index], self._agent, end=self.end)


class SuiteItem(pytest.Item):
    """One check or case."""

    def __init__(self, *, index: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.index = index

    def runtest(self) -> None:
        """Make the check.

        Raises:
            ScoreTooLow: It did not score in full, or could not be measured.
        """
        from assay.model.score import State

        owner = self.parent
        assert isinstance(owner, SuiteFile)  # noqa: S101
        if reason := owner.only_cli(self.index):
            pytest.skip(reason)
        case = owner.case(self.index)
        if case.state is State.PASSED:
            return
        counts = case.state is State.FAILED or owner.suite.errors_fail
        if counts and owner.suite.threshold < 1:
            pytest.xfail(f"scored {float(case.value):.2f}; the suite's threshold decides")
        raise ScoreTooLow(case.told())

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The rows of the table; a traceback for what is no score."""
        return _told(excinfo) or super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it is from."""
        return self.path, None, self.name


class ThresholdItem(pytest.Item):
    """The mean of all checks against the suite's threshold."""

    def runtest(self) -> None:
        """Compare, after making whatever was not made yet.

        Raises:
            ScoreTooLow: The mean is below the threshold, or lacks what could not be measured.
        """
        from assay.model.report import Report
        from assay.model.score import State

        owner = self.parent
        assert isinstance(owner, SuiteFile)  # noqa: S101
        suite = owner.suite
        count = len(suite.checks or suite.cases)
        if reason := next((told for index in range(count) if (told := owner.only_cli(index))), ""):
            pytest.skip(reason)
        cases = tuple(owner.case(index) for index in range(count))
        report = Report(suite.name, suite.threshold, cases, errors_fail=suite.errors_fail)
        if report.value < suite.threshold:
            msg = f"suite score {float(report.value):.2f} is below the threshold {float(suite.threshold):.2f}"
            raise ScoreTooLow(msg)
        if not report.passed:
            msg = f"not measured: {', '.join(case.name for case in cases if case.state is State.ERROR)}"
            raise ScoreTooLow(msg)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The comparison; a traceback for what is no score."""
        return _told(excinfo) or super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it is from."""
        return self.path, None, self.name


def _told(excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    from assay.model.errors import AssayError

    return str(excinfo.value) if isinstance(excinfo.value, ScoreTooLow | AssayError) else ""


@pytest.fixture
def assay_server() -> Iterator[Callable[..., Session]]:
    """Open sessions with MCP servers: `assay_server("my-server --flag")` or `assay_server(url="http://…")`.

    The session is synchronous (`list_all("tools/list")`, `call("echo", {"message": "hi"})`); all are closed, and their
    processes ended, when the test is over.
    """
    import shlex
    from contextlib import ExitStack

    from assay.suite.wire.connect import connect
    from assay.suite.wire.transport import Server

    with ExitStack() as stack:

        def open_session(command: str | list[str] = "", **settings: Any) -> Session:
            words = shlex.split(command) if isinstance(command, str) else command
            return stack.enter_context(connect(Server(command=tuple(words), **settings)))

        yield open_session


@pytest.fixture
def assay_check() -> Callable[..., None]:
    """Assert on a trajectory with the keys of a case: `assay_check(trajectory, expect_tools=["search"])`."""

    def check(
        trajectory: Trajectory | Mapping[str, object] | str, judge: Judge | None = None, **expected: object
    ) -> None:
        __tracebackhide__ = True
        from assay.model.report import Case
        from assay.suite.agent_runner import score_trajectory
        from assay.suite.agents.sources import as_trajectory
        from assay.suite.suite import read_suite

        suite = read_suite({"cases": [{"name": "assay_check", **expected}]}, Path("assay_check"))
        case = Case("assay_check", score_trajectory(suite.cases[0], as_trajectory(trajectory), judge))
        if case.value < 1:
            raise AssertionError(case.told())

    return check
