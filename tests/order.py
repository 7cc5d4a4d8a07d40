"""In which order the tests run, and which of them stay together on one worker."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

LONGEST = (
    "tests/suite/test_examples.py::test_frameworks",
    "tests/suite/test_real_servers.py::test_a_suite_that_init_wrote_passes",
    "tests/readme/",
    "tests/ask/test_repository.py::test_a_hundred_thousand_files",
    "tests/credentials/test_real_clis.py",
    "tests/images/",
    "tests/agents/test_re",
    "tests/rehearsal/test_claude_cli.py",
    "tests/recover/test_random_moments.py",
    "tests/scripts/",
    "tests/run/test_hostile.py::test_many_small_files",
    "tests/agents/",
    "tests/fence/",
    "tests/recover/",
    "tests/credentials/",
    "tests/ask/test_docs.py",
    "tests/ask/test_copy.py",
)
"""How names of tests begin, those that take longest first; all others follow as they are collected."""

TOGETHER = (
    "tests/agents/test_real_clis.py",
    "tests/agents/test_rehearse.py",
    "tests/ask/test_copy.py",
    "tests/credentials/test_real_clis.py",
    "tests/fence/",
    "tests/images/",
    "tests/rehearsal/",
)
"""Files whose tests share what is dear to set up, or look at the same images."""


def place(name: str) -> int:
    """Where a test comes in the order."""
    return next((n for n, begin in enumerate(LONGEST) if name.startswith(begin)), len(LONGEST))


class Spread(LoadScopeScheduling):  # type: ignore[misc]
    """Gives the tests of a file in TOGETHER to one worker, and every other test to the next that is free."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.split("::")[0] if nodeid.startswith(TOGETHER) else nodeid
