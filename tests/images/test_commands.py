"""`assay build`, `registry`, `doctor` and `clean`, as a user runs them."""

from __future__ import annotations

import socket
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay.commands.clean import _containers, _remove
from assay.commands.clean_images import Needed, built, needed
from assay.model.registry import Registry, load_registry
from assay.model.toml import validate
from assay.run.owner import me
from assay.sandbox.engine import Engine
from assay.sandbox.images import Builder
from assay.sandbox.spec import Spec
from tests.project import Project

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

MakeProject = Callable[..., Project]
CANARY = "canary-5f0e6a"


def test_build_says_what_is_ready_and_builds_nothing_twice(project: MakeProject) -> None:
    here = project()
    here.run("build", "--base").assert_code(0).assert_says("debian:bookworm-slim: ready")
    here.run("build", timeout=240).assert_code(0).assert_says("environment: ready", "fence: ready")
    lines = here.run("build", "--json").assert_code(0).json_lines()
    assert [line["image"] for line in lines] == ["environment", "fence"]
    assert all(line["seconds"] < 5 and line["bytes"] > 10**8 for line in lines)


def test_build_of_an_unknown_agent_is_refused(project: MakeProject) -> None:
    project().run("build", "claud").assert_refused("unknown agent 'claud'", "did you mean 'claude'")


def test_build_goes_on_after_one_agent_that_fails(project: MakeProject) -> None:
    entry = """
    [agents.{name}]
    title = "T"
    version = "1"
    decoder = "claude"
    hosts = []
    default_model = "m"
    install = {{ run = [{run}], check = ["sh", "-c", "echo 1"] }}
    launch = {{ run = ["sh"] }}
    """
    mark = f"t{uuid.uuid4().hex[:8]}"
    bad = entry.format(name=f"{mark}-bad", run="'echo broken; exit 1'")
    good = entry.format(name=f"{mark}-good", run="""'mkdir -p "$OUT/bin"; touch "$OUT/bin/good"'""")
    here = project({"agents.toml": bad + good})
    outcome = here.run("build", f"{mark}-bad", f"{mark}-good", timeout=200).assert_code(3)
    outcome.assert_says(f"{mark}-bad 1: build failed: a step exited with 1: broken", f"{mark}-good 1 on the default")
    found = {row["agent"]: row["built"] for row in here.run("registry", "--json").json()}
    assert found[f"{mark}-good"] is True
    assert found[f"{mark}-bad"] is False
    image = next(row["image"] for row in here.run("registry", f"{mark}-good", "--json").json())
    Engine.connect().api.remove_image(image, force=True)


def test_registry_lists_what_an_agent_accepts_and_needs(project: MakeProject) -> None:
    here = project()
    rows = {row["agent"]: row for row in here.run("registry", "--json").assert_code(0).json()}
    claude = rows["claude"]
    assert claude["version"] == "2.1.332"
    assert claude["efforts"] == ["low", "medium", "high", "xhigh", "max"]
    assert claude["models"]["claude-sonnet-4-5"] == []
    assert claude["hosts"] == ["api.anthropic.com"]
    assert claude["credentials"][:2] == ["CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY"]
    assert claude["built"] in (True, False)
    here.run("registry", "claude").assert_says("Claude Code 2.1.332", "default medium", "claude-sonnet-4-5: cannot be")


def test_registry_prints_whole_entries_that_can_be_copied(project: MakeProject) -> None:
    own = '[agents.codex]\nversion = "0.172.0"\n[agents.codex.models."gpt-7-sol"]\nefforts = ["low"]\n'
    here = project({"agents.toml": own})
    held = load_registry(here.root).agents
    printed = here.run("registry", "--toml").assert_code(0).out
    assert validate(Registry, tomllib.loads(printed), Path("printed")).agents == held
    one = here.run("registry", "codex", "--toml").assert_code(0).out
    assert set(tomllib.loads(one)["agents"]) == {"codex"}
    here.write({"agents.toml": own + one.replace("[agents.codex", "[agents.mine").replace("0.172.0", "0.173.0")})
    (mine,) = here.run("registry", "mine", "--json").json()
    assert (mine["version"], mine["models"]["gpt-7-sol"]) == ("0.173.0", ["low"])
    here.run("registry", "--toml", "--json").assert_refused("exclude each other")


def test_registry_works_without_an_engine(project: MakeProject) -> None:
    outcome = project().run("registry", "claude", env={"DOCKER_HOST": "unix:///nowhere.sock"}).assert_code(0)
    outcome.assert_says("no engine answers")


def test_doctor_names_credentials_and_never_shows_them(project: MakeProject, tmp_path: Path) -> None:
    here = project()
    env = {"ANTHROPIC_API_KEY": CANARY, "https_proxy": f"http://me:{CANARY}@localhost:3128"}
    outcome = here.run("doctor", "--json", env=env).assert_code(0)
    found = {finding["check"]: finding for finding in outcome.json()}
    assert CANARY not in outcome.out + outcome.err
    assert found["sign-in claude"]["found"] == "ANTHROPIC_API_KEY"
    assert found["sign-in codex"]["state"] == "note"
    assert found["proxy"]["state"] == "warning"
    for check in ("engine", "group", "base image", "disk runs", "clock", "CA bundle"):
        assert found[check]["state"] == "ok", found[check]


def test_doctor_says_what_to_do_without_an_engine(project: MakeProject) -> None:
    outcome = project().run("doctor", env={"DOCKER_HOST": "unix:///nowhere.sock"}).assert_code(2)
    outcome.assert_says("✗ engine:", "no Docker Engine answers", "→")


def test_doctor_finds_a_missing_bundle_and_a_broken_file(project: MakeProject) -> None:
    here = project({"assay.toml": '[defaults]\nca_bundle = "none.pem"\n'})
    here.run("doctor").assert_code(2).assert_says("none.pem is not there", "mend ca_bundle")
    here.write({"assay.toml": "[defaults]\njob = 3\n"})
    here.run("doctor").assert_code(2).assert_says("did you mean 'jobs'")


@pytest.fixture
def leave(engine: Engine) -> Iterator[Callable[..., str]]:
    """Leave a container behind, with labels."""
    made: list[str] = []
    image = Builder(engine).environment().id

    def make(**labels: str) -> str:
        named = {f"assay.{key}": value for key, value in labels.items()}
        made.append(engine.create(Spec(image=image, argv=["true"], name="", labels=named)))
        return made[-1]

    yield make
    for container in made:
        engine.remove(container)


def dead_owner() -> str:
    """The label of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return f"{process.pid}:0:{socket.gethostname()}"


def there(engine: Engine, container: str) -> bool:
    return any(found["Id"] == container for found in engine.containers())


RUN = 'id = "r"\nstate = "{state}"\ntask = "t"\nagent = "nop"\n'


def test_clean_removes_only_what_a_dead_owner_left_for_good(
    engine: Engine, project: MakeProject, leave: Callable[..., str]
) -> None:
    here = project()
    here.write({"runs/open/run.toml": RUN.format(state="running"), "runs/done/run.toml": RUN.format(state="committed")})
    root, dead = str(here.root), dead_owner()
    orphan = leave(owner=dead, project=root, run="gone")
    over = leave(owner=dead, project=root, run="done")
    kept = {
        "living": leave(owner=me(), project=root, run="gone"),
        "recoverable": leave(owner=dead, project=root, run="open"),
        "elsewhere": leave(owner="1:0:another-machine", project=root, run="gone"),
        "by hand": leave(),
    }
    planned = here.run("clean", "--dry-run", "--json").assert_code(0).json_lines()
    said = {line["id"]: line["what"] for line in planned}
    assert said[orphan] == said[over] == "would remove"
    assert said[kept["recoverable"]] == said[kept["elsewhere"]] == "left"
    assert kept["living"] not in said
    assert kept["by hand"] not in said
    assert there(engine, orphan)
    assert {thing.id for thing in _containers(engine, force=True) if thing.goes} >= {orphan, kept["recoverable"]}

    here.run("clean").assert_code(0).assert_says("removed container", "assay recover can finish the run")
    assert not there(engine, orphan)
    assert not there(engine, over)
    assert all(there(engine, container) for container in kept.values())


def test_clean_removes_a_snapshot_whose_run_is_gone(
    engine: Engine, project: MakeProject, leave: Callable[..., str]
) -> None:
    open_run = RUN.format(state="running") + "[times]\n"
    here = project({"runs/open/run.toml": open_run, "runs/over/run.toml": open_run.replace("running", "committed")})
    container = leave()
    ids = {}
    for run in ("open", "over", "gone"):
        labels = {
            "assay.owner": dead_owner(),
            "assay.project": str(here.root),
            "assay.run": run,
            "assay.snapshot": run,
        }
        ids[run] = engine.commit(container, "assay-snapshot", f"{run}-{uuid.uuid4().hex[:8]}", labels)
    try:
        here.run("clean").assert_code(0).assert_says("the directory of its run is gone", "does not name it")
        assert engine.image(ids["gone"]) is None
        assert engine.image(ids["over"]) is None
        assert engine.image(ids["open"]) is not None
    finally:
        engine.api.remove_image(ids["open"], force=True)


NEEDS = """id = "{id}"
state = "{state}"
task = "t"
agent = "nop"
owner = "{owner}"
resumable = {resumable}
checker_image = "{image}"
{more}
[times]
"""


def test_clean_of_images_leaves_those_that_a_run_still_needs(
    engine: Engine, project: MakeProject, leave: Callable[..., str]
) -> None:
    here, mark, container, ids = project(), f"assay-test-{uuid.uuid4().hex[:8]}", leave(), {}
    dead = dead_owner()
    runs = {
        "open": ("running", "false", ""),
        "unfinished": ("committed", "true", 'snapshot = "sha256:0"'),
        "anew": ("committed", "true", ""),
        "over": ("committed", "false", 'snapshot = "sha256:0"'),
    }
    for n, (name, (state, resumable, more)) in enumerate(runs.items()):
        ids[name] = engine.commit(container, mark, name, {"assay.title": "test", "assay.test": name})
        run = f"2026010{n + 1}T000000Z-t-nop-000{n}"
        record = NEEDS.format(id=run, state=state, owner=dead, resumable=resumable, image=ids[name], more=more)
        here.write({f"runs/{run}/run.toml": record})
    try:
        said = {}
        for given in ({"force": False, "snapshots": False}, {"force": True, "snapshots": True}):
            need = needed(engine, here.root, **given)
            need.busy = ""  # other tests are at work on this engine
            said[given["force"]] = {thing.id: thing for thing in built(engine, need) if thing.name.startswith(mark)}
        assert {name.partition(":")[2] for name, thing in said[False].items() if thing.goes} == {"anew", "over"}
        assert "20260101T000000Z-t-nop-0000 is not over" in said[False][f"{mark}:open"].why
        assert "can be gone on with" in said[False][f"{mark}:unfinished"].why
        assert all(thing.goes for thing in said[True].values())
        for thing in said[False].values():
            if thing.goes:
                _remove(engine, thing)
        assert {name for name, image in ids.items() if engine.image(image) is not None} == {"open", "unfinished"}
    finally:
        for image in ids.values():
            if engine.image(image) is not None:
                engine.api.remove_image(image, force=True)


def test_clean_of_images_leaves_all_while_an_assay_is_at_work(
    engine: Engine, project: MakeProject, leave: Callable[..., str]
) -> None:
    """Images that it has made ready for runs that are to come are in no record yet."""
    here, mark = project(), f"assay-test-{uuid.uuid4().hex[:8]}"
    image = engine.commit(leave(), mark, "1", {"assay.title": "test"})
    try:
        leave(owner=me(), project=str(here.root), run="a")
        lines = here.run("clean", "--images", "--dry-run", "--json").assert_code(0).json_lines()
    finally:
        engine.api.remove_image(image, force=True)
    said = {line["name"]: line for line in lines if line["kind"] == "image"}
    assert said[f"{mark}:1"]["what"] == "left"
    assert "an assay is at work that may need it" in said[f"{mark}:1"]["why"]
    assert {line["what"] for name, line in said.items() if name.startswith("assay-env:")} == {"left"}


def test_clean_of_images_says_what_can_be_built_again(engine: Engine) -> None:
    found = {thing.name: thing for thing in built(engine, Needed())}
    named = [thing for name, thing in found.items() if name.startswith("assay-env:")]
    assert named
    assert all(thing.goes and thing.why == "can be built again (environment)" for thing in named)
