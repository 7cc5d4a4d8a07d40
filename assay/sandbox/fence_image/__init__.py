"""The fence's image: its Dockerfile, and the programs that run in its containers.

They are plain modules with the standard library alone, and share `assay.sandbox.rules` with this side.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.sandbox.build import Say
    from assay.sandbox.engine import Engine
    from assay.sandbox.recipe import Host, Recipe

PROGRAMS = ("entry", "firewall", "forward", "gate", "inject", "legacy", "names", "nflog", "sidecar", "tally", "tunnel")
PACKAGES = ("assay", "assay/sandbox", "assay/sandbox/fence_image")


def context() -> dict[str, bytes]:
    """The files of the build, beside the Dockerfile."""
    here, room = files("assay.sandbox.fence_image"), files("assay.sandbox")
    return {
        "requirements.txt": (here / "requirements.txt").read_bytes(),
        "start.py": b"from assay.sandbox.fence_image.entry import main\n\nmain()\n",
        "assay/sandbox/rules.py": (room / "rules.py").read_bytes(),
        **{f"{package}/__init__.py": b"" for package in PACKAGES},
        **{f"{PACKAGES[-1]}/{name}.py": (here / f"{name}.py").read_bytes() for name in PROGRAMS},
    }


def recipe(base: str) -> Recipe:
    """What the image is made of, on the base image of this id."""
    from assay.sandbox.base import BASE
    from assay.sandbox.recipe import Recipe

    text = (files("assay.sandbox.fence_image") / "Dockerfile").read_text(encoding="utf-8")
    return Recipe("the fence", "assay-fence", text, context(), args={"BASE": BASE}, bases={BASE: base})


def ensure(engine: Engine, say: Say, host: Host | None = None) -> str:
    """The image's id; it is built unless it is there.

    Raises:
        BuildFailed: It could not be built; carries the log's path.
    """
    from assay.sandbox.base import BASE, ensure_image
    from assay.sandbox.build import build_once

    return build_once(engine, recipe(ensure_image(engine, BASE, say, make=True)), say, host)
