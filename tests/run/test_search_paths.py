"""What leads to left files is taken out of a checker's environment, and nothing else."""

from __future__ import annotations

import pytest

from assay.run.search_paths import PLAIN_PATH, without


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        ("PATH", "/app/.venv/bin:/usr/bin:/bin", "/usr/bin:/bin"),
        ("PATH", ":/usr/bin:.:bin:../x", "/usr/bin"),
        ("PATH", "/usr/../app/bin:/opt/app/bin://app/bin:/app:/application/bin", "/opt/app/bin:/application/bin"),
        ("PATH", "/app/bin", PLAIN_PATH),
        ("PYTHONPATH", "/app", None),
        ("PYTHONPATH", "/app/src:/opt/lib", "/opt/lib"),
        ("LD_PRELOAD", "/app/x.so /lib/y.so", "/lib/y.so"),
        ("LUA_PATH", "/app/?.lua;/usr/share/?.lua", "/usr/share/?.lua"),
        ("BASH_ENV", "/app/env", None),
        ("NODE_OPTIONS", "--max-old-space-size=4096 --require=/app/x.js", None),
        ("NODE_OPTIONS", "-r ./x.js", None),
        ("JAVA_TOOL_OPTIONS", "-javaagent:/app/x.jar", None),
    ],
)
def test_what_leads_there_goes(name: str, value: str, left: str | None) -> None:
    assert without({name: value}, "/app") == {name: left}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("PYTHONPATH", ""),
        ("NODE_OPTIONS", "--max-old-space-size=4096"),
        ("BASH_ENV", "/etc/environment"),
        ("APP_HOME", "/app"),
    ],
)
def test_what_leads_elsewhere_stays(name: str, value: str) -> None:
    assert without({name: value}, "/app/") == {}
