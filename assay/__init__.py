"""Put one task to coding agents, each sealed in its own container, and grade what they leave behind.

For tests of MCP servers and agents from Python there is `load_suite`, `run_suite`, `Suite` and `Trajectory`, and `main`
for a command of one's own. They are loaded when they are asked for: `import assay` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, without importing it
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from assay.model.trajectory import Trajectory
    from assay.suite.api import Suite, load_suite, run_suite

__version__ = "0.1.0"
__all__ = ["Suite", "Trajectory", "__version__", "load_suite", "main", "run_suite"]

_HOMES = {
    "Suite": "assay.suite.api",
    "Trajectory": "assay.model.trajectory",
    "load_suite": "assay.suite.api",
    "run_suite": "assay.suite.api",
}


def main(agent: object, argv: Sequence[str] | None = None) -> NoReturn:
    """Be a command that tests an agent: `python my_eval.py --suite cases.yaml`.

    Args:
        agent: A callable, an object with `run`, or a class of either; see `run_suite`.
        argv: Arguments instead of the command line's.

    Raises:
        SystemExit: Always, with the exit code of the suite.
    """
    import sys

    from assay import cli
    from assay.suite.agents.registered import register

    register(agent)
    words = list(sys.argv[1:] if argv is None else argv)
    cli.main(words if words and not words[0].startswith("-") else ["agent", *words])
    raise SystemExit


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module 'assay' has no attribute {name!r}"
        raise AttributeError(msg)
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
