"""Variables that tell programs where to look for code: for a checker, none of them may lead to what an agent left."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_LISTS = (
    *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "NODE_PATH", "PERL5LIB", "PERLLIB"),
    *(
        "RUBYLIB",
        "GEM_PATH",
        "CLASSPATH",
        "LUA_PATH",
        "LUA_CPATH",
        "PHP_INI_SCAN_DIR",
        "GUILE_LOAD_PATH",
        "XDG_DATA_DIRS",
    ),
)
_WHOLE = (
    *("BASH_ENV", "ENV", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "GEM_HOME", "NODE_OPTIONS", "PERL5OPT"),
    *("RUBYOPT", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"),
)
_BREAK = {"LD_PRELOAD": r"[:\s]+", "LUA_PATH": ";", "LUA_CPATH": ";"}


def without(env: Mapping[str, str], workdir: str) -> dict[str, str | None]:
    """Those of these variables that lead into a working directory, as a checker gets them: less what leads there.

    Args:
        env: Of an image, and what a task sets.
        workdir: Where an agent's files lie.

    Returns:
        The variables that change; None takes one away.
    """
    changed: dict[str, str | None] = {}
    for name, value in env.items():
        if name in _LISTS and value:
            parts = re.split(_BREAK.get(name, ":"), value)
            kept = [part for part in parts if not _leads_there(part, workdir)]
            if kept != parts:
                changed[name] = ":".join(kept) or None
        elif name in _WHOLE and _mentions(value, workdir):
            changed[name] = None
    if changed.get("PATH", "") is None:
        changed["PATH"] = PLAIN_PATH
    return changed


def _leads_there(part: str, workdir: str) -> bool:
    """Whether an entry is in the working directory; one that is empty or relative means wherever a program stands."""
    return not part.startswith("/") or _within(part, workdir)


def _mentions(value: str, workdir: str) -> bool:
    words = re.split(r"[\s:=,]+", value)
    return any(word.startswith(("./", "../")) or _within(word, workdir) for word in words)


def _within(path: str, workdir: str) -> bool:
    # Two slashes at the beginning are kept by normpath, and mean one on Linux.
    return f"/{posixpath.normpath(path).lstrip('/')}/".startswith(f"{posixpath.normpath(workdir)}/") and path[:1] == "/"
