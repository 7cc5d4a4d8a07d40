"""A credential planted in a run is found nowhere else: not while the run goes on, not in what it leaves behind.

The agent is hostile: it prints its credential, encodes it and writes it all over the place.
"""

from __future__ import annotations

import json
import signal
import uuid
from pathlib import Path

import pytest

from assay.model.outcome import Ending
from assay.run.record import read_record
from assay.sandbox.archive import Put, pack
from assay.sandbox.engine import Engine
from tests.conftest import MakeProject
from tests.credentials import shelly
from tests.credentials.shelly import put, sign_in, task
from tests.credentials.traces import Sampler, in_files, in_image, layers_above, on_the_engine, written
from tests.project import Project

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

SPREAD = """
s=$SHELLY_TOKEN
[ -n "$s" ] || s=$(sed 's/.*"access_token": "\\([^"]*\\)".*/\\1/' ~/.shelly/auth.json)
echo "the token is $s"; echo "{\\"token\\": \\"$s\\"}"; echo "on stderr: $s" >&2
printf %s "$s" | base64 -w0; echo; printf "x%s" "$s" | base64 -w0; echo; printf "xx%s" "$s" | base64 -w0; echo
for place in /app ~ ~/.cache/deep /tmp; do
    mkdir -p $place; echo "$s" >$place/plain.txt; printf "x%s" "$s" | base64 -w0 >$place/coded.txt
done
ln ~/.cache/deep/plain.txt ~/.cache/deep/hard.txt
head -c 300000 /dev/zero | tr '\\0' 'a' >/app/long.txt; echo "$s" >>/app/long.txt
cp -r ~/.shelly /app/stolen 2>/dev/null
env >/app/env.txt; sleep 1; echo spread
"""

ENDS = {
    "finished": ("exit 0", Ending.FINISHED),
    "timeout": ("sleep 600", Ending.TIMEOUT),
    "interrupted": ("sleep 600", Ending.INTERRUPTED),
}


@pytest.mark.parametrize("kind", ["env", "file"])
@pytest.mark.parametrize(("end", "ending"), ENDS.values(), ids=ENDS)
def test_a_canary_is_in_no_trace(project: MakeProject, kind: str, end: str, ending: Ending) -> None:
    here = project(task(SPREAD + end))
    secrets = plant(here, kind)
    needles, engine = written(secrets.values()), Engine.connect()
    sampler = Sampler(needles, here.root)
    sampler.start()
    limit = "6s" if ending is Ending.TIMEOUT else "5m"
    env = {"SHELLY_TOKEN": secrets["env"]} if kind == "env" else {}
    running = here.start("run", "tasks/t", "--agent", "shelly", "--timeout", limit, env=env)
    running.wait_for("spread")
    if ending is Ending.INTERRUPTED:
        running.signal(signal.SIGINT)
    out = running.finish(120)
    sampler.stop()
    record = read_record(here.runs[0])
    assert record.ending is ending, str(out)
    assert (record.secrets_redacted or 0) > 5
    try:
        assert sampler.seen == []
        assert sampler.rounds > 20
        assert sampler.launched, "the launcher was never seen in the process list, so this test sees nothing"
        assert len(sampler.containers) >= 2
        assert [needle for needle in needles if needle in (out.out + out.err).encode()] == []
        assert in_files(needles, here.root) == []
        assert list(on_the_engine(needles, sampler.containers)) == []
        assert (record.snapshot is not None) is (ending is Ending.INTERRUPTED)
        if record.snapshot is not None:
            assert in_image(needles, engine, record.snapshot, record.image) == []
    finally:
        if record.snapshot is not None:
            engine.remove_image(record.snapshot)


def plant(here: Project, kind: str) -> dict[str, str]:
    """Canaries for one kind of credential."""
    if kind == "env":
        return {"env": f"canary-{uuid.uuid4().hex}"}
    content = sign_in(f"canary-{uuid.uuid4().hex}")
    put(Path(here.env["HOME"]), content)
    return {name: content["tokens"][name] for name in ("access_token", "refresh_token")}


def test_the_search_finds_what_is_there(project: MakeProject) -> None:
    """Without the harness's care each of these would be found: the search itself is no blind one."""
    here = project({"runs/r/events.jsonl": f"x {'canary-1234567890'}"})
    needles = written(["canary-1234567890"])
    assert len(in_files(needles, here.root)) == 1
    engine, base = Engine.connect(), "debian:bookworm-slim"
    container = engine.api.create_container(
        base, ["true"], environment={"T": "canary-1234567890"}, labels={"assay.test": "canary"}
    )["Id"]
    secret = "canary-1234567890"
    left = [Put("content", f"a {secret} b".encode()), Put(f"name-{secret}"), Put("link", link=f"/to/{secret}")]
    engine.put(container, pack(left))
    image = engine.commit(container, "assay-test", uuid.uuid4().hex[:12], {"assay.test": "canary"})
    try:
        for parent in (None, base):
            found = in_image(needles, engine, image, parent)
            assert {where.split(":")[0] for where in found} >= {"config", "layers"}
        above = {where.split(":")[1].strip() for where in found if where.startswith("layers")}
        assert above >= {"content", f"name-{secret}", "link"} or layers_above(engine, image, base) is None
    finally:
        engine.remove_image(image)
        engine.remove(container)


def test_a_secret_in_the_name_of_a_file_is_not_kept_in_a_snapshot(project: MakeProject) -> None:
    here = project(task('echo >~/"the $SHELLY_TOKEN"; echo >"/app/$SHELLY_TOKEN"; echo begun; sleep 600'))
    secret = f"canary-{uuid.uuid4().hex}"
    running = here.start("run", "tasks/t", "--agent", "shelly", env={"SHELLY_TOKEN": secret})
    running.wait_for("begun")
    running.signal(signal.SIGINT)
    running.finish(60).assert_code(130)
    record = read_record(here.runs[0])
    assert record.snapshot is None
    assert in_files(written([secret]), here.root) == []
    assert record.resumable


NAMED = """
s=$SHELLY_TOKEN; long=$(printf %090d 0)
mkdir -p "/app/$s/deep" "/app/$long/$s" "/data/$s"
echo x >"/app/$s/deep/file"; echo x >"/app/$long/$s/$long"; echo x >"/data/$s/kept"
ln -s "/app/$s" /app/link; ln -s "/app/$long/$s/$long" /app/$long/link; ln "/app/$s/deep/file" "/app/$long/$s/twin"
ln -s "$s" ~/link; mkfifo "/app/$s/deep/fifo"; echo named; sleep 600
"""


def test_a_secret_with_slashes_that_paths_are_made_of(project: MakeProject) -> None:
    """However long the path: no name or link of what was left shows it, nor a part of it, and the rest is as it was."""
    dockerfile = "FROM debian:bookworm-slim\nRUN mkdir /data && chmod 777 /data\nVOLUME /data\n"
    here = project({**task(NAMED), "tasks/t/Dockerfile": dockerfile})
    parts = [uuid.uuid4().hex[:20] for _ in range(3)]
    out = here.run(
        "run", "tasks/t", "--agent", "shelly", "--timeout", "4s", env={"SHELLY_TOKEN": "/".join(parts)}, timeout=120
    )
    (run,) = here.runs
    assert read_record(run).ending is Ending.TIMEOUT, str(out)
    assert in_files(written([*parts[:2], "/".join(parts)]), here.root) == []
    starred, long = "*" * 62, "0" * 90
    assert (run / "left" / starred / "deep" / "file").read_text() == "x\n"
    assert (run / "left" / long / starred / "twin").read_text() == "x\n"
    assert (run / "left" / long / starred / long).read_text() == "x\n"
    listed = (run / "left-listed.txt").read_text()
    assert f"link: link -> /app/{starred}\n" in listed
    assert f"fifo: {starred}/deep/fifo\n" in listed
    assert f"A {long}/{starred}/twin\n" in (run / "changes.txt").read_text()


def test_a_secret_in_a_link_or_a_volume_is_not_kept_in_a_snapshot(project: MakeProject) -> None:
    dockerfile = "FROM debian:bookworm-slim\nRUN mkdir /data && chmod 777 /data\nVOLUME /data\n"
    command = (
        's=$SHELLY_TOKEN; mkdir -p "/data/$s"; echo x >"/data/$s/kept"; ln -s "/x/$s" ~/link; echo begun; sleep 600'
    )
    here = project({**task(command), "tasks/t/Dockerfile": dockerfile})
    parts = [uuid.uuid4().hex[:20] for _ in range(3)]
    env = {"SHELLY_TOKEN": "/".join(parts)}
    running = here.start("run", "tasks/t", "--agent", "shelly", env=env)
    running.wait_for("begun")
    running.signal(signal.SIGINT)
    running.finish(60).assert_code(130)
    engine, record = Engine.connect(), read_record(here.runs[0])
    assert record.snapshot
    try:
        assert in_files(written([*parts[:2], "/".join(parts)]), here.root) == []
        assert in_image(written(["/".join(parts)]), engine, record.snapshot) == []
        seen = here.run("resume", "last", "--prompt", "find /data -type f; readlink ~/link", env=env, timeout=120)
        seen.assert_code(0).assert_says(f"/data/{'*' * 62}/kept", f"/x/{'*' * 62}")
    finally:
        engine.remove_image(record.snapshot)


def test_a_resumed_run_gets_its_credential_anew(project: MakeProject) -> None:
    """The snapshot holds an empty file; the launcher writes the user's present one."""
    here = project(task("echo begun; sleep 600"))
    first = sign_in("first")
    path = put(Path(here.env["HOME"]), first)
    running = here.start("run", "tasks/t", "--agent", "shelly")
    running.wait_for("begun")
    running.signal(signal.SIGINT)
    running.finish(60).assert_code(130)
    engine, record = Engine.connect(), read_record(here.runs[0])
    assert record.snapshot
    assert in_image(written([first["tokens"]["access_token"]]), engine, record.snapshot, record.image) == []
    second = sign_in("second")
    put(Path(here.env["HOME"]), second)
    say = "cut -c1-40 ~/.shelly/auth.json; stat -c 'mode %a %u' ~/.shelly/auth.json"
    resumed = here.run("resume", "last", "--prompt", say, timeout=120).assert_code(0)
    text = (here.runs[-1] / "transcript.txt").read_text()
    assert "mode 600 1000" in text, str(resumed)
    assert '{"tokens": {"access_token": "' in text
    assert json.loads(path.read_text()) == second
    assert read_record(here.runs[-1]).resumed_from == record.id
    assert shelly.FILE in str(path)
