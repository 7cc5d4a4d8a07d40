"""Note down in a project's agents.toml where a CLI came from, with every other byte of the file left as it is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from assay.model.errors import ConfigError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TEXT = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""


def record(file: Path, agent: str, keys: Mapping[str, str], version: str | None = None) -> None:
    """Set keys of `[agents.AGENT.install]` in a file, which is made if there is none; whole or not at all.

    Args:
        file: The project's agents.toml.
        agent: Name of the entry.
        keys: What to set.
        version: Set as the entry's own `version`; None leaves it.

    Raises:
        ConfigError: It cannot be written, or is laid out in a way that this does not understand.
    """
    from assay.model.toml import parse_toml
    from assay.run.record import write_atomic

    try:
        # A link stays one: what it points to is written.
        target = file.resolve()
        with _alone(target.parent):
            raw = target.read_bytes() if target.exists() else b""
            parse_toml(raw, file)
            new = with_keys(raw.decode(), agent, keys, version)
            if new is None:
                lines = "; ".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
                lines += f"; and version = {json.dumps(version)} to agents.{agent}" if version else ""
                raise ConfigError(file, f"agents.{agent}.install", f"cannot be added to as it is laid out; add {lines}")
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
            write_atomic(target, new.encode(), mode)
            target.chmod(mode)
    except OSError as error:
        raise ConfigError(file, "", f"cannot be written: {(error.strerror or str(error)).lower()}") from None


def with_keys(text: str, agent: str, keys: Mapping[str, str], version: str | None = None) -> str | None:
    """TOML text with keys of `[agents.AGENT.install]` set and nothing else changed; None if there is no such way."""
    entry = ("agents", agent)
    wanted: list[tuple[tuple[str, ...], str, str]] = [(entry, "version", version)] if version is not None else []
    # The last comes first, since each that is new goes right below the header.
    wanted += [((*entry, "install"), key, value) for key, value in reversed(list(keys.items()))]
    for table, key, value in wanted:
        said = tomllib.loads(text)
        into = said
        for part in table:
            into = into.setdefault(part, {})
        into[key] = value
        found = next((new for new in _ways(text, table, key, value) if _means(new, said)), None)
        if found is None:
            return None
        text = found
    return text


def _means(text: str, wanted: Mapping[str, object]) -> bool:
    """Whether a text says just that: a way that hits the wrong line, say inside a string, shows here."""
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _ways(text: str, table: tuple[str, ...], key: str, value: str) -> Iterator[str]:
    """Texts in which the key may be set: its value replaced, a line below a header, a table at the end."""
    end = "\r\n" if "\r\n" in text else "\n"
    line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
    for match in re.finditer(rf"^[ \t]*(?:[^=#\n]*\.[ \t]*)?{key}[ \t]*=[ \t]*({_TEXT})", text, re.MULTILINE):
        yield f"{text[: match.start(1)]}{json.dumps(value, ensure_ascii=False)}{text[match.end(1) :]}"
    yield from _below(text, table, line, end)
    gap = "" if not text else end if text.endswith("\n") else end * 2
    name = ".".join(part if _BARE.fullmatch(part) else json.dumps(part) for part in table)
    yield f"{text}{gap}[{name}]{end}{line}{end}"
    yield from _below(text, table[:-1], f"{table[-1]}.{line}", end)


def _below(text: str, table: tuple[str, ...], line: str, end: str) -> Iterator[str]:
    """Texts with a line below each header of a table."""
    words = r"[ \t]*\.[ \t]*".join(rf"""["']?{re.escape(word)}["']?""" for word in table)
    for match in re.finditer(rf"^[ \t]*\[[ \t]*{words}[ \t]*\][^\n]*(\n|\Z)", text, re.MULTILINE):
        yield f"{text[: match.start(1)]}{match[1] or end}{line}{end}{text[match.end() :]}"


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, so that of two builds none takes the other's lines away."""
    number = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
