"""What a shell can complete: names of stages, agents, runs and tasks. Light: only TOML is read, nothing is checked.

eval "$(_ASSAY_COMPLETE=bash_source assay)"      zsh_source, fish_source
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.model.place import PROJECT_FILE, find_root

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

NEWEST = 50
"""Runs that are offered where nothing was typed yet."""


def stages(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Stages of the project's assay.toml."""
    return _items(_table(find_root() / PROJECT_FILE, "stage"), incomplete)


def agents(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Entries of both registries, and the built-in agents."""
    return _items([*_agents(), "oracle", "nop", "script"], incomplete)


def models(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Models that the agent lists."""
    return _items(_agents().get(ctx.params.get("agent") or "", {}).get("models", {}), incomplete)


def efforts(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Levels that the agent accepts."""
    entry = _agents().get(ctx.params.get("agent") or "", {})
    model = entry.get("models", {}).get(ctx.params.get("model") or "", {})
    return _items(model.get("efforts", entry.get("efforts", [])), incomplete)


def runs(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of kept runs, the newest first."""
    from assay.run.find import run_names

    names = reversed(run_names(find_root() / "runs"))
    return _items(["last", *names], incomplete)[:NEWEST]


def tasks(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders with a prompt.md; and any folder, on the way to one."""
    from click.shell_completion import CompletionItem

    typed = Path(incomplete)
    folder = typed if incomplete.endswith("/") or not incomplete else typed.parent
    try:
        found = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    except OSError:
        return []
    shown = [str(path) if (path / "prompt.md").exists() else f"{path}/" for path in found]
    return [CompletionItem(name) for name in shown if name.startswith(incomplete)]


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _agents() -> dict[str, Any]:
    """Entries as they are written, a project's laid over ours by name alone."""
    package = Path(__file__).parent.parent
    own = find_root() / "agents.toml"
    files = (package / "agents.toml", package.parent / "agents.toml", own)
    return {name: entry for file in files for name, entry in _table(file, "agents").items()}


def _table(file: Path, name: str) -> dict[str, Any]:
    try:
        found = tomllib.loads(file.read_text("utf-8")).get(name, {})
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
