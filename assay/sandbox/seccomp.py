"""The system calls that an agent's container may not make: one table, and the engine's JSON made from it.

The default is to allow, minus the table. An allow-list would have to follow every new call that a language's run-time
learns to use, and breaks whatever it does not know; what such calls could do is mostly gated by capabilities that the
agent has none of (and no user namespace gives it any: those are closed below). The table covers what the engine's own
profile keeps from a container without added capabilities, and three things that it leaves open or did for years:

- sockets beyond Unix, IPv4, IPv6 and netlink. AF_VSOCK is no part of a network namespace: on an engine in a virtual
  machine it reaches the hypervisor past every rule (Docker 20.10.24 lets it through). Families above netlink are
  refused by range, because the kernel reads the lower half of the register and the filter compares all of it;
- `socketcall`, the 32-bit way to make a socket, whose arguments a filter cannot see;
- io_uring, which makes sockets without the `socket` call.
"""

from __future__ import annotations

import json
from typing import Any

EPERM, ENOSYS = 1, 38

NEW_NAMESPACES = {
    "mount": 0x00020000,
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
}
"""Flags of clone(2) that make a namespace; with one of its own, a process has capabilities in it."""

DENIED: dict[str, tuple[str, ...]] = {
    "namespaces and what hangs in them": ("unshare", "setns", "sethostname", "setdomainname"),
    "mounts": (
        "mount",
        "umount",
        "umount2",
        "pivot_root",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "move_mount",
        "open_tree",
        "open_tree_attr",
        "mount_setattr",
        "statmount",
        "listmount",
    ),
    "files past their paths": ("open_by_handle_at", "name_to_handle_at", "fanotify_init", "quotactl", "quotactl_fd"),
    "the kernel itself": (
        "init_module",
        "finit_module",
        "delete_module",
        "create_module",
        "query_module",
        "get_kernel_syms",
        "kexec_load",
        "kexec_file_load",
        "reboot",
        "swapon",
        "swapoff",
        "syslog",
        "acct",
        "vhangup",
        "_sysctl",
        "sysfs",
        "uselib",
        "ustat",
        "nfsservctl",
        "lookup_dcookie",
    ),
    "programs in the kernel, and watching it": ("bpf", "perf_event_open", "userfaultfd", "kcmp"),
    "keys, which are no part of any namespace": ("add_key", "request_key", "keyctl"),
    "the clock": ("settimeofday", "clock_settime", "clock_settime64", "clock_adjtime", "clock_adjtime64", "stime"),
    "hardware": ("iopl", "ioperm", "vm86", "vm86old"),
    "memory of other nodes": (
        "mbind",
        "set_mempolicy",
        "set_mempolicy_home_node",
        "get_mempolicy",
        "migrate_pages",
        "move_pages",
    ),
    "sockets that no filter sees": ("socketcall",),
}
"""Refused with EPERM, as the kernel itself refuses them without capabilities."""

ABSENT = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")
"""Refused as if the kernel had none, which programs are ready for: the C library goes back to clone, whose flags a
filter can read (clone3 has them in memory); event loops go back to epoll."""

FAMILIES = {"unix": 1, "inet": 2, "inet6": 10, "netlink": 16}
"""The socket families that stay open; netlink reads addresses and routes, and every change through it is refused."""

PERSONALITIES = 0x20008
"""The highest personality that stays open (32 bit and old kernel names); above are those that weaken the layout of
memory, and the query, which its callers can do without."""

ARCHITECTURES = (
    ("SCMP_ARCH_X86_64", ("SCMP_ARCH_X86",)),
    ("SCMP_ARCH_AARCH64", ("SCMP_ARCH_ARM",)),
)
"""What programs may be made of; the x32 numbers, a second way to every call, are not among them. On all of these the
flags of clone are its first argument."""


def profile() -> str:
    """The profile as the engine takes it inline (`seccomp=<JSON>`)."""
    return json.dumps(_profile(), separators=(",", ":"))


def _profile() -> dict[str, Any]:
    calls = [_refuse(names) for names in DENIED.values()]
    calls.append(_refuse(ABSENT, code=ENOSYS))
    calls += [_refuse(("clone",), value=flag, op="SCMP_CMP_MASKED_EQ", two=flag) for flag in NEW_NAMESPACES.values()]
    highest = max(FAMILIES.values())
    calls += [
        _refuse(("socket", "socketpair"), value=family) for family in range(highest) if family not in FAMILIES.values()
    ]
    calls.append(_refuse(("socket", "socketpair"), value=highest, op="SCMP_CMP_GT"))
    calls.append(_refuse(("personality",), value=PERSONALITIES, op="SCMP_CMP_GT"))
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "archMap": [{"architecture": main, "subArchitectures": list(sub)} for main, sub in ARCHITECTURES],
        "syscalls": calls,
    }


def _refuse(
    names: tuple[str, ...], code: int = EPERM, value: int | None = None, op: str = "SCMP_CMP_EQ", two: int = 0
) -> dict[str, Any]:
    """One entry; with a value, only calls whose first argument compares so."""
    args = [] if value is None else [{"index": 0, "value": value, "valueTwo": two, "op": op}]
    return {"names": list(names), "action": "SCMP_ACT_ERRNO", "errnoRet": code, "args": args}
