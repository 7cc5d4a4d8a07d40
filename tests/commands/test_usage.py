"""A command line that is none is answered in one line: what is wrong, what was meant, where to look."""

from __future__ import annotations

import click
import pytest

from tests.commands.test_help import ALL
from tests.conftest import MakeProject

ONE_LINE = {
    "run --stge x": "assay run: no such option --stge; did you mean --stage? See assay run --help",
    "run -z": "assay run: no such option -z. See assay run --help",
    "run --stage": "assay run: option --stage requires an argument. See assay run --help",
    "run --dry-run=yes": "assay run: option --dry-run does not take a value. See assay run --help",
    "run --jobs many t": "assay run: invalid value for --jobs: 'many' is not a whole number. See assay run --help",
    "grade": "assay grade: missing argument RUN. See assay grade --help",
    "doctor x y": "assay doctor: got unexpected extra arguments (x y). See assay doctor --help",
    "rn": "assay: no such command rn; did you mean run? See assay --help",
    "zzz": "assay: no such command zzz. See assay --help",
    "--xyz": "assay: no such option --xyz. See assay --help",
    "mcp inti": "assay mcp: no such command inti; did you mean init? See assay mcp --help",
    "mcp init --frce": "assay mcp init: no such option --frce; did you mean --force? See assay mcp init --help",
}


@pytest.mark.parametrize("line", ONE_LINE)
def test_what_is_said(project: MakeProject, line: str) -> None:
    out = project({}).run(*line.split())
    out.assert_refused()
    assert out.err.splitlines()[-1] == ONE_LINE[line]


@pytest.mark.parametrize("name", ALL)
def test_every_command_refuses_an_option_that_is_not_there(project: MakeProject, name: str) -> None:
    """The nearest of its own options is told, and its own help named."""
    known = [option for parameter in ALL[name].params for option in parameter.opts if option.startswith("--")]
    typed = known[0][:-1] + "xx" if known else "--x"
    out = project({}).run(*name.split(), typed).assert_refused(f"assay {name}: no such option {typed}")
    assert out.err.rstrip().endswith(f" See assay {name} --help")
    assert not known or "; did you mean --" in out.err


CHOICES = [
    (name, parameter.opts[-1], parameter.type)
    for name, command in ALL.items()
    for parameter in command.params
    if isinstance(parameter.type, click.Choice)
]


@pytest.mark.parametrize(("name", "option", "choice"), CHOICES)
def test_every_choice_tells_what_there_is(
    project: MakeProject, name: str, option: str, choice: click.Choice[str]
) -> None:
    out = project({}).run(*name.split(), option, "no-such-choice")
    out.assert_refused(f"assay {name}: invalid value for ", *map(str, choice.choices))


def test_no_command_at_all_is_shown_the_way(project: MakeProject) -> None:
    out = project({}).run().assert_code(2)
    assert "Usage: assay [OPTIONS] COMMAND" in out.out + out.err
