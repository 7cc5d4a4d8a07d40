"""The project of the recovery tests; whatever snapshots its runs leave are removed with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.project import Project
from tests.recover.drip import drip_files, forget_snapshots, with_key

MakeDrip = Callable[..., Project]


@pytest.fixture
def drip(project: Callable[..., Project]) -> Iterator[MakeDrip]:
    """Make a project whose agent is drip: `drip("steps=5\\n")`."""
    made: list[Project] = []

    def make(settings: str = "steps=10\ndelay=0.05\n", **files: str) -> Project:
        here = with_key(project(drip_files(settings, **files)))
        made.append(here)
        return here

    yield make
    for here in made:
        forget_snapshots(here)


@pytest.fixture
def hello(project: Callable[..., Project]) -> Iterator[Project]:
    """A project with the sample task hello."""
    here = project({}, "hello")
    yield here
    forget_snapshots(here)
