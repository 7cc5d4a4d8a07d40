"""What an agent may leave: kept or listed, bounded in time and disk, and nothing outside runs/<id>/."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import tarfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
import pytest
import zstandard

from tests.project import Project

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]

TASK = {
    "tasks/t/prompt.md": "Do your worst.",
    "tasks/t/files/given.txt": "given\n",
    "tasks/t/files/deep/er.txt": "deep\n",
    "tasks/t/checker/check.sh": "#!/bin/sh\ncat ./* >/dev/null 2>&1\ntest -e proof || exit 1\n",
}


def record(run: Path) -> dict[str, Any]:
    return tomllib.loads((run / "run.toml").read_text())


def leave(project: Project, command: str, code: int, timeout: float = 120) -> Path:
    project.run("run", "tasks/t", "--agent", "script", "--command", command, timeout=timeout).assert_code(code)
    return project.runs[-1]


def tar_of(run: Path) -> dict[str, tarfile.TarInfo]:
    with (run / "left.tar.zst").open("rb") as file:
        data = zstandard.ZstdDecompressor().stream_reader(file).read()
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as tar:
        return {member.name: member for member in tar}


def unsafe(root: Path) -> list[str]:
    """Anything below a folder that is no plain file or directory, or has odd bits."""
    odd = []
    for folder, names, files in os.walk(os.fsencode(root)):
        for name in (*names, *files):
            mode = os.lstat(os.path.join(folder, name)).st_mode  # noqa: PTH118
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH):
                odd.append(os.fsdecode(name))
    return odd


def everything(project: Project) -> dict[str, tuple[int, int, bytes]]:
    """The project's folder and the user's home, runs/ aside: names, modes, times of change, contents."""
    found = {}
    for root in (project.root, Path(project.env["HOME"])):
        for path in root.rglob("*"):
            if (project.root / "runs") not in (path, *path.parents):
                about = path.lstat()
                content = path.read_bytes() if path.is_file() else b""
                found[str(path)] = (about.st_mode, about.st_mtime_ns, content)
    return found


def test_everything_odd_is_kept_or_listed(project: Callable[..., Project]) -> None:
    here = project(TASK)
    before = everything(here)
    run = leave(
        here,
        "touch proof; echo x > closed; chmod 000 closed; mkdir shut; echo y > shut/in; chmod 000 shut; mkfifo pipe;"
        "ln -s /etc/passwd link; ln -s ../../../.. up; ln -s . loop; ln given.txt twin; chmod 4755 proof;"
        "python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.bind('sock')\";"
        "python3 -c \"import os; open(b'bad\\xff\\nname','w').close(); open('-rf','w').close()\";"
        "mkdir -p 'a/../b'; rm -rf deep",
        0,
    )
    members = tar_of(run)
    assert members["app/closed"].mode & 0o7777 == 0
    assert members["app/link"].linkname == "/etc/passwd"
    assert members["app/pipe"].isfifo()
    assert os.fsdecode(b"app/bad\xff\nname") in members
    assert unsafe(run / "left") == []
    assert (run / "left/closed").read_text() == "x\n"
    assert (run / "left/shut/in").read_text() == "y\n"
    listed = (run / "left-listed.txt").read_text()
    assert "link: link -> /etc/passwd" in listed
    assert "fifo: pipe" in listed
    assert "sock" in listed
    changes = (run / "changes.txt").read_text().splitlines()
    assert {"A closed", "A link", "A pipe", "A proof", "D deep/er.txt", 'A "bad\\377\\nname"', "A -rf"} <= set(changes)
    assert not any(line.endswith(" given.txt") for line in changes)
    assert everything(here) == before


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("cd / && rm -rf /app/* && rmdir /app 2>/dev/null; true", None),
        ("rm -rf given.txt deep", None),
    ],
)
def test_nothing_left_is_a_fail(project: Callable[..., Project], command: str, reason: str | None) -> None:
    run = leave(project(TASK), command, 1)
    assert record(run)["verdict"] == "fail"


@pytest.mark.parametrize("target", ["/etc", "/", "/proc"])
def test_a_working_directory_replaced_by_a_link(project: Callable[..., Project], target: str) -> None:
    files = {**TASK, "tasks/t/task.toml": 'user = "root"\n'}
    run = leave(project(files), f"cd /; rm -rf /app; ln -s {target} /app", 1)
    assert record(run)["verdict"] == "fail"
    assert "replaced by a link" in record(run)["left_reason"]
    assert set(tar_of(run)) == set()


def test_many_small_files(project: Callable[..., Project]) -> None:
    files = {**TASK, "tasks/t/checker/check.sh": "#!/bin/sh\ntest $(ls many | wc -l) = 50000 || exit 1\n"}
    make = "import os\nos.mkdir('many')\nfor n in range(50000): open(f'many/{n}','w').write(str(n))"
    here = project(files)
    outcome = here.run("run", "tasks/t", "--agent", "script", "--command", f'python3 -c "{make}"', timeout=200)
    outcome.assert_code(0)
    assert record(here.runs[-1])["changes"] == 50000


def test_a_huge_sparse_file_is_too_large(project: Callable[..., Project]) -> None:
    here = project(TASK)
    outcome = here.run(
        "run", "tasks/t", "--agent", "script", "--command", "touch proof; truncate -s 10T big", timeout=100
    )
    outcome.assert_code(3)
    found = record(here.runs[-1])
    assert found["left"] == "truncated"
    assert found["verdict"] == "checker-error"
    assert "MiB" in found["verdict_reason"]
    assert outcome.seconds < 60
    size = sum(path.lstat().st_size for path in here.runs[-1].rglob("*"))
    assert size < 10 << 20


def test_paths_too_long_are_not_lost_in_silence(project: Callable[..., Project]) -> None:
    make = "import os\nfor n in range(60): os.mkdir('d'*200); os.chdir('d'*200)\nopen('deep','w').close()"
    run = leave(project(TASK), f'touch proof; python3 -c "{make}"', 3)
    assert record(run)["left"] == "truncated"
    assert "path" in record(run)["left_reason"]


def test_timeout_is_a_result(project: Callable[..., Project]) -> None:
    """Nothing of the agent ticks once collection begins, nor what it put into the background."""
    checker = '#!/bin/sh\na=$(cat tick behind); sleep 1; test "$a" = "$(cat tick behind)" || exit 1\n'
    here = project({**TASK, "tasks/t/checker/check.sh": checker})
    ticking = "trap '' TERM; n=0; while :; do n=$((n+1)); echo $n > {0}; echo {0} $n; sleep 0.05; done"
    loop = f'setsid sh -c "$BEHIND" & {ticking.format("tick")}'
    here.write({"tasks/t/task.toml": f'[env]\nBEHIND = "{ticking.format("behind")}"\n'})
    outcome = here.run("run", "tasks/t", "--agent", "script", "--command", loop, "--timeout", "5s", timeout=60)
    outcome.assert_code(0)
    run = here.runs[-1]
    found = record(run)
    assert (found["ending"], found["verdict"], found["resumable"]) == ("timeout", "pass", False)
    assert found["times"]["seconds"] < 8
    # Grading takes a second of it; the rest is for a machine with other things to do.
    assert (found["times"]["committed"] - found["times"]["started"]).total_seconds() < 20
    told = [line.split() for line in (run / "events.jsonl").read_text().splitlines()]
    for name in ("tick", "behind"):
        last = max(int(number) for who, number in told if who == name)
        # It writes first and tells then, and may be killed in between.
        assert int((run / "left" / name).read_text()) in (last, last + 1)
    assert {"A tick", "A behind"} <= set((run / "changes.txt").read_text().splitlines())


def test_a_daemon_that_holds_the_output_does_not_hold_the_run(project: Callable[..., Project]) -> None:
    here = project(TASK)
    outcome = here.run("run", "tasks/t", "--agent", "script", "--command", "touch proof; sleep 600 & echo done")
    outcome.assert_code(0)
    found = record(here.runs[-1])
    assert found["ending"] == "finished"
    assert found["times"]["seconds"] < 5


def test_output_is_kept_byte_for_byte(project: Callable[..., Project]) -> None:
    """A burst, a line of a megabyte, bytes that are no text, no line break at the end."""
    here = project(TASK)
    make = (
        "import sys\no=sys.stdout.buffer\n"
        "for n in range(60000): o.write(b'line %d\\n' % n)\n"
        "o.write(b'x'*3000000+b'\\n\\xff\\x00\\x1b[31m\\r\\nend')\no.flush()\nsys.stderr.write('to stderr')"
    )
    leave(here, f'touch proof; python3 -c "{make}"', 0)
    run = here.runs[-1]
    expected = b"".join(b"line %d\n" % n for n in range(60000)) + b"x" * 3000000 + b"\n\xef\xbf\xbd\x00\x1b[31m\r\nend"
    assert (run / "events.jsonl").read_bytes() == expected
    assert (run / "stderr.log").read_bytes() == b"to stderr"
    shown = (run / "transcript.txt").read_text()
    assert "\x1b" not in shown
    assert "\x00" not in shown


def test_a_flood_of_output_ends_the_run(project: Callable[..., Project]) -> None:
    here = project({**TASK, "tasks/t/task.toml": 'disk = "8MiB"\n'})
    command = "touch proof; yes this line is printed for ever"
    outcome = here.run("run", "tasks/t", "--agent", "script", "--command", command, timeout=100)
    outcome.assert_code(0)
    found = record(here.runs[-1])
    assert (found["ending"], found["verdict"]) == ("gave-up", "pass")
    assert "disk limit" in found["reason"]
    assert (here.runs[-1] / "events.jsonl").stat().st_size < 10 << 20


def test_a_sparse_file_stays_sparse(project: Callable[..., Project]) -> None:
    """A file of 50 MiB that holds one byte takes up next to nothing in left/, and is what it was."""
    here = project({"tasks/t/prompt.md": "Make it."})
    command = "truncate -s 50M big && printf x | dd of=big bs=1 seek=30000000 conv=notrunc && truncate -s 70000 small"
    here.run("run", "tasks/t", "--agent", "script", "--command", command, timeout=100).assert_code(0)
    left = here.runs[-1] / "left"
    big = (left / "big").stat()
    assert (big.st_size, (left / "small").read_bytes()) == (50 << 20, bytes(70000))
    assert big.st_blocks * 512 <= 1 << 20, "so much of it is on the disk"
    with (left / "big").open("rb") as file:
        file.seek(29_999_999)
        assert file.read(3) == b"\0x\0"
    assert (here.runs[-1] / "left.tar.zst").stat().st_size < 1 << 20


def test_control_characters_never_reach_the_terminal(project: Callable[..., Project]) -> None:
    check = "#!/bin/sh\nprintf '\\033]0;owned\\007\\033[2J\\r'; printf '\\302\\233 31m'; test -e proof || exit 1\n"
    here = project({**TASK, "tasks/t/checker/check.sh": check})
    command = "printf '\\033[31mred\\033[0m\\r\\a\\n'; printf 'bad' >&2; touch proof \"$(printf 'n\\033[5mame')\""
    outcome = here.run("run", "tasks/t", "--agent", "script", "--command", command).assert_code(0)
    for shown in (outcome, here.run("show", "last"), here.run("ls")):
        for char in "\x1b\x07\x9b\r\x00":
            assert char not in shown.out + shown.err, str(shown)


def test_modes_and_links_of_given_files_arrive(project: Callable[..., Project]) -> None:
    here = project(TASK)
    tool = here.root / "tasks/t/files/tool"
    tool.write_text("#!/bin/sh\necho ran > proof\n")
    tool.chmod(0o755)
    (here.root / "tasks/t/files/to").symlink_to("tool")
    run = leave(here, "./to; ls -ln; pwd; id -u", 0)
    said = (run / "events.jsonl").read_text()
    assert "/app" in said
    assert said.rstrip().endswith("1000")
    assert (run / "changes.txt").read_text() == "A proof\n"


def test_a_task_with_its_own_dockerfile(project: Callable[..., Project]) -> None:
    """Files of the image's own: what the agent deleted stays deleted for the checker, what it changed is a change."""
    here = project(
        {
            "tasks/t/prompt.md": "Delete one, change one.",
            "tasks/t/Dockerfile": (
                "FROM debian:bookworm-slim\nRUN mkdir -p /srv/app && cd /srv/app && echo a > gone && echo b > changed "
                '&& echo c > same\nENV LD_PRELOAD=/nowhere.so\nVOLUME /srv/data\nUSER nobody\nENTRYPOINT ["false"]\n'
                "HEALTHCHECK --interval=1s CMD echo well >>/srv/app/health\nSTOPSIGNAL SIGUSR1\n"
            ),
            "tasks/t/task.toml": 'workdir = "/srv/app"\n',
            "tasks/t/checker/check.sh": (
                "#!/bin/sh\ntest ! -e gone || exit 1\n"
                "test $(cat changed) = B || exit 1\ntest $(cat same) = c || exit 1\n"
            ),
        }
    )
    command = "rm gone; echo B > changed; echo $LD_PRELOAD; id -un; sleep 2.5"
    run = leave(here, command, 0, timeout=200)
    assert (run / "changes.txt").read_text() == "M changed\nD gone\n"
    assert (run / "events.jsonl").read_text() == "\nagent\n"


def test_a_working_directory_that_the_image_declares_a_volume(project: Callable[..., Project]) -> None:
    """It is no part of the container's own files; it is kept and graded all the same, and no volume stays behind."""
    here = project(
        {
            **TASK,
            "tasks/t/Dockerfile": "FROM debian:bookworm-slim\nRUN mkdir /app && echo a > /app/own\nVOLUME /app\n",
            "tasks/t/checker/check.sh": "#!/bin/sh\nsleep 1\ngrep proof proof && grep a own && grep given given.txt",
        }
    )
    command = "echo proof > proof; rm -rf deep; sleep 1"
    running = here.start("run", "tasks/t", "--agent", "script", "--command", command)
    seen: set[str] = set()
    with contextlib.closing(docker.APIClient(version="auto", timeout=60)) as api:
        while running.process.poll() is None:
            for container in api.containers(filters={"label": f"assay.project={here.root}"}):
                seen |= {mount["Name"] for mount in container["Mounts"] if mount["Type"] == "volume"}
        running.finish().assert_code(0)
        left = {volume["Name"] for volume in api.volumes()["Volumes"] or []}
    assert len(seen) >= 2, "the agent's and the checker's"
    assert not seen & left
    run = here.runs[-1]
    assert (run / "left/own").read_text() == "a\n"
    assert set((run / "changes.txt").read_text().splitlines()) == {"A proof", "D deep/er.txt"}
