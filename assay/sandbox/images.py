"""The images that runs and checkers are made of.

    base image            debian:bookworm-slim, pulled or made
    └── environment       what a task without an environment of its own runs in; checkers too
        ├── tools         npm and pip, for fetching CLIs; nothing runs in it
        └── agent         one CLI at one version, laid over the environment …
    a task's own image
        └── agent         … or over the task's own image

A tag is a digest of all that the image depends on, so what is there is right; `assay.sandbox.build` builds it once.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from assay.model.errors import BuildFailed, EngineError, Refused
from assay.sandbox.base import BASE, ensure_image
from assay.sandbox.build import Say, build_once, engine_words
from assay.sandbox.engine import Engine
from assay.sandbox.pinned import FILE, install_script, read_pin
from assay.sandbox.recipe import Host, Recipe, base_images, folder_context
from assay.sandbox.spec import NotThere, Spec

if TYPE_CHECKING:
    from assay.model.registry import Agent

HOME = "/home/agent"
"""Home of the agent's user, uid 1000; outside every working directory."""

AGENT = "/opt/assay/agent"
"""Where the CLI lies in an agent's image."""

NOT_ENVIRONMENT = ("checker", "solution", "prompt.md", "task.toml", "rehearsal.toml", "rehearsal")
"""Parts of a task's folder that its Dockerfile must not see: hidden, or no part of the environment."""

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NPM_NAMES = {"amd64": "x64", "arm64": "arm64"}
_LOADERS = {
    "amd64": ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"),
    "arm64": ("/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"),
}
# Not LD_LIBRARY_PATH: images with their own libraries need it, and the check of the build runs under it.
_FOREIGN = (
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_DEBUG",
    "GLIBC_TUNABLES",
    "NODE_OPTIONS",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    *(name for word in ("http", "https", "all", "no") for name in (f"{word}_proxy", f"{word}_proxy".upper())),
)


class NotBuilt(Refused):
    """An image is not there, and building was not asked for."""


@dataclass(frozen=True)
class Image:
    """What a run needs to know of an image.

    Attributes:
        title: As the user knows it.
        env: The variables that every container made of it gets unless they are overridden.
        volumes: Paths that are volumes, so that no snapshot keeps them.
        user: The image's own user, which Assay does not use.
        arch: As the engine says it: `amd64`, `arm64`.
        triggers: ONBUILD instructions, which would run when something is laid over it.
    """

    id: str
    title: str
    env: Mapping[str, str]
    volumes: tuple[str, ...]
    user: str
    workdir: str
    arch: str
    triggers: tuple[str, ...]


class Builder:
    """Gets and builds images on one engine.

    Args:
        engine: Where they are built.
        base: The base image of the environment.
        ca: A CA bundle that builds trust beside the host's.
        say: Is told every line of progress (untrusted text).
        build: False only looks: what is not there raises `NotBuilt`.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        base: str = BASE,
        ca: Path | None = None,
        say: Say = lambda _line: None,
        build: bool = True,
    ) -> None:
        self.engine, self.base, self.say, self.build = engine, base, say, build
        self.host = Host.read(ca)

    # Every method raises BuildFailed when an image cannot be got or built, and EngineError when the engine fails.

    def environment(self) -> Image:
        """What a task without an environment of its own runs in: python3, pytest, git, curl, procps."""
        recipe = Recipe(
            title="environment",
            repository="assay-env",
            dockerfile=_ours("environment.Dockerfile").decode(),
            files={"user.sh": _ours("user.sh")},
            args={"BASE": self._named(self.base)},
        )
        return self._image(self._built(recipe), "the default environment")

    def of_task(self, dockerfile: Path | None, image: str | None) -> Image:
        """A task's environment: of its Dockerfile, of its image, or the default one. Never sees what is hidden."""
        if dockerfile is not None:
            return self._own(dockerfile, f"{dockerfile.parent.name}/Dockerfile", "assay-task", NOT_ENVIRONMENT)
        if image is not None:
            return self._image(self._named(image), image)
        return self.environment()

    def of_checker(self, dockerfile: Path) -> Image:
        """The image of a checker that has its own Dockerfile; the context is the checker's folder."""
        title = f"{dockerfile.parent.parent.name}/checker/Dockerfile"
        return self._own(dockerfile, title, "assay-checker", ())

    def for_agent(
        self, image: Image, name: str = "", agent: Agent | None = None, hand_over: str | None = None
    ) -> Image:
        """An image with the agent's user, and with the CLI of `agent` laid over it.

        Args:
            image: The environment.
            name: Of the agent.
            agent: Its entry; None for a built-in one.
            hand_over: A folder of a task's own image that is given to the agent's user with all that is in it: images
                are built by root, and an agent that may not write there could do nothing.

        Raises:
            Refused: The CLI cannot run on this image; says why.
        """
        environment = self.environment()
        if agent is None:
            return image if image.id == environment.id else self._laid_over(image, self._user_recipe(image, hand_over))
        tools, cli, plain = self._recipes(environment, name, agent)
        if image.id != environment.id:
            over = self._agent_recipe(image, plain.tag, name, agent, hand_over)
            return self._laid_over(image, over, first=lambda: self._plain(plain, tools, cli))
        self._plain(plain, tools, cli)
        return self._image(self._built(plain), plain.title)

    def pinned(self, image: Image, name: str, agent: Agent) -> Agent:
        """The entry with source and sha512 of what `image` was built of, unchanged if its install lines left neither.

        The image is then the one that the entry so completed asks for, and nothing is fetched a second time. It is no
        longer that of the entry as it was: who takes the two out has the vendor asked again. An entry without a version
        is completed with what the vendor gave, whose image is still to be built: only that is held to the version.

        Args:
            image: The agent's, over the default environment.
            name: Of the agent.
            agent: Its entry.

        Raises:
            BuildFailed: What the install lines left is no such record, or has no version where none was asked for.
        """
        pin = read_pin(self.engine, image.id, _called(name, agent), f"{AGENT}/{FILE}")
        if pin is None:
            return agent
        version = agent.version or pin.get("version", "")
        if not version:
            raise BuildFailed(_called(name, agent), f"{AGENT}/{FILE} names no version")
        archive = {key: pin[key] for key in ("source", "sha512")}
        update = {"version": version, "install": agent.install.model_copy(update=archive)}
        entry = agent.model_copy(update=update)
        environment = self.environment()
        old, new = (self._recipes(environment, name, one)[-1].tag for one in (agent, entry))
        if agent.version:
            with engine_words(f"name {image.title}"):
                self.engine.api.tag(image.id, *new.split(":"))
        self.engine.remove_image(old)
        return entry

    def has_shell(self, image: Image) -> bool:
        """Whether there is a /bin/sh in it."""
        return self._first_of(image, "/bin/sh") is not None

    # -- recipes ------------------------------------------------------------------------------------------------

    def _own(self, dockerfile: Path, title: str, repository: str, leave_out: tuple[str, ...]) -> Image:
        text = dockerfile.read_text(encoding="utf-8")
        context = folder_context(dockerfile.parent, leave_out)
        bases = {name: self._named(name) for name in base_images(text)}
        return self._image(self._built(Recipe(title, repository, text, folder=context, bases=bases)), title)

    def _recipes(self, environment: Image, name: str, agent: Agent) -> tuple[Recipe, Recipe, Recipe]:
        """Of the tools, the CLI, and the agent over the default environment."""
        tools = self._tools(environment)
        cli = self._install(tools, name, agent, environment.arch)
        return tools, cli, self._agent_recipe(environment, cli.tag, name, agent)

    def _tools(self, environment: Image) -> Recipe:
        return Recipe(
            title="tools",
            repository="assay-tools",
            dockerfile=_ours("tools.Dockerfile").decode(),
            files={"tools.txt": _ours("tools.txt")},
            args={"ENVIRONMENT": environment.id},
        )

    def _install(self, tools: Recipe, name: str, agent: Agent, arch: str) -> Recipe:
        return Recipe(
            title=_called(name, agent),
            repository="assay-cli",
            dockerfile=_ours("install.Dockerfile").decode(),
            files={"install.sh": install_script(agent.install), "finish.sh": _ours("finish.sh")},
            args={
                "TOOLS": tools.tag,
                "VERSION": agent.version,
                "ARCH": _NPM_NAMES.get(arch, arch),
                "NODE": "1" if agent.install.node else "0",
            },
        )

    def _agent_recipe(self, image: Image, cli: str, name: str, agent: Agent, hand_over: str | None = None) -> Recipe:
        shows = agent.install.shows.replace("{version}", agent.version)
        names = " ".join(neutral_env(image, [agent]))
        path = f"{AGENT}/bin:{image.env.get('PATH') or _PATH}"
        user = _run("sh", "-c", _ours("user.sh").decode())
        check = _run("sh", "-c", _ours("check.sh").decode(), "check", shows, names, *agent.install.check)
        return Recipe(
            title=f"{_called(name, agent)} on {image.title}",
            repository="assay-agent",
            dockerfile=(
                f"FROM {cli} AS cli\nFROM {image.id}\nUSER 0:0\n"
                # The classic builder's cache takes two trees for the same that differ in a link's name alone.
                f"LABEL assay.cli={cli}\n"
                f"COPY --from=cli {AGENT} {AGENT}\n{user}\n{_handed_over(hand_over)}"
                f"ENV PATH={json.dumps(path)}\nUSER 1000:1000\n{check}\n"
            ),
            labels={"assay.agent": name, "assay.version": agent.version},
            network="none",
            hosted=False,
        )

    def _user_recipe(self, image: Image, hand_over: str | None) -> Recipe:
        user = _run("sh", "-c", _ours("user.sh").decode())
        text = f"FROM {image.id}\nUSER 0:0\n{user}\n{_handed_over(hand_over)}"
        return Recipe(f"user on {image.title}", "assay-user", text, network="none", hosted=False)

    # -- building -----------------------------------------------------------------------------------------------

    def _named(self, name: str) -> str:
        if not self.build:
            there = self.engine.image(name)
            if there is None:
                msg = f"{name} is not on the engine"
                raise NotBuilt(msg)
            return str(there["Id"])
        return ensure_image(self.engine, name, self.say, make=name == self.base)

    def _built(self, recipe: Recipe, first: Callable[[], object] = lambda: None) -> str:
        if not self.build and self.engine.image(recipe.tag) is None:
            msg = f"{recipe.title} is not built"
            raise NotBuilt(msg)
        return build_once(self.engine, recipe, self.say, self.host, first=first)

    def _plain(self, plain: Recipe, tools: Recipe, cli: Recipe) -> str:
        """The agent over the environment: the source of every other image with this CLI."""

        def fetch() -> None:
            self._built(cli, first=lambda: self._built(tools))

        if self.engine.image(plain.tag):
            return self._built(plain)
        try:
            return self._built(plain, first=fetch)
        finally:
            # Its content now lies in the agent's image, and would take the same room twice more.
            self._forget(cli)

    def _forget(self, cli: Recipe) -> None:
        """Remove an install image and its stage, unless someone is building on them."""
        left = {"dangling": True, "label": [f"assay.stage={cli.digest()}"]}
        with contextlib.suppress(EngineError), engine_words("remove what the build left"):
            if self.engine.image(cli.tag):
                self.engine.api.remove_image(cli.tag)
            # Not by pruning, of which the engine does one at a time and refuses the second.
            for stage in self.engine.api.images(filters=left, quiet=True):
                self.engine.api.remove_image(stage)

    def _laid_over(self, image: Image, recipe: Recipe, first: Callable[[], object] = lambda: None) -> Image:
        """Build over a task's own image, with reasons where that cannot work."""
        own = self.engine.version()["Arch"]
        if image.arch != own:
            msg = f"{image.title}: it is made for {image.arch}, and this engine runs {own}; use an image for {own}"
            raise Refused(msg)
        if image.triggers:
            msg = f"{image.title}: its ONBUILD instructions would run once more; build them into an image of your own"
            raise Refused(msg)
        if self.engine.image(recipe.tag) is None and not self.has_shell(image):
            msg = f"{image.title}: it has no /bin/sh, which starting an agent needs; use an image with a shell"
            raise Refused(msg)
        try:
            built = self._built(recipe, first=first)
        except BuildFailed as error:
            loaders = _LOADERS.get(own, ())
            if error.what == recipe.title and loaders and self._first_of(image, *loaders) == loaders[1]:
                msg = (
                    f"{recipe.title}: it cannot run there: the image has musl and not glibc; use a Debian-like image"
                    f" (log: {error.log})"
                )
                raise Refused(msg) from error
            raise
        return replace(self._image(built, recipe.title), volumes=image.volumes)

    def _image(self, name: str, title: str) -> Image:
        found = self.engine.image(name)
        if found is None:
            raise BuildFailed(title, f"the image {name} has gone from the engine")
        config = found.get("Config") or {}
        return Image(
            id=str(found["Id"]),
            title=title,
            env=dict(entry.partition("=")[::2] for entry in config.get("Env") or []),
            volumes=tuple(sorted(config.get("Volumes") or {})),
            user=str(config.get("User") or ""),
            workdir=str(config.get("WorkingDir") or ""),
            arch=str(found.get("Architecture", "")),
            triggers=tuple(config.get("OnBuild") or ()),
        )

    def _first_of(self, image: Image, *paths: str) -> str | None:
        """The first of some paths that is in the image: seen in a container that is never started."""
        probe = self.engine.create(Spec(image=image.id, argv=["/"], name="", labels={}))
        try:
            for path in paths:
                try:
                    _, stream = self.engine.get(probe, path)
                except NotThere:
                    continue
                stream.close()
                return path
            return None
        finally:
            self.engine.remove(probe)


def ensure_environment(engine: Engine, base: str = BASE, say: Say = lambda _line: None, ca: Path | None = None) -> str:
    """The id of the image that a plain task and its checker run in; got or built where missing."""
    return Builder(engine, base=base, ca=ca, say=say).environment().id


def neutral_env(image: Image, agents: Iterable[Agent]) -> dict[str, None]:
    """Variables of an image that would change how a CLI works: loaders, proxies, and whatever the entries name.

    For the environment of a container: None takes the image's variable away.
    """
    patterns = list(_FOREIGN)
    for agent in agents:
        patterns += [*agent.launch.foreign_env, *agent.launch.ca_env]
        patterns += [*agent.launch.env, *agent.launch.offline_env, *agent.launch.root_env]
        patterns += [way.env for way in agent.credentials if way.env]
    return {name: None for name in sorted(image.env) if any(fnmatchcase(name, pattern) for pattern in patterns)}


def _called(name: str, agent: Agent) -> str:
    return f"{name} {agent.version or 'newest'}"


def _ours(name: str) -> bytes:
    """A file that is shipped beside this module."""
    return (files("assay.sandbox") / "image_files" / name).read_bytes()


def _handed_over(folder: str | None) -> str:
    """The line that gives a folder to the agent's user, where it is there and is no link."""
    if folder is None:
        return ""
    command = 'if [ -d "$1" ] && [ ! -L "$1" ]; then chown -R 1000:1000 "$1"; fi'
    return _run("sh", "-c", command, "sh", folder) + "\n"


def _run(shell: str, *words: str) -> str:
    """A RUN line that goes through no shell but the one it names, so that nothing in the words is expanded."""
    return "RUN " + json.dumps([f"/bin/{shell}", *words])
