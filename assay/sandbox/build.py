"""Build an image once: content-addressed, under a lock that threads and processes share, with its log kept.

A recipe is all that may change what is in the image; its digest is the image's tag, so an image that is there is right
and is never built again. What belongs to the host and not to the image (proxy, CA bundle) is given to every stage of
the build and is no part of the digest.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import os
import re
import stat
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from assay.model.errors import BuildFailed, EngineError

if TYPE_CHECKING:
    from assay.sandbox.engine import Engine

Say = Callable[[str], None]
"""Is told one line of progress. The line may come from a build, so it is untrusted text."""

BUILD_SECONDS = 3600
"""Clock of one image."""
QUIET_SECONDS = 900
"""Clock of one step that prints nothing."""

LINE = 400
"""Longer lines are kept whole and told cut."""

# The builder colours what went to standard error.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NOISE = re.compile(r"--->|Removing intermediate|Step \d+/\d+ : (?!FROM|COPY|ADD|RUN)")
_SETTINGS = "/opt/assay/build"
_CA_VARIABLES = (
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "NPM_CONFIG_CAFILE",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy")
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


@dataclass(frozen=True)
class Recipe:
    """All that may change what is in an image.

    Attributes:
        title: The image as the user knows it.
        repository: What goes before the digest in the image's name.
        dockerfile: The Dockerfile's text.
        files: The rest of the context, as bytes.
        folder: The rest of the context, as paths on this machine.
        args: Build arguments.
        bases: Images that the Dockerfile is built on, by the name it uses, with their ids.
        labels: Labels beyond our own.
        network: `None` is the engine's default; `none` for a build that has nothing to fetch.
        hosted: Whether the build is given the host's CA bundle and proxy.
    """

    title: str
    repository: str
    dockerfile: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    folder: Mapping[str, Path] = field(default_factory=dict)
    args: Mapping[str, str] = field(default_factory=dict)
    bases: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    network: str | None = None
    hosted: bool = True

    @property
    def tag(self) -> str:
        """The image's name."""
        return f"{self.repository}:{self.digest()}"

    def digest(self) -> str:
        """Twelve hexadecimal digits that change with anything that may change the image."""
        total = hashlib.sha256()
        _feed(total, self.dockerfile, self.network or "")
        for name, value in (*sorted(self.args.items()), *sorted(self.bases.items())):
            _feed(total, name, value)
        for name, content in sorted(self.files.items()):
            _feed(total, name, hashlib.sha256(content).hexdigest())
        for name, path in sorted(self.folder.items()):
            _feed(total, name, _fingerprint(path))
        return total.hexdigest()[:12]


@dataclass(frozen=True)
class Host:
    """What of this machine a build needs and the image must not keep.

    Attributes:
        ca: The CA bundle's bytes, None if there is none.
        proxies: Proxy variables that are set.
    """

    ca: bytes | None
    proxies: Mapping[str, str]

    @classmethod
    def read(cls, bundle: Path | None = None) -> Host:
        """Find the CA bundle (the one given, `SSL_CERT_FILE`'s, else the system's) and the proxy variables."""
        path = ca_bundle(bundle)
        proxies = {name: os.environ[name] for name in _PROXIES if os.environ.get(name)}
        return cls(path.read_bytes() if path else None, proxies)


def ca_bundle(chosen: Path | None = None) -> Path | None:
    """The CA bundle that builds trust: the one given, `SSL_CERT_FILE`'s, else the system's."""
    named = os.environ.get("SSL_CERT_FILE")
    for path in (chosen, Path(named) if named else None, *map(Path, _BUNDLES)):
        if path is not None and path.is_file():
            return path
    return None


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
            _build(engine, recipe, host or Host(None, {}), _Telling(recipe.title, kept, say, log), seconds)
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


def folder_context(folder: Path, leave_out: tuple[str, ...] = ()) -> dict[str, Path]:
    """The files of a build context: what `.dockerignore` leaves, without the names in `leave_out`."""
    from docker.utils.build import exclude_paths

    ignore = folder / ".dockerignore"
    lines = ignore.read_text(encoding="utf-8", errors="surrogateescape").splitlines() if ignore.is_file() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    # The last pattern wins, so no line of the user's can bring ours back.
    names = exclude_paths(str(folder), [*patterns, *leave_out, ".dockerignore"])
    return {name: folder / name for name in names if name}


def base_images(dockerfile: str) -> list[str]:
    """Names of the images that a Dockerfile is built on: not its own stages, and none that a variable names."""
    stages: set[str] = {"scratch"}
    found: list[str] = []
    for _, words in _from_lines(dockerfile):
        if words is None:
            continue
        name = words[0]
        if name.lower() not in stages and "$" not in name and name not in found:
            found.append(name)
        if len(words) == 3 and words[1].lower() == "as":
            stages.add(words[2].lower())
    return found


def with_host_settings(dockerfile: str) -> str:
    """Let every stage of a Dockerfile see the CA bundle that lies in the context under `.assay/`.

    The variables are build arguments: in force for the stage's RUN lines, absent from the image. The bundle lies where
    installing Debian's ca-certificates does not overwrite it.
    """
    settings = [f"COPY .assay/ {_SETTINGS}/", f"ARG APT_CONFIG={_SETTINGS}/apt.conf"]
    settings += [f"ARG {name}={_SETTINGS}/ca.pem" for name in _CA_VARIABLES]
    lines: list[str] = []
    for line, words in _from_lines(dockerfile):
        lines.append(line)
        if words is not None and words[0].lower() != "scratch":
            lines += settings
    return "\n".join(lines) + "\n"


def _from_lines(dockerfile: str) -> Iterator[tuple[str, list[str] | None]]:
    """Every line; with the one that ends a FROM instruction, the instruction's words without its flags."""
    pending = ""
    for line in dockerfile.splitlines():
        if not pending and not re.match(r"\s*FROM\s", line, re.IGNORECASE):
            yield line, None
            continue
        text = line.rstrip()
        pending += f" {text.removesuffix(chr(92))}"
        if text.endswith("\\"):
            yield line, None
            continue
        words = [word for word in pending.split()[1:] if not word.startswith("--")]
        pending = ""
        yield line, words or None


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
            self.last = clean
            self.say(f"{self.title}: {clean}")

    def failed(self, reason: str) -> BuildFailed:
        """What to raise: the engine's word and the last thing that the build said."""
        words = " ".join(reason.split())
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
    ca = host.ca if recipe.hosted else None
    until = time.monotonic() + seconds
    telling.say(f"{recipe.title}: building {recipe.tag}")
    with _context(recipe, ca) as context, engine_words(f"build {recipe.title}"):
        stream = engine.api.build(
            fileobj=context,
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


@contextlib.contextmanager
def _context(recipe: Recipe, ca: bytes | None) -> Iterator[IO[bytes]]:
    """The context as a tar file, on disk when it is large."""
    files = dict(recipe.files)
    text = recipe.dockerfile.replace("@DIGEST@", recipe.digest())
    if ca is not None:
        text = with_host_settings(text)
        files[".assay/ca.pem"] = ca
        files[".assay/apt.conf"] = f'Acquire::https::CAInfo "{_SETTINGS}/ca.pem";\n'.encode()
    files["Dockerfile"] = text.encode()
    with tempfile.SpooledTemporaryFile(max_size=16 << 20) as spool:
        with tarfile.open(fileobj=spool, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name, path in sorted(recipe.folder.items()):
                if name not in files:
                    tar.add(path, name, recursive=False, filter=_as_root)
            for name, content in sorted(files.items()):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), 0o755 if content.startswith(b"#!") else 0o644
                tar.addfile(entry, io.BytesIO(content))
        spool.seek(0)
        yield spool


def _as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Ownership on this machine says nothing in the image; sockets and the like have no place in it."""
    if not (entry.isfile() or entry.isdir() or entry.issym() or entry.islnk()):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _feed(total: Any, *parts: str) -> None:
    """Add parts to a hash so that no two lists of parts feed the same bytes."""
    for part in parts:
        data = part.encode("utf-8", "surrogateescape")
        total.update(f"{len(data)}:".encode() + data)


def _fingerprint(path: Path) -> str:
    """Type, mode and content of one path; times do not count."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return f"link {path.readlink()}"
    mode = oct(stat.S_IMODE(found.st_mode))
    if stat.S_ISREG(found.st_mode):
        with path.open("rb") as file:
            return f"file {mode} {hashlib.file_digest(file, 'sha256').hexdigest()}"
    return f"{stat.S_IFMT(found.st_mode)} {mode}"
