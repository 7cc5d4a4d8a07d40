"""Which runs a listing is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from assay.commands import completion

Run = Mapping[str, Any]
Command = TypeVar("Command", bound=Callable[..., Any])


def selecting(command: Command) -> Command:
    """The options of a command that lists runs; what they hold is for `selected`."""
    options = {
        "--task": ("TASK", completion.tasks, "Only of this task: its name or its folder."),
        "--stage": ("NAME", completion.stages, "Only of this stage."),
        "--agent": ("NAME", completion.agents, "Only of this agent."),
    }
    for option, (metavar, known, words) in reversed(options.items()):
        command = click.option(option, metavar=metavar, shell_complete=known, multiple=True, help=words)(command)
    return command


def selected(runs: Path, filters: Mapping[str, Iterable[str]]) -> Iterator[dict[str, Any]]:
    """Kept runs, oldest first, that fit every filter.

    Args:
        runs: Where run directories are.
        filters: Key of the record to the values that fit, any of them; an empty one lets everything through.
    """
    from assay.run.find import all_runs

    tests = [_test(key, tuple(values)) for key, values in filters.items() if values]
    for run in all_runs(runs):
        if all(test(run) for test in tests):
            yield run


def _test(key: str, values: tuple[str, ...]) -> Callable[[Run], bool]:
    if key == "task":
        tasks = {_task(value) for value in values}
        return lambda run: (run.get("task"), None) in tasks or (None, run.get("task_path")) in tasks
    return lambda run: run.get(key) in values


def _task(value: str) -> tuple[str | None, str | None]:
    """A task's name, or the folder it is in."""
    path = Path(value)
    if len(path.parts) > 1 or path.is_absolute():
        return (None, str(path.resolve()))
    return (value, None)
