"""What goes into a build: all that may change the image, and what only this machine needs for building it.

A recipe's digest is its image's tag. Proxy and CA bundle belong to the host: every stage of a build is given them, the
image does not keep them, and they are no part of the digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from assay.model.errors import Refused

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
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy")
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
    def read(cls, extra: Path | None = None) -> Host:
        """The proxy variables, and the system's CA bundle with `extra` added to it.

        Raises:
            Refused: `extra` cannot be read.
        """
        parts = []
        if (path := ca_bundle()) is not None:
            parts.append(path.read_bytes())
        if extra is not None:
            try:
                parts.append(extra.read_bytes())
            except OSError as error:
                msg = f"the CA bundle {extra} cannot be read: {error.strerror}"
                raise Refused(msg) from None
        proxies = {name: os.environ[name] for name in PROXIES if os.environ.get(name)}
        return cls(b"\n".join(parts) or None, proxies)


def ca_bundle() -> Path | None:
    """The CA bundle of this machine: `SSL_CERT_FILE`'s, else the system's."""
    named = os.environ.get("SSL_CERT_FILE")
    for path in (Path(named) if named else None, *map(Path, _BUNDLES)):
        if path is not None and path.is_file():
            return path
    return None


def folder_context(folder: Path, leave_out: tuple[str, ...] = ()) -> dict[str, Path]:
    """The files of a build context: what `.dockerignore` leaves, without what is in `leave_out`."""
    from docker.utils.build import exclude_paths

    ignore = folder / ".dockerignore"
    lines = ignore.read_text(encoding="utf-8", errors="surrogateescape").splitlines() if ignore.is_file() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    # The last pattern wins, so no line of the user's can bring ours back.
    names = exclude_paths(str(folder), [*patterns, *leave_out])
    return {name: folder / name for name in names if name not in ("", "Dockerfile", ".dockerignore")}


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


def host_settings(ca: bytes) -> Recipe:
    """An image that holds the CA bundle for the stages of a build, which copy it from there.

    Not by way of the context, of which a Dockerfile may copy all.
    """
    files = {"ca.pem": ca, "apt.conf": f'Acquire::https::CAInfo "{_SETTINGS}/ca.pem";\n'.encode()}
    text = "FROM scratch\nCOPY ca.pem apt.conf /\n"
    return Recipe("this machine's authorities", "assay-host", text, files, network="none", hosted=False)


def with_host_settings(dockerfile: str, settings: str) -> str:
    """Let every stage of a Dockerfile see the CA bundle that lies in the image `settings`.

    The variables are build arguments: in force for the stage's RUN lines, absent from the image. The bundle lies where
    installing Debian's ca-certificates does not overwrite it.
    """
    added = [f"COPY --from={settings} / {_SETTINGS}/", f"ARG APT_CONFIG={_SETTINGS}/apt.conf"]
    added += [f"ARG {name}={_SETTINGS}/ca.pem" for name in _CA_VARIABLES]
    lines: list[str] = []
    for line, words in _from_lines(dockerfile):
        lines.append(line)
        if words is not None and words[0].lower() != "scratch":
            lines += added
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


@contextlib.contextmanager
def context(recipe: Recipe, settings: str | None) -> Iterator[IO[bytes]]:
    """The recipe's context as a tar file, on disk when it is large; `settings` is the image with the CA bundle."""
    text = recipe.dockerfile.replace("@DIGEST@", recipe.digest())
    if settings is not None:
        text = with_host_settings(text, settings)
    # The engine takes away what this lists once it has read it, so that no COPY sees our Dockerfile.
    ours = {"Dockerfile": text.encode(), ".dockerignore": b"Dockerfile\n.dockerignore\n"}
    files = {**recipe.files, **ours}
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
