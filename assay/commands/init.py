"""`assay init`: a project and a task that work, written without overwriting anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

FILES = "init_files"
RENAMED = {"gitignore": ".gitignore"}


@click.command("init")
@click.argument("directory", default=".", type=click.Path(path_type=Path))
def command(directory: Path) -> None:
    """Write a project and a first task in DIRECTORY (default: here). A file that is there already is kept.

    \b
    Examples:
      assay init
      assay init my-tasks
    """  # noqa: D301 - click's own mark, which keeps lines as they are
    from importlib import resources

    from assay.model.errors import UsageError

    files = list(_tree(resources.files("assay.commands") / FILES))
    for name, _ in files:
        for folder in (directory / name).parents:
            if folder.exists() and not folder.is_dir():
                msg = f"{folder}: is a file, but a folder is needed there; nothing was written"
                raise UsageError(msg)
    for name, file in files:
        target = directory / name
        try:
            written = _write_new(target, file.read_bytes())
        except OSError as error:
            msg = f"{target}: cannot be written: {(error.strerror or str(error)).lower()}"
            raise UsageError(msg) from None
        click.echo(f"{'written' if written else 'kept':8} {target}")
    enter = "" if directory == Path() else f"cd {directory} && "
    click.echo(
        f"\nNext, the real CLI against a script, without a key:\n  {enter}assay run tasks/count-lines --stage rehearse"
    )


def _write_new(target: Path, content: bytes) -> bool:
    """Write a file that is not there yet; False if something is."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with target.open("xb") as out:
            out.write(content)
    except FileExistsError:
        return False
    if target.suffix == ".sh":
        target.chmod(0o755)
    return True


def _tree(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _tree(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + RENAMED.get(entry.name, entry.name), entry
