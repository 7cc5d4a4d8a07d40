"""Images built on a real engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from assay.model.errors import BuildFailed, Refused
from assay.model.registry import Agent, Install, Launch
from assay.sandbox.build import build_once
from assay.sandbox.engine import Engine
from assay.sandbox.images import Builder, Image, NotBuilt, neutral_env
from assay.sandbox.recipe import Recipe
from assay.sandbox.spec import Spec

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

TINY = r"""printf '#!/bin/sh\necho tiny %s; id -u\n' "$VERSION" >tiny"""


def tiny(mark: str, **install: Any) -> Agent:
    """An agent whose CLI says its version and who runs it; another image for every mark."""
    lines = install.pop("run", ['mkdir -p "$OUT/bin"', TINY, 'install -m 0755 tiny "$OUT/bin/tiny"'])
    given = {"check": ["tiny", "--version"], "shows": "tiny {version}\n1000", **install}
    return Agent(
        title="Tiny",
        version="1.2.3",
        decoder="claude",
        hosts=[],
        install=Install(run=[f": {mark}", *lines], **given),
        launch=Launch(run=["tiny"], foreign_env=["TINY_*"]),
    )


def folder(tmp_path: Path, mark: str, dockerfile: str) -> Path:
    """A task's folder with a Dockerfile that gives an image of its own; the Dockerfile's path."""
    path = tmp_path / mark / "Dockerfile"
    path.parent.mkdir()
    path.write_text(f"{dockerfile}LABEL test={mark}\n")
    return path


def output(engine: Engine, image: Image, *argv: str, user: str = "1000:1000") -> str:
    """What a command prints in a container of an image."""
    made = engine.create(Spec(image=image.id, argv=argv, name="", labels={}, user=user))
    try:
        engine.start(made)
        engine.wait(made)
        return b"".join(data for stream, data in engine.log(made, follow=False) if stream == 1).decode()
    finally:
        engine.remove(made)


@pytest.fixture
def builder(engine: Engine) -> Builder:
    return Builder(engine)


def test_environment_has_what_checkers_and_agents_use(engine: Engine, builder: Builder) -> None:
    environment = builder.environment()
    commands = "python3 --version && pytest --version && git --version && curl --version && ps --version"
    said = output(engine, environment, "sh", "-c", f"{commands} && id && ls -A /opt/assay && cat /etc/passwd")
    for word in ("Python 3", "pytest", "git version", "curl 7", "procps", "uid=1000(agent) gid=1000(agent)"):
        assert word in said
    assert "agent:x:1000:1000:agent:/home/agent:/bin/sh" in said
    assert not [name for name in environment.env if "CERT" in name or "CA" in name or "proxy" in name.lower()]
    assert builder.environment().id == environment.id


def test_host_bundle_is_there_in_the_build_and_not_in_the_image(engine: Engine, mark: str, tmp_path: Path) -> None:
    bundle = tmp_path / "own.pem"
    bundle.write_text("MY OWN AUTHORITY")
    dockerfile = folder(
        tmp_path,
        mark,
        "FROM debian:bookworm-slim\n"
        'RUN grep -q "MY OWN AUTHORITY" "$SSL_CERT_FILE" && [ "$SSL_CERT_FILE" = "$PIP_CERT" ]'
        ' && grep -q "$SSL_CERT_FILE" "$APT_CONFIG" && echo trusted >/seen\n',
    )
    builder = Builder(engine, ca=bundle)
    own = builder.of_task(dockerfile, None)
    assert not [name for name in own.env if "CERT" in name or name == "APT_CONFIG"]
    agent = builder.for_agent(own, mark, tiny(mark))
    assert output(engine, agent, "cat", "/seen") == "trusted\n"
    said = output(engine, agent, "sh", "-c", "grep -rl 'MY OWN AUTHORITY' /etc /opt /usr/local 2>/dev/null; echo end")
    assert said == "end\n"


def test_agent_is_laid_over_a_tasks_own_image(engine: Engine, builder: Builder, mark: str, tmp_path: Path) -> None:
    task = tmp_path / mark
    (task / "checker").mkdir(parents=True)
    (task / "checker" / "secret").write_text("hidden")
    (task / "data.txt").write_text("data")
    (task / "Dockerfile").write_text(
        "FROM debian:bookworm-slim\n"
        "COPY . /context\n"
        "RUN printf 'agent:x:7:7::/:/bin/sh' >>/etc/passwd\n"
        "ENV LD_PRELOAD=/nowhere.so NODE_OPTIONS=--broken TINY_MODE=odd PATH=/own/bin:/usr/bin:/bin KEPT=1\n"
        'VOLUME /data\nENTRYPOINT ["/bin/false"]\nUSER 33\n'
        f"LABEL test={mark}\n"
    )
    own = builder.of_task(task / "Dockerfile", None)
    assert (own.volumes, own.user) == (("/data",), "33")
    agent = tiny(mark)
    assert neutral_env(own, [agent]) == {"LD_PRELOAD": None, "NODE_OPTIONS": None, "TINY_MODE": None}
    laid = builder.for_agent(own, mark, agent)
    assert laid.env["PATH"] == "/opt/assay/agent/bin:/own/bin:/usr/bin:/bin"
    assert laid.env["KEPT"] == "1"
    assert laid.volumes == ("/data",)
    said = output(engine, laid, "sh", "-c", "tiny; ls -R /context; cat /etc/passwd; ls -ld /home/agent")
    assert said.splitlines()[-3:-1] == [
        "agent:x:7:7::/:/bin/sh",
        "assay-agent:x:1000:1000:agent:/home/agent:/bin/sh",
    ], said
    assert "tiny 1.2.3\n1000\n" in said
    assert "data.txt" in said
    assert "checker" not in said
    assert "drwx------" in said


def test_none_takes_a_variable_of_the_image_away(engine: Engine, builder: Builder) -> None:
    image = builder.environment()
    spec = Spec(image=image.id, argv=["env"], name="", labels={}, env={"LANG": None})
    made = engine.create(spec)
    try:
        engine.start(made)
        engine.wait(made)
        said = b"".join(data for _, data in engine.log(made, follow=False))
    finally:
        engine.remove(made)
    assert b"PATH=" in said
    assert b"LANG" not in said


def test_built_in_agents_need_only_the_user(engine: Engine, builder: Builder, mark: str, tmp_path: Path) -> None:
    environment = builder.environment()
    assert builder.for_agent(environment).id == environment.id
    dockerfile = folder(tmp_path, mark, "FROM debian:bookworm-slim\nRUN echo >/some\n")
    own = builder.of_task(dockerfile, None)
    assert output(engine, builder.for_agent(own), "id", "-un") == "agent\n"


def test_wrong_version_fails_the_build_with_its_log(builder: Builder, mark: str) -> None:
    with pytest.raises(BuildFailed, match=r"did not say '9\.9\.9'") as caught:
        builder.for_agent(builder.environment(), mark, tiny(mark, shows="9.9.9"))
    assert caught.value.log is not None
    assert "tiny 1.2.3" in caught.value.log.read_text()


def test_failing_install_line_is_named(builder: Builder, mark: str) -> None:
    with pytest.raises(BuildFailed, match="no such tool"):
        builder.for_agent(builder.environment(), mark, tiny(mark, run=["echo 'no such tool' >&2", "exit 3"]))


def test_cli_with_node_brings_its_own_and_leaves_the_tasks_alone(engine: Engine, builder: Builder, mark: str) -> None:
    lines = [
        'mkdir -p "$OUT/bin" "$OUT/lib"',
        r"""printf '#!/usr/bin/env node\nconsole.log("tiny", process.version, process.argv[2])\n' >"$OUT/lib/x.js" """,
        'chmod 0755 "$OUT/lib/x.js"',
        'ln -s ../lib/x.js "$OUT/bin/tiny"',
    ]
    agent = tiny(mark, run=lines, check=["tiny", "a b"], shows="tiny v22.20.0 a b", node=True)
    laid = builder.for_agent(builder.environment(), mark, agent)
    assert output(engine, laid, "sh", "-c", "command -v node; tiny x") == "tiny v22.20.0 x\n"


MUSL = """\
FROM debian:bookworm-slim AS parts
RUN apt-get update && apt-get install -y --no-install-recommends busybox-static musl
FROM scratch
COPY --from=parts /bin/busybox /bin/busybox
COPY --from=parts /usr/lib/x86_64-linux-musl/libc.so /lib/ld-musl-x86_64.so.1
RUN ["/bin/busybox", "mkdir", "-p", "/etc", "/tmp"]
RUN ["/bin/busybox", "--install", "-s", "/bin"]
"""


def test_image_with_musl_is_refused_by_name(builder: Builder, mark: str, tmp_path: Path) -> None:
    dockerfile = folder(tmp_path, mark, MUSL)
    own = builder.of_task(dockerfile, None)
    needs_glibc = tiny(
        mark, run=['install -D -m 0755 /usr/bin/env "$OUT/bin/tiny"'], check=["tiny", "--version"], shows="coreutils"
    )
    with pytest.raises(Refused, match=rf"{mark}/Dockerfile: it cannot run there: the image has musl"):
        builder.for_agent(own, mark, needs_glibc)
    # A CLI that does run there is welcome.
    assert builder.for_agent(own, mark, tiny(mark, shows="tiny 1.2.3")).arch == own.arch


def test_image_without_a_shell_is_refused_by_name(builder: Builder, mark: str, tmp_path: Path) -> None:
    dockerfile = folder(tmp_path, mark, "FROM scratch\nCOPY other /only\n")
    (dockerfile.parent / "other").write_text("x")
    own = builder.of_task(dockerfile, None)
    assert not builder.has_shell(own)
    assert builder.has_shell(builder.environment())
    with pytest.raises(Refused, match=f"{mark}/Dockerfile: it has no /bin/sh"):
        builder.for_agent(own, mark, tiny(mark))


def test_image_with_onbuild_is_refused_by_name(builder: Builder, mark: str, tmp_path: Path) -> None:
    dockerfile = folder(tmp_path, mark, "FROM debian:bookworm-slim\nONBUILD RUN exit 1\n")
    own = builder.of_task(dockerfile, None)
    with pytest.raises(Refused, match="ONBUILD"):
        builder.for_agent(own, mark, tiny(mark))


def test_checkers_own_image_sees_the_checkers_folder_only(
    engine: Engine, builder: Builder, mark: str, tmp_path: Path
) -> None:
    checker = tmp_path / mark / "checker"
    checker.mkdir(parents=True)
    (tmp_path / mark / "prompt.md").write_text("p")
    (checker / "check.sh").write_text("exit 0")
    (checker / "Dockerfile").write_text(f"FROM debian:bookworm-slim\nCOPY . /c\nLABEL test={mark}\n")
    assert output(engine, builder.of_checker(checker / "Dockerfile"), "ls", "-A", "/c") == "check.sh\n"


def test_missing_image_says_so(builder: Builder) -> None:
    with pytest.raises(BuildFailed, match="not on the engine and could not be pulled"):
        builder.of_task(None, "127.0.0.1:9/nothing:here")


def test_looking_builds_nothing(engine: Engine, mark: str) -> None:
    looking = Builder(engine, build=False)
    with pytest.raises(NotBuilt, match=f"{mark} 1.2.3 on the default environment is not built"):
        looking.for_agent(looking.environment(), mark, tiny(mark))


def recipe(mark: str) -> Recipe:
    """One that gives another image each time it is built."""
    text = f"FROM debian:bookworm-slim\nRUN echo {mark} && cat /proc/sys/kernel/random/uuid >/once && sleep 1\n"
    return Recipe(mark, "assay-test", text, network="none", hosted=False)


def test_threads_and_processes_build_once(engine: Engine, mark: str, tmp_path: Path) -> None:
    program = (
        "import sys; from assay.sandbox.engine import Engine; from assay.sandbox.build import build_once;"
        "from tests.images.test_images import recipe; told = [];"
        "print(build_once(Engine.connect(), recipe(sys.argv[1]), told.append));"
        "print(sum('building assay-test' in line for line in told))"
    )
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    argv = [sys.executable, "-c", program, mark]
    processes = [subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    ends = [process.communicate(timeout=120)[0].split() for process in processes]
    assert len({image for image, _ in ends}) == 1
    assert sum(int(built) for _, built in ends) == 1

    other = f"{mark}-threads"
    told: list[str] = []
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(build_once(engine, recipe(other), told.append))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(found) == 3
    assert len(set(found)) == 1
    assert sum("building assay-test" in line for line in told) == 1


def test_build_has_a_clock(engine: Engine, mark: str) -> None:
    text = f"FROM debian:bookworm-slim\nRUN echo {mark}; while :; do echo on; sleep 0.1; done\n"
    with pytest.raises(BuildFailed, match="not done after 1 s"):
        build_once(engine, Recipe(mark, "assay-test", text, network="none", hosted=False), print, seconds=1)


@pytest.mark.cli
def test_claude_from_the_registry(engine: Engine, builder: Builder) -> None:
    from assay.model.registry import load_registry

    agent = load_registry().agents["claude"]
    image = builder.for_agent(builder.environment(), "claude", agent)
    assert output(engine, image, "claude", "--version") == f"{agent.version} (Claude Code)\n"
    assert output(engine, image, "sh", "-c", "command -v node npm pip; true") == ""
    labels = engine.api.inspect_image(image.id)["Config"]["Labels"]
    assert json.loads(json.dumps(labels))["assay.version"] == agent.version
