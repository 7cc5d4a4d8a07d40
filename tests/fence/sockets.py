"""Runs in a container: which sockets can be made, and what can be sent with them. One line each: name, verdict.

Arguments: an address that is refused, a pinned one, the gateway, a neighbour; the same of IPv6 where there is any.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
import sys
from collections.abc import Callable

OTHER, PINNED, GATEWAY, SIBLING = sys.argv[1:5]
OTHER6, LINK = sys.argv[5:7] if len(sys.argv) > 6 else ("", "")


def show(name: str, attempt: Callable[[], object]) -> None:
    try:
        verdict = str(attempt())
    except OSError as error:
        code = error.errno
        verdict = errno.errorcode.get(code, str(code)) if code else "TIMEOUT"
    print(name, verdict, flush=True)


def made(family: int, kind: int, protocol: int = 0) -> Callable[[], object]:
    def attempt() -> str:
        socket.socket(family, kind, protocol).close()
        return "MADE"

    return attempt


def option(level: int, number: int, value: int | bytes) -> Callable[[], object]:
    def attempt() -> str:
        with socket.socket() as made:
            made.setsockopt(level, number, value)
        return "SET"

    return attempt


def sent(
    family: int, kind: int, protocol: int, to: tuple[object, ...], data: bytes, answer: bool
) -> Callable[[], object]:
    def attempt() -> str:
        with socket.socket(family, kind, protocol) as made:
            made.settimeout(1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            made.sendto(data, to)
            if answer:
                made.recv(100)
                return "ANSWERED"
        return "SENT"

    return attempt


def connected(
    family: int, kind: int, protocol: int, to: tuple[object, ...], device: bytes = b""
) -> Callable[[], object]:
    def attempt() -> str:
        with socket.socket(family, kind, protocol) as made:
            made.settimeout(2)
            if device:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
            made.connect(to)
            made.send(b"x")
        return "CONNECTED"

    return attempt


def echo(address: str, scope: int = 0) -> Callable[[], object]:
    """An ICMP echo request by the socket that anybody may make."""
    if ":" in address:
        packet, to = struct.pack("!BBHHH", 128, 0, 0, 0, 0), (address, 0, 0, scope)
        return sent(socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6, to, packet, True)
    return sent(socket.AF_INET, socket.SOCK_DGRAM, 1, (address, 0), struct.pack("!BBHHH", 8, 0, 0xF7FF, 0, 0), True)


def netfilter_delete() -> str:
    """Ask the kernel to delete every connection it tracks, and show what it says."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as made:
        made.bind((0, 0))
        made.send(struct.pack("=IHHII", 20, 0x0102, 0x0005, 1, 0) + struct.pack("=BBH", 2, 0, 0))
        return errno.errorcode.get(-struct.unpack_from("=i", made.recv(200), 16)[0], "DONE")


def raw_call(number: int) -> Callable[[], object]:
    def attempt() -> str:
        library = ctypes.CDLL(None, use_errno=True)
        if library.syscall(number, 0, 0, 0) < 0:
            raise OSError(ctypes.get_errno(), "")
        return "DONE"

    return attempt


show("af_packet", made(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
for name, protocol in (("raw_icmp", 1), ("raw_tcp", 6)):
    show(name, made(socket.AF_INET, socket.SOCK_RAW, protocol))
show("raw_icmp6", made(socket.AF_INET6, socket.SOCK_RAW, 58))
show("so_mark", option(socket.SOL_SOCKET, 36, 1))
show("ip_transparent", option(0, 19, 1))
for name, family, kind in (
    ("alg", 38, socket.SOCK_SEQPACKET),
    ("vsock", 40, socket.SOCK_STREAM),
    ("xdp", 44, socket.SOCK_RAW),
    ("can", 29, socket.SOCK_RAW),
    ("tipc", 30, socket.SOCK_STREAM),
    ("rds", 21, socket.SOCK_SEQPACKET),
    ("smc", 43, socket.SOCK_STREAM),
    ("bluetooth", 31, socket.SOCK_RAW),
):
    show(name, made(family, kind))
show("bpf", raw_call(321))
show("conntrack_delete", netfilter_delete)
show("bind_to_device", connected(socket.AF_INET, socket.SOCK_STREAM, 0, (OTHER, 443), b"eth0\0"))
show("tcp_other", connected(socket.AF_INET, socket.SOCK_STREAM, 0, (OTHER, 443)))
show("udp_other", connected(socket.AF_INET, socket.SOCK_DGRAM, 0, (OTHER, 443)))
show("udp_pinned", connected(socket.AF_INET, socket.SOCK_DGRAM, 0, (PINNED, 443)))
show("udplite_other", connected(socket.AF_INET, socket.SOCK_DGRAM, 136, (OTHER, 443)))
show("sctp_other", connected(socket.AF_INET, socket.SOCK_STREAM, 132, (OTHER, 443)))
show("broadcast", sent(socket.AF_INET, socket.SOCK_DGRAM, 0, ("255.255.255.255", 9), b"x", False))
show("multicast", sent(socket.AF_INET, socket.SOCK_DGRAM, 0, ("224.0.0.251", 5353), b"x", False))
show("echo_loopback", echo("127.0.0.1"))
show("echo_other", echo(OTHER))
show("echo_pinned", echo(PINNED))
show("echo_gateway", echo(GATEWAY))
show("echo_sibling", echo(SIBLING))
if OTHER6:
    scope = socket.if_nametoindex("eth0")
    show("echo6_loopback", echo("::1"))
    show("echo6_other", echo(OTHER6))
    show("echo6_all_nodes", echo("ff02::1", scope))
    show("udp6_all_nodes", sent(socket.AF_INET6, socket.SOCK_DGRAM, 0, ("ff02::1", 9, 0, scope), b"x", False))
    show("tcp6_other", connected(socket.AF_INET6, socket.SOCK_STREAM, 0, (OTHER6, 443)))
    show("tcp6_link_local", connected(socket.AF_INET6, socket.SOCK_STREAM, 0, (LINK, 8080, 0, scope)))
