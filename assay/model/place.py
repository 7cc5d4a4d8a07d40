"""Where a project is: the nearest folder upwards with an assay.toml. Light: every command may ask."""

from __future__ import annotations

from pathlib import Path

PROJECT_FILE = "assay.toml"


def find_root(start: Path | None = None) -> Path:
    """The folder of the nearest assay.toml at or above `start` (default: the current folder), else `start` itself."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder
    return here


def as_named(path: Path) -> Path:
    """A path as the user would name it: from the current folder where it lies below, else absolute."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
