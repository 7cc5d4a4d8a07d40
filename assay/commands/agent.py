"""`assay agent`: test an agent with a scored suite: an object, a command, a registry agent, or a run already kept."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Any

import click

from assay.commands.suite_output import put_out, read_threshold, terminable, write_new
from assay.model.errors import UsageError
from assay.model.outcome import ExitCode
from assay.suite.agents.registered import registered_agent
from assay.suite.agents.sources import Agent, ObjectAgent, RecordedAgent, make_agent
from assay.suite.agents.spec import AgentSpec
from assay.suite.judging.judge import Judge
from assay.suite.judging.spec import JudgeSpec
from assay.suite.suite import Suite, load_suite
from assay.terminal.suite_tables import print_remark, print_text


@click.group(invoke_without_command=True)
@click.option("--suite", "file", metavar="FILE", type=click.Path(path_type=Path), help="Suite, TOML or YAML.")
@click.option("--object", "object_", metavar="MODULE:ATTR", help="A Python callable, an object with run(), or a class.")
@click.option("--command", "line", metavar="CMD", help="A program: prompt on its input, answer on its output.")
@click.option("--run", metavar="RUN", help="A kept run: a path, a unique prefix, or last.")
@click.option("--recorded", metavar="FILE", help="A trajectory or chat messages, JSON.")
@click.option("--agent", "name", metavar="NAME", help="An agent of the registry, in its container.")
@click.option("--model", metavar="MODEL", help="Model of --agent.")
@click.option("--effort", metavar="LEVEL", help="Effort of --agent.")
@click.option("--rehearse", metavar="SCRIPT", help="A stand-in speaks for the vendor of --agent: no key, no spend.")
@click.option("--threshold", metavar="X", help="Least score that passes, instead of the suite's own.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--junit", metavar="FILE", type=click.Path(path_type=Path), help="Also write a JUnit file.")
@click.pass_context
def command(ctx: click.Context, /, file: Path | None, threshold: str | None, **given: Any) -> int | None:
    """Test an agent with a scored suite.

    \b
    Examples:
      assay agent --suite cases.toml --object mypackage.agent:answer
      assay agent --suite cases.toml --command "./my-agent --quiet"
      assay agent --suite cases.toml --run last
    """  # noqa: D301 - \b is click's
    if ctx.invoked_subcommand is not None:
        return None
    if file is None:
        msg = "--suite FILE is missing; `assay agent init --run RUN` writes one from a kept run"
        raise UsageError(msg)
    suite = load_suite(file)
    if suite.checks:
        msg = f"{file} has checks, which are for an MCP server: use `assay mcp --suite {file}`"
        raise UsageError(msg)
    spec = _chosen(suite.agent or AgentSpec(), given, registered_agent())
    suite = dataclasses.replace(
        suite, agent=spec, threshold=suite.threshold if threshold is None else read_threshold(threshold)
    )
    return _test(suite, spec, registered_agent(), as_json=given["as_json"], junit=given["junit"])


def _test(suite: Suite, spec: AgentSpec, registered: object, *, as_json: bool, junit: Path | None) -> int:
    from assay.suite.agent_runner import run_cases

    with terminable():
        agent, about = _agent(suite, spec, registered)
        report = run_cases(suite, agent, about=about, make_judge=_judge)
    return put_out(report, as_json=as_json, junit=junit)


def _chosen(base: AgentSpec, given: dict[str, Any], registered: object) -> AgentSpec:
    """The suite's agent, or the one that the command line names with the suite's settings."""
    named = {key: given[key] for key in ("object_", "line", "run", "recorded", "name") if given[key]}
    if len(named) > 1:
        words = {"object_": "--object", "line": "--command", "name": "--agent"}
        msg = f"{' and '.join(words.get(key, f'--{key}') for key in named)} name several agents; one is tested"
        raise UsageError(msg)
    if any(given[key] for key in ("model", "effort", "rehearse")) and not (given["name"] or base.name):
        msg = "--model, --effort and --rehearse are for an agent of the registry; add --agent NAME"
        raise UsageError(msg)
    if named or registered is not None:
        base = dataclasses.replace(base, object="", command=(), run="", recorded=None, name=base.name * (not named))
    return dataclasses.replace(
        base,
        object=given["object_"] or base.object,
        command=_words(given["line"]) if given["line"] else base.command,
        run=given["run"] or base.run,
        recorded=Path(given["recorded"]) if given["recorded"] else base.recorded,
        name=given["name"] or base.name,
        model=given["model"] or base.model,
        effort=given["effort"] or base.effort,
        rehearse=given["rehearse"] or base.rehearse,
    )


def _words(line: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        msg = f"--command cannot be split into arguments: {error}"
        raise UsageError(msg) from None
    if not words:
        msg = "--command is empty; give the program to ask"
        raise UsageError(msg)
    return words


def _judge(spec: JudgeSpec) -> Judge:
    """A judge that is an agent of the registry, asked in a container."""
    from assay.commands.contained import ContainedAgent
    from assay.suite.judging.judge import NoGrade, TextJudge

    agent = ContainedAgent(spec.agent, spec.model, spec.effort, spec.rehearse)

    def ask(words: str) -> str:
        answer = agent.answer(words, spec.timeout)
        if answer.error:
            raise NoGrade(answer.error)
        return answer.output

    return TextJudge(ask)


def _agent(suite: Suite, spec: AgentSpec, registered: object) -> tuple[Agent, dict[str, object]]:
    """The agent under test, and what the report says of it."""
    if (made := make_agent(spec)) is not None:
        told = spec.object or shlex.join(spec.command) or str(spec.recorded)
        return made, {spec.kinds[0]: told, "env": sorted(spec.env)}
    if spec.run:
        from assay.commands.kept_run import kept_run

        path, record, trajectory = kept_run(spec.run)
        about: dict[str, object] = {
            "run": str(path),
            "agent": record.agent,
            "model": record.model,
            "rehearsal": record.rehearsal,
        }
        return RecordedAgent(trajectory), about
    if spec.name:
        from assay.commands.contained import ContainedAgent

        contained = ContainedAgent(spec.name, spec.model, spec.effort, spec.rehearse)
        return contained, contained.about
    if registered is not None:
        return ObjectAgent(registered), {"object": type(registered).__name__}
    msg = f"which agent? Give --object, --command, --run, --recorded or --agent, or an [agent] table in {suite.file}"
    raise UsageError(msg)


@command.command("init")
@click.option("--run", "name", metavar="RUN", required=True, help="A kept run: a path, a unique prefix, or last.")
@click.option("-o", "--out", metavar="FILE", type=click.Path(path_type=Path), help="Where to write; - is the screen.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
def init(name: str, out: Path | None, force: bool) -> int:
    """Write a suite from what an agent did in a kept run.

    \b
    Examples:
      assay agent init --run last
      assay agent init --run runs/20261130T152136Z-hello-claude-5ad8 -o hello.toml
    """  # noqa: D301 - \b is click's
    from assay.commands.kept_run import kept_run
    from assay.suite.write_agent import write_agent_suite

    path, record, trajectory = kept_run(name)
    if trajectory.error:
        msg = f"{path} is no example to go by: {trajectory.error}"
        raise UsageError(msg)
    prompt = path / "prompt.md"
    told = prompt.read_text("utf-8", "replace") if prompt.is_file() else ""
    text = write_agent_suite(str(path), record.task or record.id, told, trajectory)
    if out == Path("-"):
        print_text(text)
        return ExitCode.DONE
    file = out or Path(f"{record.task or record.id}.assay.toml")
    write_new(file, text, force=force)
    print_remark(f"{file} written; try it: assay agent --suite {file}")
    return ExitCode.DONE
