"""Runs a hidden check.py and tells a failed check from a broken one.

Python exits with 1 on any exception, which would make a broken checker look like a failed solution; and code that
the checker imports may end the process with status 0. So: an exception that comes from the checker itself is exit
70, one that the agent's files caused is 1, and a status of 0 counts only with the mark that is written at the end.
"""

import os
import runpy
import sys
import traceback

_out = os.environ.pop("ASSAY_REPORT", "")
_workdir = os.environ.get("ASSAY_WORKDIR", "")
_script = sys.argv[1]
BROKEN = 70


def _within(path: str) -> bool:
    """Whether an absolute path is in the working directory; code that has no file (`<frozen …>`) is not."""
    return bool(_workdir) and (os.path.normpath(path) + "/").startswith(_workdir.rstrip("/") + "/")


def _files(error: BaseException) -> "list[str]":
    trace, files = error.__traceback__, []
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return files


def _verdict(error: Exception) -> int:
    if isinstance(error, AssertionError) or any(_within(name) for name in _files(error)):
        return 1
    if isinstance(error, OSError) and any(
        _within(os.path.abspath(str(name)))  # noqa: PTH100 - kept to what every Python has
        for name in (error.filename, error.filename2)
        if name
    ):
        return 1
    if isinstance(error, ImportError) and any(_within(entry) for entry in sys.path):
        return 1
    return BROKEN


def main() -> int:
    """Run the script as `__main__`; the exit code."""
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(_script)  # noqa: PTH120
    try:
        runpy.run_path(_script, run_name="__main__")
    except SystemExit as error:
        if any(_within(name) for name in _files(error)):
            traceback.print_exc()
            return 1
        if isinstance(error.code, str):
            sys.stderr.write(error.code + "\n")
            return 1
        return error.code or 0
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told and sorted
        traceback.print_exc()
        return _verdict(error)
    return 0


with open(_out + ".begun", "w", encoding="utf-8"):  # noqa: PTH123
    pass
_code = main()
sys.stdout.flush()
if _code == 0:
    with open(_out, "w", encoding="utf-8") as _file:  # noqa: PTH123
        _file.write("{}")
sys.exit(_code)
