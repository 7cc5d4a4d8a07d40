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

    for name, file in _tree(resources.files("assay.commands") / FILES):
        target = directory / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as out:
                out.write(file.read_bytes())
            if target.suffix == ".sh":
                target.chmod(0o755)
        except FileExistsError:
            if not target.parent.is_dir():
                msg = f"{target.parent}: is not a folder, so {target.name} cannot be written into it"
                raise UsageError(msg) from None
            click.echo(f"kept     {target}")
            continue
        except OSError as error:
            msg = f"{target}: cannot be written: {(error.strerror or str(error)).lower()}"
            raise UsageError(msg) from None
        click.echo(f"written  {target}")
    enter = "" if directory == Path() else f"cd {directory} && "
    click.echo(
        f"\nNext, the real CLI against a script, without a key:\n  {enter}assay run tasks/count-lines --stage rehearse"
    )


def _tree(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _tree(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + RENAMED.get(entry.name, entry.name), entry
