"""What all tests share: the project fixture, the order they run in, the check that none leaves a container behind."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.order import Spread, place
from tests.project import Project, clean_environment, forget_snapshots, leftovers

if TYPE_CHECKING:
    from xdist.remote import Producer

MakeProject = Callable[..., Project]

# In the background of a shell, or under nohup, they are ignored; the commands under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# On a busy machine, how long an example takes says nothing of what is tested.
settings.register_profile("assay", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("assay")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: whatever is last then takes seconds, and no worker waits long for the others."""
    items.sort(key=lambda item: place(item.nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Spread | None:
    """With `--dist loadscope`, our own way to share the tests out."""
    return Spread(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.fixture(scope="session")
def _projects_on_the_engine() -> Iterator[dict[Path, str]]:
    """Projects of tests that use the engine; at the end none of them may have left a container."""
    roots: dict[Path, str] = {}
    yield roots
    left = leftovers(roots) if roots else {}
    assert not left, f"containers left behind by their tests: {left}"


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MakeProject]:
    """Make a project: `project({"tasks/foo/prompt.md": "…"}).run("run", …)`."""
    with _making(tmp_path, request) as make:
        yield make


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[MakeProject]:
    """The same for what a file's tests share: a run that is dear, and that several of them only look at."""
    with _making(tmp_path_factory.mktemp("shared"), request) as make:
        yield make


@contextlib.contextmanager
def _making(folder: Path, request: pytest.FixtureRequest) -> Iterator[MakeProject]:
    made: list[Project] = []
    roots: dict[Path, str] = {}
    if request.node.get_closest_marker("docker"):
        roots = request.getfixturevalue("_projects_on_the_engine")

    def make(files: Mapping[str, str | bytes] | None = None, *samples: str) -> Project:
        number = f"-{len(made)}" if made else ""
        home = folder / f"home{number}"
        root = folder / f"project{number}"
        home.mkdir()
        root.mkdir()
        here = Project(root.resolve(), clean_environment(home))
        here.write({"assay.toml": "", **(files or {})})
        here.sample(*samples)
        made.append(here)
        roots[here.root] = request.node.nodeid
        return here

    yield make
    for here in made:
        here.close()
        if request.node.get_closest_marker("docker"):
            forget_snapshots(here)
