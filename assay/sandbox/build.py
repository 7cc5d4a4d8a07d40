"""Build an image once: content-addressed, under a lock that threads and processes share, with its log kept.

An image's tag is the digest of its recipe, so an image that is there is right and is never built again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from assay.model.errors import BuildFailed, EngineError
from assay.sandbox.recipe import Host, Recipe, context, host_settings

if TYPE_CHECKING:
    from assay.sandbox.engine import Engine

Say = Callable[[str], None]
"""Is told one line of progress. The line may come from a build, so it is untrusted text."""

BUILD_SECONDS = 3600
"""Clock of one image."""
QUIET_SECONDS = 900
"""Clock of one step that prints nothing."""

TRIES = 3
"""How often a build is begun again that went on from a step of another one, and that one's image was removed."""

LINE = 400
"""Longer lines are kept whole and told cut."""

# The builder colours what went to standard error.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_EXITED = re.compile(r"The command '.*' returned a non-zero code: (\d+)")
# Of the classic builder (Docker 20.10); it looks a cached step up, and uses it later.
_GONE = "unknown parent image ID"
_NOISE = re.compile(r"--->|Removing intermediate|Step \d+/\d+ : (?!FROM|COPY|ADD|RUN)")


def build_once(
    engine: Engine,
    recipe: Recipe,
    say: Say,
    host: Host | None = None,
    *,
    first: Callable[[], object] = lambda: None,
    seconds: float = BUILD_SECONDS,
) -> str:
    """The id of the recipe's image, which is built unless it is there; whoever comes second waits.

    Args:
        engine: Where to build.
        recipe: What to build.
        say: Is told the progress.
        host: What of this machine the build needs.
        first: Called only when there is something to build, before it: makes what the recipe is built on.
        seconds: Clock of the build.

    Raises:
        BuildFailed: The build failed or ran out of its clock; carries the log's path.
        EngineError: The engine failed.
    """
    tag = recipe.tag
    if there := engine.image(tag):
        return str(there["Id"])
    file_name = tag.replace("/", "_").replace(":", "-")
    with only_one(file_name, recipe.title, say, seconds):
        if there := engine.image(tag):
            return str(there["Id"])
        first()
        log = cache_folder("builds") / f"{file_name}.log"
        with log.open("wb") as kept:
            telling = _Telling(recipe.title, kept, say, log)
            for left in reversed(range(TRIES)):
                try:
                    _build(engine, recipe, host or Host(None, {}), telling, seconds)
                    break
                except BuildFailed as error:
                    if not left or _GONE not in str(error):
                        raise
        built = engine.image(tag)
        if built is None:
            raise BuildFailed(recipe.title, "the engine reported success but has no such image", log)
        return str(built["Id"])


def cache_folder(name: str) -> Path:
    """A folder of ours in the user's cache (`$XDG_CACHE_HOME/assay`, else `~/.cache/assay`)."""
    root = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(root) if root else Path.home() / ".cache") / "assay" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def only_one(name: str, title: str, say: Say, seconds: float) -> Iterator[None]:
    """Hold a lock that no other thread or process of this user holds; the kernel frees it if its holder dies.

    Raises:
        BuildFailed: Another one still held it after `seconds`.
    """
    until = time.monotonic() + seconds
    told = False
    with (cache_folder("locks") / f"{name}.lock").open("wb") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    msg = f"another build of it has held the lock {handle.name} for {seconds:.0f} s"
                    raise BuildFailed(title, msg) from None
                if not told:
                    say(f"{title}: another run is building it, waiting")
                    told = True
                time.sleep(0.1)
        yield


class _Telling:
    """Keeps a build's output and tells it line by line."""

    def __init__(self, title: str, kept: IO[bytes], say: Say, path: Path) -> None:
        self.title, self.kept, self.say, self.path = title, kept, say, path
        self.last = ""
        self.rest = ""

    def text(self, text: str) -> None:
        """A piece of output, not always a whole line."""
        self.kept.write(text.encode("utf-8", "surrogatepass"))
        *whole, self.rest = (self.rest + text).split("\n")
        for line in whole:
            self.line(line)

    def line(self, line: str) -> None:
        """One line; empty ones and what the builder says of itself are kept but not told."""
        clean = _COLOUR.sub("", line).rsplit("\r", maxsplit=1)[-1].strip()[:LINE]
        if clean and not _NOISE.match(clean):
            # A shell that shows its commands shows the last one after what it said.
            self.last = self.last if clean.startswith("+ ") else clean
            self.say(f"{self.title}: {clean}")

    def failed(self, reason: str) -> BuildFailed:
        """What to raise: the engine's word and the last thing that the build said."""
        words = " ".join(reason.split())
        # The engine repeats the whole command, which the log has already.
        if match := _EXITED.fullmatch(words):
            words = f"a step exited with {match[1]}"
        said = self.last if self.last and self.last not in words else ""
        self.kept.write(f"\n{words}\n".encode("utf-8", "replace"))
        return BuildFailed(self.title, printable(f"{words}: {said}" if said else words)[:600], self.path)


def printable(text: str) -> str:
    """The text without characters that a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in text)


def _build(engine: Engine, recipe: Recipe, host: Host, telling: _Telling, seconds: float) -> None:
    """Send the context and follow the build to its end.

    Only the classic builder is asked for: every engine has it, and it needs neither a client program nor a session.
    """
    settings = None
    if recipe.hosted and host.ca is not None:
        bundle = host_settings(host.ca)
        build_once(engine, bundle, telling.say)
        settings = bundle.tag
    until = time.monotonic() + seconds
    telling.say(f"{recipe.title}: building {recipe.tag}")
    with context(recipe, settings) as tar, engine_words(f"build {recipe.title}"):
        stream = engine.api.build(
            fileobj=tar,
            custom_context=True,
            tag=recipe.tag,
            buildargs={**(host.proxies if recipe.hosted else {}), **recipe.args},
            labels={"assay": "1", "assay.title": recipe.title, **recipe.labels},
            network_mode=recipe.network,
            rm=True,
            forcerm=True,
            decode=True,
            timeout=QUIET_SECONDS,
        )
        with contextlib.closing(stream):
            for part in stream:
                if "error" in part:
                    raise telling.failed(str(part["error"]))
                telling.text(str(part.get("stream", "")) or pull_line(part))
                if time.monotonic() > until:
                    reason = f"not done after {seconds:.0f} s"
                    raise telling.failed(reason)


def pull_line(part: Mapping[str, Any]) -> str:
    """One line of a pull's progress, empty for its many progress bars."""
    if "status" not in part or part.get("progressDetail"):
        return ""
    name = f"{part['id']}: " if part.get("id") else ""
    return f"{name}{part['status']}\n"


@contextlib.contextmanager
def engine_words(verb: str) -> Iterator[None]:
    """Turn whatever the SDK raises into an EngineError that names what was tried."""
    import docker.errors
    import requests.exceptions
    import urllib3.exceptions

    try:
        yield
    except (
        docker.errors.DockerException,
        requests.exceptions.RequestException,
        urllib3.exceptions.HTTPError,
        OSError,
    ) as error:
        text = getattr(error, "explanation", None) or str(error)
        msg = f"the Docker Engine could not {verb}: {printable(' '.join(str(text).split()))[:400]}"
        raise EngineError(msg) from error
