"""Found before any other of its name by each Python that a checker starts.

An image may have its working directory installed in place, so that modules are looked for among the left files: last
then, lest a left `pytest.py` stand in for the real one. What the task says in PYTHONPATH stays where it is.
"""

import os
import sys

_top = os.environ.get("ASSAY_WORKDIR", "").rstrip("/") + "/"
_wanted = os.environ.get("PYTHONPATH", "").split(os.pathsep)


def _left(entry: str) -> bool:
    return len(_top) > 1 and entry not in _wanted and (os.path.normpath(entry) + "/").startswith(_top)


sys.path.sort(key=_left)
