"""A suite: its file read, checked and made plain.

A suite with `checks` is for an MCP server, one with `cases` for an agent. Every key of the Go harness of the same name
is accepted with its meaning; two things are meant to differ: only what is asked for counts in the score, and a suite
without a threshold must pass in full.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.model.errors import did_you_mean
from assay.model.score import exact
from assay.suite.checks import Check, known_types, reader_of
from assay.suite.document import read_document
from assay.suite.reader import Table
from assay.suite.wire.session import HANDSHAKE, MODERN
from assay.suite.wire.transport import CALL_TIMEOUT, CONNECT_TIMEOUT, Server

if TYPE_CHECKING:
    from assay.suite.agents.spec import AgentSpec
    from assay.suite.metrics.case import AgentCase

DEFAULT_TIMEOUT = 600.0
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CAPABILITIES = ("roots", "sampling", "elicitation")


@dataclass(frozen=True, slots=True)
class Suite:
    """What is to be tested, how, and what is enough.

    Attributes:
        name: For reports; the file's name where the suite gives none.
        file: Where it was read from.
        threshold: The least mean score that passes, exact, in [0, 1].
        errors_fail: What cannot be measured counts as 0 and the suite fails (exit 1); else it exits 3.
        timeout: Seconds for the whole suite.
        server: The server under test, as far as the file says.
        checks: Checks of an MCP server.
        isolate: A new server for every check.
        agent: The agent under test, as far as the file says.
        cases: Cases for an agent.
    """

    name: str
    file: Path
    threshold: Fraction = Fraction(1)
    errors_fail: bool = False
    timeout: float = DEFAULT_TIMEOUT
    server: Server = field(default_factory=Server)
    checks: tuple[Check, ...] = ()
    isolate: bool = False
    agent: AgentSpec | None = None
    cases: tuple[AgentCase, ...] = ()


def load_suite(file: str | Path) -> Suite:
    """Read a suite, TOML (`.toml`) or YAML (anything else).

    Raises:
        ConfigError: Something in it is wrong; names file, dotted path and what to write instead.
    """
    path = Path(file)
    return read_suite(read_document(path), path)


def read_suite(data: Mapping[str, Any], file: Path) -> Suite:
    """A suite of plain data; `file` is what it is called in messages and where relative paths start.

    Raises:
        ConfigError: As `load_suite`.
    """
    table = Table(data, file)
    name = table.text("name") or _stem(file)
    threshold = table.number("threshold", 0, 1)
    suite = Suite(
        name=name,
        file=file,
        threshold=Fraction(1) if threshold is None else exact(getattr(threshold, "text", threshold)),
        errors_fail=table.choice("on_error", ("error", "fail"), "error") == "fail",
        timeout=table.seconds("timeout") or DEFAULT_TIMEOUT,
    )
    checks, cases = "checks" in table, "cases" in table
    if checks and cases:
        table.fail("cases", "a suite has checks (for a server) or cases (for an agent); put them in two files")
    if cases:
        from assay.suite.agents.spec import read_agent
        from assay.suite.metrics.case import read_cases

        suite = replace(suite, agent=read_agent(table), cases=read_cases(table))
        _refuse_empty(table, "cases", there=bool(suite.cases))
    else:
        listed = tuple(_check(item) for item in table.tables("checks"))
        suite = replace(suite, server=read_server(table), isolate=table.flag("isolate"), checks=listed)
        _refuse_empty(table, "checks", there=bool(listed))
        _refuse_duplicates(table, "checks", [check.name for check in listed])
    table.finish()
    return suite


def _stem(file: Path) -> str:
    return file.name.removesuffix(file.suffix).removesuffix(".assay") or file.name


def _refuse_empty(table: Table, key: str, *, there: bool) -> None:
    if not there:
        table.fail(key, "nothing to test: an empty suite would always be green; write at least one")


def _refuse_duplicates(table: Table, key: str, names: list[str]) -> None:
    for name, count in Counter(names).items():
        if name and count > 1:
            where = [str(i) for i, other in enumerate(names) if other == name]
            told = f"the name {name!r} is given {count} times (items {', '.join(where)})"
            table.fail(key, f"{told}; names tell results apart")


def _check(table: Table) -> Check:
    kind = table.text("type")
    reader = reader_of(kind) if kind else None
    if reader is None:
        known = known_types()
        problem = f"{kind!r} is no type of check{did_you_mean(kind, known)}" if kind else "what type of check is this?"
        table.fail("type", f"{problem}; there are {', '.join(known)}")
    check = reader(table)
    table.finish()
    return check


def read_server(table: Table) -> Server:
    """The `server` table of a suite."""
    server = table.table("server")
    if server is None:
        return Server()
    command = _command(server)
    url = server.text("url")
    if command and url:
        server.fail("url", "a server is started with command or reached at url, not both")
    if url and not re.match(r"https?://[^/]", url):
        server.fail("url", f"must begin with http:// or https://, not {url!r}")
    cwd = server.text("cwd")
    read = Server(
        command=command,
        url=url,
        transport=server.choice("transport", ("auto", "http", "sse"), "auto"),
        env=read_texts(server, "env"),
        inherit_env=server.flag("inherit_env", default=True),
        cwd=(table.file.parent / cwd) if cwd else None,
        headers=read_texts(server, "headers"),
        capabilities=_capabilities(server),
        roots=server.texts("roots"),
        protocol=server.choice("protocol", ("", *HANDSHAKE, *MODERN), ""),
        connect_timeout=server.seconds("connect_timeout") or CONNECT_TIMEOUT,
        call_timeout=server.seconds("call_timeout") or CALL_TIMEOUT,
    )
    server.finish()
    return read


def _command(server: Table) -> tuple[str, ...]:
    if isinstance(server.get("command"), list):
        return server.texts("command")
    return split_command(server, "command", server.text("command"))


def split_command(table: Table, key: str, line: str) -> tuple[str, ...]:
    """A command line as its arguments, quotes respected."""
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        table.fail(key, f"cannot be split into arguments ({error}); write it as a list")


def read_texts(table: Table, key: str) -> dict[str, str]:
    """A table of texts in which `${NAME}` stands for a variable of the environment."""
    part = table.table(key)
    if part is None:
        return {}
    out = {}
    for name in part.data:
        text = part.text(name)
        for variable in _VARIABLE.findall(text):
            if variable not in os.environ:
                part.fail(name, f"the variable {variable} is not set")
        out[name] = _VARIABLE.sub(lambda match: os.environ[match[1]], text)
    return out


def _capabilities(server: Table) -> dict[str, object]:
    value = server.get("capabilities")
    if isinstance(value, dict):
        return server.mapping("capabilities") or {}
    names = server.texts("capabilities")
    for name in names:
        if name not in _CAPABILITIES:
            hint = did_you_mean(name, _CAPABILITIES)
            server.fail("capabilities", f"{name!r} is none of {', '.join(_CAPABILITIES)}{hint}; others as a table")
    return {name: {} for name in names}
