"""Fixtures of the rehearsal's tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay.sandbox.engine import Engine
from assay.sandbox.images import ensure_environment
from tests.rehearsal.loopback import Server

Serve = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start servers on loopback: `serve('[[turn]]…')`. None of them may have complained."""
    servers: list[Server] = []
    with contextlib.ExitStack() as stack:

        def start(script: str, **options: object) -> Server:
            folder = tmp_path / f"server{len(servers)}"
            folder.mkdir()
            server = stack.enter_context(Server(folder, script, **options))  # type: ignore[arg-type]
            servers.append(server)
            return server

        yield start
    for server in servers:
        assert server.said == ""
        assert server.complained == ""


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine that the environment names; without one these tests fail."""
    return Engine.connect()


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    """An image with python3."""
    return ensure_environment(engine)
