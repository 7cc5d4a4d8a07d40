"""The images that runs and checkers are made of."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from assay.sandbox.base import BASE, ensure_image
from assay.sandbox.build import Host, Recipe, Say, build_once

if TYPE_CHECKING:
    from assay.sandbox.engine import Engine


def silent(_line: str) -> None:
    """Tell nobody."""


def ensure_environment(engine: Engine, base: str = BASE, say: Say = silent, ca: Path | None = None) -> str:
    """The id of the image that a plain task and its checker run in; got or built where missing.

    Raises:
        BuildFailed: The base image cannot be got, or the build failed.
        EngineError: The engine failed.
    """
    recipe = Recipe(
        title="environment",
        repository="assay-env",
        dockerfile=_ours("environment.Dockerfile").decode(),
        files={"user.sh": _ours("user.sh")},
        args={"BASE": ensure_image(engine, base, say, make=True)},
    )
    return build_once(engine, recipe, say, Host.read(ca))


def _ours(name: str) -> bytes:
    """A file that is shipped beside this module."""
    return (files("assay.sandbox") / "image_files" / name).read_bytes()
