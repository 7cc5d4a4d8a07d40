"""Where a CLI that is in no package registry came from: asked of the vendor once, what its entry says ever after."""

from __future__ import annotations

import io
import re
import shlex
import tarfile
import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from assay.model.errors import BuildFailed
from assay.sandbox.engine import Engine
from assay.sandbox.spec import NotThere, Spec

if TYPE_CHECKING:
    from assay.model.registry import Install

FILE = "pinned.toml"
"""What the install lines leave in $OUT: `source` and `sha512` of the archive that they used, and its `version`."""

_LIMIT = 8 << 10
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")
_SHA512 = re.compile(r"[0-9a-f]{128}")


def install_script(install: Install) -> bytes:
    """The install lines as a script; those of a CLI without a registry see $SOURCE and $SHA512, empty if unknown."""
    known = [f"SOURCE={shlex.quote(install.source)}", f"SHA512={shlex.quote(install.sha512)}"]
    return "\n".join([*([] if install.obtainable else known), *install.run, ""]).encode()


def read_pin(engine: Engine, image: str, title: str, path: str) -> dict[str, str] | None:
    """What the install lines left in an image, `version` only if they say it; None if they left nothing.

    Args:
        engine: Where the image is.
        image: Its id.
        title: As the user knows it.
        path: Of the file in the image.

    Raises:
        BuildFailed: The file says something else.
        EngineError: The engine failed.
    """
    probe = engine.create(Spec(image=image, argv=["/"], name="", labels={}))
    try:
        stat, stream = engine.get(probe, path)
        with stream:
            if stat.is_dir or stat.link or stat.size > _LIMIT:
                raise BuildFailed(title, f"{path} is no small file")
            packed = b"".join(stream)
    except NotThere:
        return None
    finally:
        engine.remove(probe)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        member = tar.next()
        file = tar.extractfile(member) if member is not None else None
        raw = file.read() if file is not None else b""
    return _checked(raw, title, path)


def _checked(raw: bytes, title: str, path: str) -> dict[str, str]:
    """The values, as strictly as whatever comes out of a container must be read."""
    try:
        found: Mapping[str, object] = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise BuildFailed(title, f"{path} is not TOML: {error}") from None
    source, sha512 = found.get("source"), found.get("sha512")
    if not isinstance(source, str) or not source or not source.isprintable():
        raise BuildFailed(title, f"{path} names no source")
    if not isinstance(sha512, str) or not _SHA512.fullmatch(sha512):
        raise BuildFailed(title, f"{path} holds no sha512 of 128 hexadecimal digits")
    version = found.get("version")
    if version is None:
        return {"source": source, "sha512": sha512}
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise BuildFailed(title, f"{path} names no version that could be one")
    return {"source": source, "sha512": sha512, "version": version}
