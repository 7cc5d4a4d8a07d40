"""What can go wrong, as the user meets it.

    AssayError                 one line to the user, never a traceback
    ├── Refused                exit 2: nothing was started
    │   ├── ConfigError        a file says something wrong: file, dotted path, what to write instead
    │   ├── UsageError         the command line does
    │   ├── CredentialMissing  no usable credential for an agent
    │   └── EngineUnavailable  no Docker Engine answers
    └── Unmeasured             exit 3: started, but no verdict can be trusted
        ├── EngineError        the engine refused or failed an operation
        ├── NotKept            the disk has no room for what an agent left; its container waits
        ├── BuildFailed        an image could not be built; carries the log's path
        └── FenceFailed        the network rules could not be set up or proven

Anything else that escapes is a bug and is shown as a traceback.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


class AssayError(Exception):
    """Base of every error that is told to the user in one line.

    Attributes:
        exit_code: What the program exits with (design: 2 refused, 3 could not be measured).
    """

    exit_code = 3


class Refused(AssayError):
    """Nothing was started; the user can mend the cause and try again."""

    exit_code = 2


class UsageError(Refused):
    """The command line asks for something that is not there or contradicts itself."""


class CredentialMissing(Refused):
    """No usable credential was found for an agent; names are told, values never."""


class EngineUnavailable(Refused):
    """No Docker Engine answers where the environment says it should be."""


class ConfigError(Refused):
    """A file says something wrong.

    Args:
        file: The file as the user would name it.
        path: Dotted path inside it, `""` for the file as a whole.
        problem: What is wrong, and what to write instead.
    """

    def __init__(self, file: Path | str, path: str, problem: str) -> None:
        self.file, self.path, self.problem = str(file), path, problem
        super().__init__(f"{file}: {path}: {problem}" if path else f"{file}: {problem}")

    @classmethod
    def several(cls, faults: Sequence[ConfigError]) -> ConfigError:
        """One error for all faults of a file: carries the first one's data and a line for each."""
        error = cls(faults[0].file, faults[0].path, faults[0].problem)
        error.args = ("\n".join(str(fault) for fault in faults),)
        return error


class Unmeasured(AssayError):
    """Something was started, but no verdict can be trusted."""


class EngineError(Unmeasured):
    """The Docker Engine refused or failed an operation."""


class NotKept(Unmeasured):
    """The disk has no room for what an agent left; its container waits for `assay recover`."""


class BuildFailed(Unmeasured):
    """An image could not be built.

    Args:
        what: The image, as the user knows it.
        reason: The last telling line of the build.
        log: Where the whole build log was kept, if anywhere.
    """

    def __init__(self, what: str, reason: str, log: Path | None = None) -> None:
        self.what, self.reason, self.log = what, reason, log
        super().__init__(f"{what}: build failed: {reason}" + (f" (log: {log})" if log else ""))


class FenceFailed(Unmeasured):
    """The network rules could not be set up or proven; the run is refused, never opened."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the nearest known word, else the empty string."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""
