"""The profile: what it closes is closed, by whatever door; what people work with goes on working."""

from __future__ import annotations

import json

import pytest

from assay.sandbox.seccomp import ABSENT, DENIED, FAMILIES, profile
from tests.fence.conftest import Lab

CALLS = """
import ctypes, errno, mmap, os, struct, sys
library = ctypes.CDLL(None, use_errno=True)

def call(name, number, *args):
    result = library.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in args])
    print(name, "done" if result >= 0 else errno.errorcode[ctypes.get_errno()], flush=True)

for name, number, *args in (
    ("mount", 165, 0, 0, 0, 0, 0), ("unshare", 272, 0x40000000), ("setns", 308, 0, 0), ("bpf", 321, 0, 0, 0),
    ("keyctl", 250, 0, 0), ("perf_event_open", 298, 0, 0, 0, 0, 0), ("userfaultfd", 323, 0), ("clone3", 435, 0, 0),
    ("io_uring_setup", 425, 1, 0), ("fsopen", 430, 0, 0), ("open_by_handle_at", 304, 0, 0, 0),
    ("kexec_load", 246, 0, 0, 0, 0), ("personality_random", 135, 0x40000), ("personality", 135, 0),
):
    call(name, number, *args)
for name, flag in (("user", 0x10000000), ("net", 0x40000000), ("mount", 0x20000), ("pid", 0x20000000)):
    call("clone_" + name, 56, flag | 17, 0, 0, 0, 0)
# Not only the number itself: the kernel reads the lower half of the register, so a filter must too.
for family in (1, 2, 10, 16, 0, 3, 15, 17, 38, 40, 44, (1 << 32) | 40, (1 << 63) | 17):
    signed = family if family < 1 << 63 else family - (1 << 64)
    call("socket_%x" % family, 41, signed, 3 if family == 16 else 1, 0)

def apart(name, work):
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status:
        print(name, "killed", flush=True)

def int80(name, number, first, second):
    low = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40
    code, data = mmap.mmap(-1, 4096, flags=low, prot=7), mmap.mmap(-1, 4096, flags=low, prot=3)
    data.write(struct.pack("<III", 40, 1, 0))
    at = ctypes.addressof((ctypes.c_char * 4096).from_buffer(data)) if second is None else second
    code.write(b"\\x53\\xb8" + struct.pack("<I", number) + b"\\xbb" + struct.pack("<I", first) + b"\\xb9"
               + struct.pack("<I", at) + b"\\xcd\\x80\\x5b\\xc3")
    result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof((ctypes.c_char * 4096).from_buffer(code)))()
    print(name, "done" if result >= 0 else errno.errorcode[-result], flush=True)

if os.uname().machine == "x86_64":
    apart("x32_getpid", lambda: call("x32_getpid", 0x40000000 | 39))
    apart("i386_socketcall", lambda: int80("i386_socketcall", 102, 1, None))
    apart("i386_socket", lambda: int80("i386_socket", 359, 40, 1))
    apart("i386_getpid", lambda: int80("i386_getpid", 20, 0, 0))
"""

WORK = """
set -e
python3 - <<'END'
import concurrent.futures, multiprocessing, socket, subprocess, threading
with concurrent.futures.ThreadPoolExecutor(8) as pool: assert sum(pool.map(int, "12345")) == 15
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
assert subprocess.run(["true"]).returncode == 0
socket.getaddrinfo("localhost", 80)
END
node -e 'const { Worker } = require("worker_threads");
  const read = () => require("fs").promises.readFile("/etc/hosts").then(() => console.log("node"));
  new Worker("process.exit(0)", { eval: true }).on("exit", () => require("child_process").exec("true", read))'
cd /tmp && mkdir -p pack/DEBIAN pack/opt/x
printf '%s: x\\n' Package Maintainer Description >pack/DEBIAN/control
printf 'Version: 1\\nArchitecture: all\\n' >>pack/DEBIAN/control
dpkg-deb -b pack x.deb >/dev/null && dpkg -i x.deb >/dev/null && dpkg -s x | grep -q installed && echo dpkg
useradd --create-home someone && su someone -c id >/dev/null && userdel -r someone 2>/dev/null; echo users
mkdir pkg && echo '{"name":"pkg","version":"1.0.0"}' >pkg/package.json
npm install --offline ./pkg >/dev/null && echo npm
git init -q repo && cd repo && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && echo git
strace -f -o /dev/null true && echo strace
"""


def test_the_profile_is_made_from_the_table() -> None:
    made = json.loads(profile())
    assert made["defaultAction"] == "SCMP_ACT_ALLOW"
    whole = {name for entry in made["syscalls"] if not entry["args"] for name in entry["names"]}
    assert whole == {name for names in DENIED.values() for name in names} | set(ABSENT)
    assert all(entry["action"] == "SCMP_ACT_ERRNO" for entry in made["syscalls"])


def test_every_socket_family_has_its_verdict() -> None:
    refused: set[int] = set()
    above = 1 << 64
    for entry in json.loads(profile())["syscalls"]:
        if "socket" in entry["names"]:
            (argument,) = entry["args"]
            if argument["op"] == "SCMP_CMP_EQ":
                refused.add(argument["value"])
            else:
                assert argument["op"] == "SCMP_CMP_GT"
                above = argument["value"]
    assert {family for family in range(64) if family not in refused and family <= above} == set(FAMILIES.values())


@pytest.mark.docker
@pytest.mark.parametrize("user", ["0:0", "1000:1000"])
def test_what_is_closed_is_closed_by_every_door(lab: Lab, user: str) -> None:
    with lab.container("none", ("python3", "-c", CALLS), user=user, seccomp=profile()) as container:
        said = lab.output(container)
    verdicts = dict(line.split() for line in said.splitlines())
    allowed = {"personality", "socket_1", "socket_2", "socket_a", "socket_10", "i386_getpid"}
    assert {name for name, verdict in verdicts.items() if verdict == "done"} <= allowed
    assert {verdicts[name] for name in ("socket_1", "socket_2", "socket_a", "socket_10")} == {"done"}
    assert verdicts["clone3"] == verdicts["io_uring_setup"] == "ENOSYS"
    assert len(verdicts) >= 31
    others = {v for n, v in verdicts.items() if n not in {*allowed, "clone3", "io_uring_setup", "x32_getpid"}}
    assert others == {"EPERM"}


@pytest.mark.docker
def test_people_can_work_behind_it(lab: Lab) -> None:
    with lab.container("none", ("bash", "-c", WORK), seccomp=profile()) as container:
        assert lab.output(container).split() == ["node", "dpkg", "users", "npm", "git", "strace"]
