"""The base image: the engine's own, else pulled, else made from Debian's packages."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from assay.model.errors import BuildFailed, EngineError
from assay.sandbox.build import Say, cache_folder, engine_words, only_one, printable, pull_line

if TYPE_CHECKING:
    from assay.sandbox.engine import Engine

BASE = "debian:bookworm-slim"
"""What the environment image is built on unless assay.toml says otherwise."""

PULL_SECONDS = 900
MAKE_SECONDS = 1800
_LEFT_OUT = ("./var/cache/apt/*", "./var/lib/apt/lists/*", "./usr/share/doc/*", "./usr/share/man/*", "./var/log/*")


def ensure_image(engine: Engine, name: str, say: Say, *, make: bool = False) -> str:
    """The id of a named image: the engine's own, else pulled; with `make`, else made with debootstrap.

    Raises:
        BuildFailed: It is not there and cannot be got; the message says what to do.
        EngineError: The engine failed.
    """
    if there := engine.image(name):
        return str(there["Id"])
    with only_one(re.sub(r"[^A-Za-z0-9.]+", "-", name), name, say, MAKE_SECONDS):
        if engine.image(name) is None:
            try:
                _pull(engine, name, say)
            except EngineError as error:
                if not make:
                    raise BuildFailed(name, f"it is not on the engine and could not be pulled ({error})") from error
                _make(engine, name, say, str(error))
        there = engine.image(name)
    if there is None:
        raise BuildFailed(name, "the engine has no such image after getting it")
    return str(there["Id"])


def _pull(engine: Engine, name: str, say: Say) -> None:
    """Pull an image within its clock."""
    until = time.monotonic() + PULL_SECONDS
    say(f"{name}: pulling")
    last_colon = name.rfind(":")
    tagged = last_colon > name.rfind("/") or "@" in name
    with engine_words(f"pull {name}"):
        stream = engine.api.pull(name if tagged else f"{name}:latest", stream=True, decode=True)
        with contextlib.closing(stream):
            for part in stream:
                if "error" in part:
                    msg = printable(str(part["error"]))
                    raise EngineError(msg)
                if line := pull_line(part).strip():
                    say(f"{name}: {line}")
                if time.monotonic() > until:
                    msg = f"pulling {name} was not done after {PULL_SECONDS} s"
                    raise EngineError(msg)


def _make(engine: Engine, name: str, say: Say, why: str) -> None:
    """Make a Debian base image from packages, where no image registry answers.

    Raises:
        BuildFailed: This machine cannot; the message says what to do.
    """
    match = re.fullmatch(r"(?:docker\.io/)?(?:library/)?debian:([a-z]+)(?:-slim)?", name)
    if match is None:
        raise BuildFailed(name, f"it could not be pulled ({why}), and only debian:<suite> can be made from packages")
    tool = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if os.geteuid() != 0 or tool is None:
        remedy = "as root: apt-get install debootstrap" if tool is None else "run this once as root"
        raise BuildFailed(name, f"it could not be pulled ({why}); to make it from Debian's packages, {remedy}")
    suite = match[1]
    log = cache_folder("builds") / f"{suite}-debootstrap.log"
    say(f"{name}: no image registry answers, making it from Debian's packages")
    # Not below /tmp: it may be small, or mounted without devices.
    with tempfile.TemporaryDirectory(prefix="assay-", dir="/var/tmp") as scratch:
        root = Path(scratch) / "root"
        _bootstrap([tool, "--variant=minbase", suite, str(root)], name, say, log)
        _finish(root, suite)
        _import(engine, root, name)


def _bootstrap(argv: list[str], name: str, say: Say, log: Path) -> None:
    """Run debootstrap within its clock, telling its lines and keeping them."""
    last = ""
    with (
        log.open("w", encoding="utf-8", errors="replace") as kept,
        subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
        ) as process,
    ):
        assert process.stdout is not None  # noqa: S101
        clock = threading.Timer(MAKE_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        clock.start()
        try:
            for line in process.stdout:
                kept.write(line)
                last = line.strip() or last
                say(f"{name}: {last}")
            process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            clock.cancel()
    if process.returncode:
        how = f"was not done after {MAKE_SECONDS} s" if process.returncode < 0 else f"exited with {process.returncode}"
        raise BuildFailed(name, f"debootstrap {how}: {printable(last)}", log)


def _finish(root: Path, suite: str) -> None:
    """What Debian's own image has beyond debootstrap: updates, and no daemon started by an installation."""
    sources = root / "etc/apt/sources.list"
    # The tool's own mirror, as it wrote it down.
    mirror = sources.read_text("utf-8").split()[1].rstrip("/")
    sources.write_text(
        f"deb {mirror} {suite} main\ndeb {mirror} {suite}-updates main\ndeb {mirror}-security {suite}-security main\n"
    )
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    (root / "etc/apt/apt.conf.d/docker-clean").write_text(
        'Dir::Cache::pkgcache "";\nDir::Cache::srcpkgcache "";\nAcquire::Languages "none";\n'
    )
    (root / "etc/hostname").unlink(missing_ok=True)
    (root / "etc/resolv.conf").unlink(missing_ok=True)


def _import(engine: Engine, root: Path, name: str) -> None:
    """Stream a root file system into the engine as an image."""
    repository, _, tag = name.partition(":")
    argv = ["tar", "--numeric-owner", *(f"--exclude={pattern}" for pattern in _LEFT_OUT), "-C", str(root), "-c", "."]
    with (
        subprocess.Popen(argv, stdout=subprocess.PIPE) as tar,
        engine_words(f"import {name}"),
    ):
        assert tar.stdout is not None  # noqa: S101
        engine.api.import_image_from_stream(
            _chunks(tar.stdout),
            repository=repository,
            tag=tag,
            changes=['CMD ["bash"]', "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        )
    if tar.returncode:
        raise BuildFailed(name, f"tar exited with {tar.returncode}")


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    """A file in pieces of one megabyte."""
    while piece := file.read(1 << 20):
        yield piece
