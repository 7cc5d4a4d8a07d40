"""An engine, and images of a test's own that go when it ends."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import docker.errors
import pytest

from assay.sandbox.engine import Engine


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine that the environment names; without one these tests fail."""
    return Engine.connect()


@pytest.fixture
def mark(engine: Engine) -> Iterator[str]:
    """A word that no other test uses; images whose title holds it are removed at the end."""
    word = f"t{uuid.uuid4().hex[:10]}"
    yield word
    for _ in range(2):
        # What is laid over another image goes first, so a second round takes what the first had to leave.
        for image in engine.api.images(filters={"label": "assay"}):
            if word in (image["Labels"] or {}).get("assay.title", ""):
                for tag in _names(image):
                    try:
                        engine.api.remove_image(tag, noprune=False)
                    except docker.errors.APIError as error:
                        if error.status_code not in (404, 409):
                            raise


def _names(image: dict[str, Any]) -> list[str]:
    """What an image is removed by: each of its names, or its id if it has none."""
    return [tag for tag in image["RepoTags"] or [] if tag != "<none>:<none>"] or [image["Id"]]
