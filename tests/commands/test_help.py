"""What every command says of itself."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import takewhile

import click
import pytest

from assay.cli import COMMANDS, door


def every_command() -> Iterator[tuple[str, click.Command]]:
    """Commands and the commands below them, by what is typed."""
    ctx = click.Context(door, info_name="assay")
    for name in COMMANDS:
        found = door.get_command(ctx, name)
        assert found is not None, name
        yield name, found
        if isinstance(found, click.Group):
            yield from ((f"{name} {below}", command) for below, command in found.commands.items())


ALL = dict(every_command())


def test_all_of_them_are_looked_at() -> None:
    assert {*COMMANDS, "mcp init", "agent init"} == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_help_has_examples_whose_options_are_there(name: str) -> None:
    """Each example is of this command, and its options are there."""
    command = ALL[name]
    ctx = click.Context(command, info_name=f"assay {name}", max_content_width=120)
    lines = command.get_help(ctx).splitlines()
    assert "Examples:" in [line.strip() for line in lines]
    begin = next(i for i, line in enumerate(lines) if line.strip() == "Examples:")
    examples = [line.strip() for line in lines[begin + 1 :] if f"assay {name}" in line]
    assert examples
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for example in examples:
        # What follows after a wide gap explains it; a pipe leads to another program.
        words = list(
            takewhile(lambda word: word != "|", shlex.split(example.partition(f"assay {name}")[2].split("  ")[0]))
        )
        below = isinstance(command, click.Group) and words and words[0] in command.commands
        if not below:
            assert {word for word in words if word.startswith("--") and " " not in word} <= known, example
