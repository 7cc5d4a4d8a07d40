"""The door: parse, call one command, map its outcome to an exit code.

A command is a module in `assay/commands/` with a click command named `command`. It is imported only when it is
called: `assay --help` reads the one-line summaries below and imports none of them.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import re
import sys
import traceback
from typing import TextIO

import click

from assay import __version__
from assay.model.errors import AssayError
from assay.model.outcome import ExitCode

COMMANDS = {
    "run": "Run a task: one agent, or a stage's ladder.",
    "resume": "Go on with a run that was cut short.",
    "recover": "Finish what a killed assay left behind.",
    "grade": "Grade the kept files of a run again.",
    "ask": "Ask for a second opinion on a repository.",
    "ls": "List runs.",
    "show": "Show one run.",
    "report": "Passes, times, tokens and cost over many runs.",
    "registry": "List the agents.",
    "build": "Build the images that runs need.",
    "rehearse": "Play one script on the real CLIs, without key or spend.",
    "render": "Render a recorded event stream.",
    "mcp": "Test an MCP server with a scored suite.",
    "agent": "Test an agent with a scored suite.",
    "init": "Write a project and a task that work.",
    "config": "Show the configuration and where each value came from.",
    "doctor": "Check what Assay needs on this machine.",
    "clean": "Remove containers and images of runs that are over.",
}

EPILOG = """\b
Exit codes:
  0    done, and something passed or there was nothing to judge
  1    done, nothing passed (a suite: below its threshold)
  2    refused before anything started
  3    could not be measured (checker error, engine error)
  4    stopped and resumable (session limit, API error, stall)
  130  interrupted
Where several hold: 130, 2, 4, 3, 1, 0; a pass in a stop_on_pass stage is 0."""


class Door(click.Group):
    """Commands by name, each loaded when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click asks for it
        """Names in the order a newcomer needs them."""
        return [name for name in COMMANDS if _there(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load one command."""
        if cmd_name not in COMMANDS or not _there(cmd_name):
            return None
        module = importlib.import_module(f"assay.commands.{cmd_name}")
        found: click.Command = module.command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest name where there is no such command."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.list_commands(ctx):
            ctx.fail(f"no such command {name}{_nearest(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The summaries from the table, so that nothing is imported for `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


def _there(name: str) -> bool:
    return os.path.exists(os.path.join(os.path.dirname(__file__), "commands", f"{name}.py"))  # noqa: PTH110, PTH118, PTH120


@click.group(
    cls=Door, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="assay", message="%(prog)s %(version)s")
@click.pass_context
def door(ctx: click.Context) -> None:
    """Put one task to coding agents, each sealed in its own container, and grade what they leave behind."""
    # Here rather than in each command: before whatever it refuses, too.
    if ctx.invoked_subcommand != "recover":
        from assay.commands.hint import hint

        hint()


def main(argv: list[str] | None = None) -> None:
    """Run the program; user errors are one line, bugs are tracebacks.

    Raises:
        SystemExit: Always, with the exit code of the table above.
    """
    # A stream that was closed from outside (`>&-`) is None: it is written to nowhere.
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    try:
        code = door.main(args=argv, prog_name="assay", standalone_mode=False)
    except click.exceptions.Exit as end:
        code = end.exit_code
    except click.UsageError as error:
        click.echo(_usage(error, sys.argv[1:] if argv is None else argv), err=True)
        code = ExitCode.REFUSED
    except click.ClickException as error:
        click.echo(f"assay: {_one_line(error.format_message())}", err=True)
        code = ExitCode.REFUSED
    except (click.Abort, KeyboardInterrupt):
        code = ExitCode.INTERRUPTED
    except AssayError as error:
        click.echo(f"assay: {_one_line(str(error))}", err=True)
        code = error.exit_code
    except Exception as error:  # noqa: BLE001 - a bug: its traceback is shown
        code = _unforeseen(error)
    except SystemExit:
        # Only click does this, when the reader of our output has gone, as `| head` does; nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.DONE
    sys.exit(code if isinstance(code, int) else ExitCode.DONE)


def _usage(error: click.UsageError, argv: list[str]) -> str:
    """One line for a command line that is none: what is wrong with it, what was meant, where to look."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    ctx = error.ctx
    # click does not say whose option lacks its value.
    path = (
        ctx.command_path if ctx is not None else " ".join(["assay", *(word for word in argv[:1] if word in COMMANDS)])
    )
    if isinstance(error, click.NoSuchOption):
        known = [name for option in ctx.command.get_params(ctx) for name in option.opts] if ctx is not None else []
        text = f"no such option {error.option_name}{_nearest(error.option_name, known)}"
    elif (name := getattr(error, "command_name", None)) and ctx is not None and isinstance(ctx.command, click.Group):
        text = f"no such command {name}{_nearest(name, ctx.command.list_commands(ctx))}"
    else:
        # click quotes the names of options and arguments, too; a value stays in its quotes.
        text = re.sub(r"'(--?[a-z][\w-]*|[A-Z]+)'", r"\1", _one_line(error.format_message()).rstrip("."))
        text = re.sub(r"a valid integer( range)?", "a whole number", text[:1].lower() + text[1:])
        text = re.sub(r"'([^']{60})[^']{20,}'", r"'\1…'", text)
    return _one_line(f"{path}: {text}{'' if text.endswith('?') else '.'} See {path} --help")


def _nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _unforeseen(error: Exception) -> int:
    """A bug, which must not look like "nothing passed"; but a name that is too long was given by the user."""
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        click.echo(f"assay: {_one_line(str(error.filename))[:80]}…: {error.strerror}", err=True)
        return ExitCode.REFUSED
    traceback.print_exception(error)
    return ExitCode.UNMEASURED


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - open for as long as the program is


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


if __name__ == "__main__":
    main()
