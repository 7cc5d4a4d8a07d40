"""Fixtures of the rehearsal's tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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
