"""The project of the recovery tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.project import Project
from tests.recover.drip import drip_files, with_key

MakeDrip = Callable[..., Project]


@pytest.fixture
def drip(project: Callable[..., Project]) -> MakeDrip:
    """Make a project whose agent is drip: `drip("steps=5\\n")`."""

    def make(settings: str = "steps=10\ndelay=0.05\n", **files: str) -> Project:
        return with_key(project(drip_files(settings, **files)))

    return make


@pytest.fixture
def hello(project: Callable[..., Project]) -> Project:
    """A project with the sample task hello."""
    return project({}, "hello")
