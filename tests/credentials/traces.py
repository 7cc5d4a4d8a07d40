"""Looks for a credential everywhere it could have been left: on the host while a run goes on, and after its end."""

from __future__ import annotations

import base64
import io
import json
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import zstandard

from assay.sandbox.engine import Engine

DOCKER = Path("/var/lib/docker/containers")


def written(secrets: Iterable[str]) -> list[bytes]:
    """The ways in which a secret is looked for: as it is, and as a whole in base64."""
    return [form for secret in secrets for form in (secret.encode(), base64.b64encode(secret.encode()).rstrip(b"="))]


class Sampler(threading.Thread):
    """Reads the host's process list and the engine's account of a project's containers again and again.

    Args:
        needles: What must not be seen.
        project: The project's folder, as its containers' labels name it.
    """

    def __init__(self, needles: list[bytes], project: Path) -> None:
        super().__init__(daemon=True)
        self._needles, self._project = needles, str(project)
        self._engine = Engine.connect()
        self._over = threading.Event()
        self.seen: list[str] = []
        self.rounds = 0
        self.containers: set[str] = set()
        self.launched = False

    def run(self) -> None:
        while not self._over.is_set():
            self._processes()
            if self.rounds % 20 == 0:
                self._inspect()
            self.rounds += 1
            # The launcher lives for a moment only; what comes after it goes on for longer, and looking costs the run.
            self._over.wait(0.02 if self.launched else 0.01)

    def stop(self) -> None:
        self._over.set()
        self.join(10)
        self._engine.api.close()

    def _note(self, data: bytes, where: str) -> None:
        self.seen += [f"{where}: {needle!r}" for needle in self._needles if needle in data]

    def _processes(self) -> None:
        for entry in os.scandir("/proc"):
            if entry.name.isdecimal():
                line = command_line(entry.path)
                self.launched = self.launched or b"/opt/assay/launch" in line
                self._note(line, f"process {line[:60]!r}")

    def _inspect(self) -> None:
        for listed in self._engine.api.containers(all=True, filters={"label": f"assay.project={self._project}"}):
            try:
                found = self._engine.inspect(listed["Id"])
            except Exception:  # noqa: BLE001 - it was removed meanwhile
                continue
            self.containers.add(listed["Id"])
            self._note(json.dumps(found).encode(), "inspect")


def command_line(process: str) -> bytes:
    """How a process was started; nothing if it is gone. Asked for so often that its cost counts."""
    line = b""
    try:
        file = os.open(f"{process}/cmdline", os.O_RDONLY)
    except OSError:
        return line
    try:
        while part := os.read(file, 1 << 17):
            line += part
    except OSError:
        pass
    finally:
        os.close(file)
    return line


def in_files(needles: list[bytes], folder: Path) -> list[str]:
    """Kept files, archives unpacked, that hold a needle in their content or their name."""
    found = []
    for path in sorted(folder.rglob("*")):
        data = bytes(path.relative_to(folder))
        if path.is_file():
            raw = path.read_bytes()
            data += raw
            if path.suffix == ".zst":
                data += zstandard.ZstdDecompressor().stream_reader(io.BytesIO(raw), read_across_frames=True).read()
        found += [f"{path.relative_to(folder)}: {needle!r}" for needle in needles if needle in data]
    return found


def in_image(needles: list[bytes], engine: Engine, image: str, parent: str | None = None) -> list[str]:
    """Places of an image that hold a needle: configuration, history, and every byte of its layers.

    Args:
        needles: What must not be there.
        engine: Where the image is.
        image: Its id.
        parent: The image that its container was made of, which is older than any needle: its layers are left out, as
            `docker save` of a whole CLI takes many seconds. None looks at every byte of `docker save`.
    """
    found = []
    for name, what in (("config", engine.image(image)), ("history", engine.api.history(image))):
        data = json.dumps(what).encode()
        found += [f"{name}: {needle!r}" for needle in needles if needle in data]
    folders = layers_above(engine, image, parent) if parent is not None else None
    if folders is not None:
        return found + [f"layers: {where}" for folder in folders for where in _in_layer(needles, folder)]
    longest = max(len(needle) for needle in needles)
    tail = b""
    for chunk in engine.api.get_image(image, chunk_size=4 << 20):
        window = tail + chunk
        found += [f"layers: {needle!r}" for needle in needles if needle in window]
        tail = window[-longest:]
    return found


def layers_above(engine: Engine, image: str, parent: str) -> list[Path] | None:
    """The engine's folders of the layers that an image has and its parent has not; None where they cannot be read."""
    about, older = engine.image(image) or {}, engine.image(parent) or {}
    layers, below = about["RootFS"]["Layers"], older["RootFS"]["Layers"]
    assert layers[: len(below)] == below, "it was not made of that one"
    data = about.get("GraphDriver", {}).get("Data") or {}
    if "UpperDir" not in data:
        return None
    stack = [data["UpperDir"], *filter(None, data.get("LowerDir", "").split(":"))]
    folders = [Path(folder) for folder in stack[: len(layers) - len(below)]]
    return folders if all(folder.is_dir() for folder in folders) else None


def _in_layer(needles: list[bytes], folder: Path) -> Iterator[str]:
    """What of one layer holds a needle: names, where links lead, attributes, content."""
    for path in folder.rglob("*"):
        data = os.fsencode(path.relative_to(folder))
        names = os.listxattr(path, follow_symlinks=False)
        data += b"".join(os.getxattr(path, name, follow_symlinks=False) for name in names)
        if path.is_symlink():
            data += os.fsencode(path.readlink())
        elif path.is_file():
            data += path.read_bytes()
        yield from (f"{path.relative_to(folder)}: {needle!r}" for needle in needles if needle in data)


def on_the_engine(needles: list[bytes], containers: Iterable[str]) -> Iterator[str]:
    """What the engine still has of removed containers, and logs that hold a needle."""
    for container in containers:
        if (DOCKER / container).exists():
            yield f"{container[:12]} is still there"
    for folder in list(DOCKER.iterdir()):
        log = folder / f"{folder.name}-json.log"
        try:
            data = log.read_bytes()
        except OSError:
            continue
        yield from (f"{log}: {needle!r}" for needle in needles if needle in data)
