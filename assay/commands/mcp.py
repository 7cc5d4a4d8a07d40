"""`assay mcp`: test an MCP server with a scored suite. Neither key nor model is needed."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from assay.suite.write_mcp import Written

from assay.commands.suite_output import put_out, read_threshold, terminable, write_new
from assay.model.errors import Unmeasured, UsageError
from assay.model.outcome import ExitCode
from assay.suite.suite import load_suite
from assay.suite.wire.transport import Server
from assay.terminal.suite_tables import print_remark, print_text


@click.group(invoke_without_command=True)
@click.option("--server", "server", metavar="CMD", help="Command line that starts the server (stdio); quotes are kept.")
@click.option("--url", metavar="URL", help="Address of a running server (streamable HTTP or SSE).")
@click.option("--suite", "file", metavar="FILE", type=click.Path(path_type=Path), help="Suite, TOML or YAML.")
@click.option("--isolate", is_flag=True, help="Start a new server for every check.")
@click.option("--threshold", metavar="X", help="Least score that passes, instead of the suite's own.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--junit", metavar="FILE", type=click.Path(path_type=Path), help="Also write a JUnit file.")
@click.pass_context
def command(
    ctx: click.Context,
    server: str | None,
    url: str | None,
    file: Path | None,
    isolate: bool,
    threshold: str | None,
    as_json: bool,
    junit: Path | None,
) -> int | None:
    """Test an MCP server with a scored suite.

    \b
    Examples:
      assay mcp --server "mcp-server-time --local-timezone UTC" --suite time.yaml
      assay mcp --url http://127.0.0.1:8000/mcp --suite time.yaml --junit results.xml
      assay mcp init --server "mcp-server-time --local-timezone UTC" -o time.assay.toml
    """  # noqa: D301 - \b is click's
    if ctx.invoked_subcommand is not None:
        return None
    from assay.suite.mcp_runner import run_checks

    if file is None:
        msg = "--suite FILE is missing; `assay mcp init` writes one from a live server"
        raise UsageError(msg)
    suite = load_suite(file)
    if suite.cases:
        msg = f"{file} has cases, which are for an agent: use `assay agent --suite {file}`"
        raise UsageError(msg)
    suite = dataclasses.replace(
        suite,
        server=chosen_server(suite.server, server, url),
        isolate=suite.isolate or isolate,
        threshold=suite.threshold if threshold is None else read_threshold(threshold),
    )
    if not (suite.server.command or suite.server.url):
        msg = f"which server? Give --server CMD or --url URL, or a [server] table in {file}"
        raise UsageError(msg)
    with terminable():
        report = run_checks(suite)
    return put_out(report, as_json=as_json, junit=junit)


def chosen_server(base: Server, line: str | None, url: str | None) -> Server:
    """The suite's server, or the one that the command line names with the suite's settings.

    Raises:
        UsageError: The command line names two servers, or none that can be understood.
    """
    if line is not None and url is not None:
        msg = "--server starts a server and --url reaches one that runs; give one of them"
        raise UsageError(msg)
    if url is not None:
        if not url.startswith(("http://", "https://")):
            msg = f"--url must begin with http:// or https://, not {url!r}"
            raise UsageError(msg)
        return dataclasses.replace(base, url=url, command=())
    if line is None:
        return base
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        msg = f"--server cannot be split into arguments: {error}"
        raise UsageError(msg) from None
    if not words:
        msg = "--server is empty; give the command line that starts the server"
        raise UsageError(msg)
    return dataclasses.replace(base, command=words, url="")


@command.command("init")
@click.option("--server", "line", metavar="CMD", help="Command line that starts the server (stdio).")
@click.option("--url", metavar="URL", help="Address of a running server.")
@click.option("-o", "--out", metavar="FILE", type=click.Path(path_type=Path), help="Where to write; - is the screen.")
@click.option("--include-writes", is_flag=True, help="Also call tools that are not marked read-only.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
def init(line: str | None, url: str | None, out: Path | None, include_writes: bool, force: bool) -> int:
    """Write a suite from a live server's tools and answers.

    \b
    Examples:
      assay mcp init --server "mcp-server-time --local-timezone UTC"
      assay mcp init --url http://127.0.0.1:8000/mcp -o suite.toml
    """  # noqa: D301 - \b is click's
    from assay.suite.wire.connect import connect
    from assay.suite.wire.faults import RpcError, WireFault
    from assay.suite.write_mcp import write_mcp_suite

    server = chosen_server(Server(), line, url)
    if not (server.command or server.url):
        msg = "which server? Give --server CMD or --url URL"
        raise UsageError(msg)
    with terminable():
        try:
            written = write_mcp_suite(server, lambda: connect(server), writes=include_writes)
        except RpcError as error:
            msg = f"tools/list: the server refused: {error}"
            raise Unmeasured(msg) from None
        except WireFault as fault:
            print_remark(f"assay: {fault.told()}")
            return fault.exit_code
    return _put_suite(written, out, force=force)


def _put_suite(written: Written, out: Path | None, *, force: bool) -> int:
    for finding in written.findings:
        print_remark(f"note: {finding}")
    if out == Path("-"):
        print_text(written.text)
        return ExitCode.DONE
    file = out or Path(f"{re.sub(r'[^A-Za-z0-9._-]+', '-', written.server).strip('-.') or 'server'}.assay.toml")
    write_new(file, written.text, force=force)
    print_remark(f"{file} written; try it: assay mcp --suite {file}")
    return ExitCode.DONE
