"""Suites from Python: load one, run it, look at the report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from assay.model.errors import UsageError
from assay.model.report import Report
from assay.suite.agent_runner import run_cases
from assay.suite.agents.sources import ObjectAgent, make_agent
from assay.suite.agents.spec import AgentSpec
from assay.suite.judging.judge import Judge
from assay.suite.mcp_runner import run_checks
from assay.suite.suite import Suite, load_suite
from assay.suite.wire.transport import Server

__all__ = ["Suite", "load_suite", "run_suite"]


def run_suite(
    suite: Suite | str | Path,
    *,
    server: str | Sequence[str] | Server | None = None,
    url: str | None = None,
    agent: object = None,
    judge: Judge | None = None,
) -> Report:
    """Run a suite and report; nothing is printed and nothing exits.

    Args:
        suite: A suite, or the file to load it from.
        server: For a suite with checks: the server's command line, its arguments as a list, or all there is to say.
        url: Or the address of one that runs.
        agent: For a suite with cases: a callable, an object with `run`, or a class of either (then new for every
            prompt). Given a prompt it returns, at once or as a coroutine, a text, a `Trajectory`, the dict form of one,
            or a list of chat messages. None is what the suite's `agent` table says.
        judge: Judges every case that wants judging, instead of what the suite says.

    Raises:
        ConfigError: The suite is wrong.
        UsageError: There is nothing to test it on.
    """
    loaded = suite if isinstance(suite, Suite) else load_suite(suite)
    if loaded.checks:
        return run_checks(replace(loaded, server=_server(loaded, server, url)))
    spec = loaded.agent or AgentSpec()
    found = ObjectAgent(agent) if agent is not None else make_agent(spec)
    if found is None and spec.only_cli:
        msg = f"{loaded.file}: [agent] {spec.only_cli} is for `assay agent --suite {loaded.file}` alone; give agent="
        raise UsageError(msg)
    if found is None:
        msg = f"{loaded.file}: which agent? Give agent=, or an [agent] table with an object, a command or a recording"
        raise UsageError(msg)
    return run_cases(loaded, found, judge=judge)


def _server(suite: Suite, server: str | Sequence[str] | Server | None, url: str | None) -> Server:
    if isinstance(server, Server):
        return server
    if url is not None:
        return replace(suite.server, url=url, command=())
    if server is not None:
        words = shlex.split(server) if isinstance(server, str) else server
        return replace(suite.server, command=tuple(words), url="")
    if not (suite.server.command or suite.server.url):
        msg = f"{suite.file}: which server? Give server= or url=, or a [server] table"
        raise UsageError(msg)
    return suite.server
