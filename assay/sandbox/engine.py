"""The Docker Engine, seen through the few verbs that a run needs.

One thin layer over the SDK's low-level client: a verb is one request (the high-level client inspects after each),
answers are typed, and every failure becomes an `EngineError` that names the verb and the container.
What of the engine's streams can be trusted was measured on Docker 20.10 (API 1.41): the log followed live may lose
the tail of a burst, so the record is completed from one whole read without follow.
The SDK is imported by what talks to it: half of what a refusal would cost otherwise.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from assay.model.errors import EngineError, EngineUnavailable
from assay.sandbox.spec import LABEL, NotThere, Spec, Stat, container_config

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from docker import APIClient

HEADER = 8
"""Bytes before each frame of output: the stream's id, three zeros, the payload's length."""

CALL_SECONDS = 120
"""Clock of one request; streams clear it."""


class Outgoing:
    """A tar stream out of a container, its failures told as ours.

    While it is open and not at its end, the engine holds the container's lock: a signal, an inspection or a removal
    would wait for it (until their own clock, two minutes).

    Args:
        answer: The engine's.
        path: What is read, for messages.
    """

    def __init__(self, answer: Any, path: str) -> None:
        self._answer, self._path = answer, path
        self._chunks: Iterator[bytes] = answer.iter_content(1 << 20)

    def __iter__(self) -> Outgoing:
        """It is its own iterator."""
        return self

    def __next__(self) -> bytes:
        """The next bytes.

        Raises:
            EngineError: The stream broke.
        """
        try:
            return next(self._chunks)
        except StopIteration:
            raise
        except Exception as error:
            if type(error).__module__.startswith(("urllib3", "requests", "http")) or isinstance(error, OSError):
                msg = f"the engine's stream of {self._path} broke: {_plain(error)}"
                raise EngineError(msg) from error
            raise

    def close(self) -> None:
        """Read no more; the engine lets go of the container."""
        with contextlib.suppress(Exception):
            self._answer.close()

    def __enter__(self) -> Outgoing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Engine:
    """One Docker Engine. Safe to use from several threads.

    Args:
        api: A connected low-level client.
    """

    def __init__(self, api: APIClient) -> None:
        self.api = api
        self._lasting: dict[str, Any] = {}
        self._quotas = True

    @classmethod
    def connect(cls) -> Engine:
        """Connect as the environment says (`DOCKER_HOST` and its companions, else the local socket).

        Raises:
            EngineUnavailable: Nothing answers; the message says how to start one.
        """
        from docker import APIClient
        from docker.utils import kwargs_from_env

        where = "the local socket"
        try:
            settings = kwargs_from_env()
            where = settings.get("base_url", where)
            api = APIClient(version="auto", timeout=CALL_SECONDS, max_pool_size=64, **settings)
            api.ping()
        except _sdk_failures() as error:
            cause = _plain(error)
            if "permission denied" in cause.lower():
                hint = "your user may not use it: add it to the group docker, or run as root"
            elif os.environ.get("DOCKER_HOST"):
                hint = "DOCKER_HOST names it: start it there, correct the variable, or unset it"
            else:
                hint = "start it (as root: systemctl start docker, or dockerd), or set DOCKER_HOST"
            msg = f"no Docker Engine answers at {where}: {cause}; {hint}"
            raise EngineUnavailable(msg) from None
        return cls(api)

    def version(self) -> dict[str, Any]:
        """The engine's own account of itself."""
        with _failing("version", ""):
            return cast("dict[str, Any]", self.api.version())

    def identity(self) -> str:
        """What tells this engine from every other; it outlives a restart."""
        return str(self._known().get("ID", ""))

    def processors(self) -> int:
        """How many the engine's host has: more than these no container is given. 0 where it does not say."""
        return int(self._known().get("NCPU") or 0)

    def _known(self) -> dict[str, Any]:
        """What the engine says of itself and does not change while it runs; asked for once."""
        if not self._lasting:
            self._lasting = self.info()
        return self._lasting

    def info(self) -> dict[str, Any]:
        """Drivers, quotas and resources of the engine's host."""
        with _failing("info", ""):
            return cast("dict[str, Any]", self.api.info())

    # -- containers ---------------------------------------------------------------------------------------------

    def create(self, spec: Spec) -> str:
        """Create a container and return its id. Nothing runs yet."""
        if spec.storage and self._quotas:
            try:
                return self._create(spec)
            except EngineError as error:
                if "storage-opt" not in str(error).lower():
                    raise
                self._quotas = False
        return self._create(replace(spec, storage=None))

    def _create(self, spec: Spec) -> str:
        with _failing("create", spec.name):
            made = self.api.create_container_from_config(container_config(self.api, spec), spec.name)
            return str(made["Id"])

    def put(self, container: str, tar: bytes | Iterable[bytes], path: str = "/") -> None:
        """Unpack a tar stream in a container that exists; ownership and modes are kept exactly."""
        with _failing("put files into", container):
            self.api.put_archive(container, path, tar)

    def start(self, container: str) -> None:
        """Start a created container."""
        with _failing("start", container):
            self._request("POST", "/containers/{0}/start", container)

    def feed(self, container: str, data: bytes) -> None:
        """Start a container and give it `data` on its standard input, then end the input.

        Attached before the start, so that the process finds its input there from its first instruction.
        """
        with _failing("hand input to", container):
            stream = self.api.attach_socket(container, params={"stdin": 1, "stream": 1})
            # The SDK keeps the response alive through this object: it must outlive the sending.
            connection = getattr(stream, "_sock", stream)
            try:
                self.start(container)
                connection.sendall(data)
            finally:
                stream.close()
                # Closing the stream alone leaves the connection open until it is collected.
                connection.close()

    def log(self, container: str, *, follow: bool) -> Iterator[tuple[int, bytes]]:
        """Frames of a container's output from its start: (1 stdout or 2 stderr, bytes).

        With follow it is a live view that may lose the tail of a burst; without, the whole record so far.
        """
        with _failing("read the log of", container):
            params = {"stdout": 1, "stderr": 1, "follow": int(follow)}
            answer = self._request("GET", "/containers/{0}/logs", container, params=params, stream=True, timeout=None)
        return _frames(answer)

    def wait(self, container: str, seconds: float | None = None) -> int | None:
        """Block until the container's process has ended; its exit code, or None when the time was up first."""
        try:
            with _failing("wait for", container):
                answer = self._request("POST", "/containers/{0}/wait", container, timeout=seconds)
                return int(answer.json()["StatusCode"])
        except EngineError as error:
            # The SDK's transport tells a read timeout on a socket as a broken connection.
            if seconds is not None and "timed out" in str(error).lower():
                return None
            raise

    def signal(self, container: str, name: str) -> None:
        """Send a signal to the container's process; one that has ended already is left alone."""
        from docker.errors import APIError

        with _failing("signal", container):
            try:
                self.api.kill(container, name)
            except APIError as error:
                if error.status_code not in (404, 409):
                    raise

    def inspect(self, container: str) -> dict[str, Any]:
        """Everything the engine knows of a container."""
        with _failing("inspect", container):
            return cast("dict[str, Any]", self.api.inspect_container(container))

    def size(self, container: str) -> int:
        """Bytes written by a container since its creation, volumes left out; a sparse file counts in full.

        The engine looks at each file: 3 ms for a few, 100 ms for 20,000.
        """
        with _failing("measure", container):
            answer = self._request("GET", "/containers/{0}/json", container, params={"size": 1})
            return int(answer.json().get("SizeRw") or 0)

    def get(self, container: str, path: str) -> tuple[Stat, Outgoing]:
        """What stands at a path, and its tar stream, which is to be closed: use it in a `with`.

        The engine follows a link given as the path: look at `Stat.is_dir` before reading.

        Raises:
            EngineError: The engine failed; its subclass `NotThere` when there is no such path.
        """
        from docker.errors import NotFound
        from docker.utils import decode_json_header

        try:
            params, plain = {"path": path}, {"Accept-Encoding": "identity"}
            answer = self._request(
                "GET", "/containers/{0}/archive", container, params=params, headers=plain, stream=True
            )
        except NotFound as error:
            msg = f"there is no {path} in {container[:12]}"
            raise NotThere(msg) from error
        except _sdk_failures() as error:
            msg = f"the Docker Engine could not read {path} of {container[:12]}: {_plain(error)}"
            raise EngineError(msg) from error
        stat = decode_json_header(answer.headers["X-Docker-Container-Path-Stat"])
        return Stat(int(stat["mode"]), int(stat["size"]), str(stat["linkTarget"])), Outgoing(answer, path)

    def changes(self, container: str) -> list[dict[str, Any]]:
        """Paths changed against the image: `{"Path", "Kind"}`, kind 0 changed, 1 added, 2 deleted."""
        with _failing("diff", container):
            return cast("list[dict[str, Any]]", self.api.diff(container) or [])

    def run_in(self, container: str, argv: Sequence[str], user: str = "0:0") -> tuple[int, bytes]:
        """Run a command in a running container of our own (never an agent's); exit code and output."""
        with _failing("exec in", container):
            made = self.api.exec_create(container, list(argv), user=user)
            out = self.api.exec_start(made["Id"])
            return int(self.api.exec_inspect(made["Id"])["ExitCode"]), bytes(out)

    def remove(self, container: str) -> None:
        """Kill and remove a container with its anonymous volumes; one that is gone already is fine."""
        from docker.errors import APIError, NotFound

        with _failing("remove", container):
            try:
                self.api.remove_container(container, force=True, v=True)
            except NotFound:
                return
            except APIError as error:
                if error.status_code != 409 or "already in progress" not in str(error):
                    raise

    def containers(self, labels: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Our containers, running or not, that carry all these labels."""
        wanted = [LABEL, *(f"{k}={v}" for k, v in (labels or {}).items())]
        with _failing("list containers", ""):
            return cast("list[dict[str, Any]]", self.api.containers(all=True, filters={"label": wanted}))

    def address(self, container: str) -> str:
        """The container's IPv4 address on its (default bridge) network.

        Raises:
            EngineError: It has none.
        """
        networks = self.inspect(container)["NetworkSettings"]["Networks"] or {}
        for network in networks.values():
            if network.get("IPAddress"):
                return str(network["IPAddress"])
        msg = f"container {container[:12]} has no address"
        raise EngineError(msg)

    def _request(self, method: str, path: str, container: str, **kwargs: Any) -> Any:
        """One request without what the SDK's public verb adds to it: an inspection, joining and copying of frames."""
        kwargs.setdefault("timeout", CALL_SECONDS)
        answer = self.api.request(method, self.api._url(path, container), **kwargs)  # noqa: SLF001
        self.api._raise_for_status(answer)  # noqa: SLF001
        return answer

    # -- images -------------------------------------------------------------------------------------------------

    def image(self, name: str) -> dict[str, Any] | None:
        """What the engine knows of an image, None if it is not there."""
        from docker.errors import ImageNotFound

        with _failing("look at the image", name):
            try:
                return cast("dict[str, Any]", self.api.inspect_image(name))
            except ImageNotFound:
                return None

    def remove_image(self, image: str) -> None:
        """Remove an image and its names; one that is gone is fine.

        One that another image is made of only loses its names: it goes with the last that needs it.
        """
        with _failing("remove the image", image):
            if not self._removed(image):
                for name in (self.image(image) or {}).get("RepoTags") or []:
                    self._removed(name)

    def _removed(self, image: str) -> bool:
        """Whether an image is gone; False if something holds it."""
        from docker.errors import APIError

        try:
            self.api.remove_image(image, force=True)
        except APIError as error:
            if error.status_code not in (404, 409):
                raise
            return bool(error.status_code == 404)
        return True

    def commit(self, container: str, repository: str, tag: str, labels: Mapping[str, str]) -> str:
        """Make an image of a stopped container; its id. Volumes are left out, Cmd, Env and User are kept."""
        conf = {"Labels": {LABEL: "1", **labels}}
        with _failing("commit", container):
            return str(self.api.commit(container, repository=repository, tag=tag, conf=conf)["Id"])


def _frames(answer: Any) -> Iterator[tuple[int, bytes]]:
    """Cut the engine's multiplexed stream: 8 bytes of header (stream id, length), then the payload."""
    held = b""
    try:
        # One chunk of the transfer is one frame of the engine's, mostly; asking for bytes by number is twice as slow.
        for part in answer.raw.stream(1 << 16):
            data, at = held + part if held else part, 0
            while len(data) - at >= HEADER:
                size = int.from_bytes(data[at + 4 : at + HEADER], "big")
                if len(data) - at - HEADER < size:
                    break
                if size:
                    yield data[at], data[at + HEADER : at + HEADER + size]
                at += HEADER + size
            held = data[at:]
    except Exception as error:
        if type(error).__module__.startswith(("urllib3", "requests", "http")) or isinstance(error, OSError):
            msg = f"the engine's log stream broke: {_plain(error)}"
            raise EngineError(msg) from error
        raise
    finally:
        with contextlib.suppress(Exception):
            answer.close()


def _sdk_failures() -> tuple[type[Exception], ...]:
    """Whatever the SDK raises, and the transport below it."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    return DockerException, RequestException, OSError


@contextlib.contextmanager
def _failing(verb: str, what: str) -> Iterator[None]:
    """Turn whatever the SDK raises into an EngineError that names the verb."""
    try:
        yield
    except _sdk_failures() as error:
        msg = f"the Docker Engine could not {verb} {what[:40]}".rstrip() + f": {_plain(error)}"
        raise EngineError(msg) from error


def _plain(error: BaseException) -> str:
    """The engine's own words, in one line, without the SDK's wrapping."""
    text = getattr(error, "explanation", None)
    cause: BaseException | None = error
    while not text and cause is not None:
        # The operating system's reason lies under several layers, each of which tells it in its own way.
        text = cause.strerror if isinstance(cause, OSError) else None
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(text or error).split())[:400]
