"""A pytest plugin that runs beside a hidden checker: it writes down what happened, when the session ends by itself.

An exit code of 0 alone proves nothing: a solution that calls `os._exit(0)` while it is imported gives one. Runs on
whatever Python the checker's image has.
"""

import json
import os
import sys

_report = {"passed": 0, "failed": 0, "skipped": 0, "errors": 0, "broken": 0}
_out = os.environ.pop("ASSAY_REPORT", "")
_workdir = os.environ.get("ASSAY_WORKDIR", "")


def _left_by_agent(error) -> bool:  # type: ignore[no-untyped-def]
    """Whether a test file could not be loaded because of what the agent left (or did not leave)."""
    trace, files = error.__traceback__, []
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    missing = os.path.abspath(str(getattr(error, "filename", None) or "/"))  # noqa: PTH100 - what every Python has
    if any(_within(name) for name in files) or _within(missing):
        return True
    return isinstance(error, ImportError) and any(_within(entry) for entry in sys.path)


def _within(path: str) -> bool:
    """Whether an absolute path is in the working directory; code that has no file (`<frozen …>`) is not."""
    return bool(_workdir) and (os.path.normpath(path) + "/").startswith(_workdir.rstrip("/") + "/")


def pytest_configure() -> None:
    """Leave a mark that pytest got as far as this: without it, no end of it says anything of the agent's files."""
    with open(_out + ".begun", "w", encoding="utf-8"):  # noqa: PTH123
        pass


def pytest_exception_interact(call, report) -> None:  # type: ignore[no-untyped-def]
    """Sort the errors of loading a test file: the agent's doing, or a broken checker."""
    if report.when == "collect" and call.excinfo is not None:
        error = call.excinfo.value
        cause = error
        while cause is not None and not isinstance(cause, (ImportError, OSError)):
            cause = cause.__cause__ or cause.__context__
        agents = _left_by_agent(error) or (cause is not None and cause is not error and _left_by_agent(cause))
        _report["errors" if agents else "broken"] += 1


def pytest_runtest_logreport(report) -> None:  # type: ignore[no-untyped-def]
    """Count tests by outcome; an error in set-up or tear-down is a failure."""
    if report.when == "call" or report.outcome != "passed":
        # A plugin may have outcomes of its own ("rerun").
        _report[report.outcome] = _report.get(report.outcome, 0) + 1


def pytest_sessionfinish() -> None:
    """Write the report, whole or not at all."""
    with open(_out + ".part", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(_report, file)
    os.replace(_out + ".part", _out)  # noqa: PTH105
