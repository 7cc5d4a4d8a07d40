"""Which addresses were refused: packets that the rules log to a netlink group, read without any tool.

Message layout: linux/netfilter/nfnetlink_log.h. The group is one of this network namespace, and binding it needs
NET_ADMIN, so the agent can neither read nor drain it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

NETLINK_NETFILTER = 12
MESSAGE, CONFIG = 4 << 8, 4 << 8 | 1
BIND, COPY_PACKET = 1, 2
CFG_CMD, CFG_MODE, PAYLOAD = 1, 2, 9
REQUEST, ACK = 1, 4
ERROR = 2
MOST_BYTES = 128

PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6", 132: "sctp", 136: "udplite"}
WITH_PORTS = (6, 17, 132, 136)
EXTENSIONS = (0, 43, 60)
FRAGMENT = 44


def listen(group: int) -> socket.socket:
    """A socket that receives the group's packets.

    Raises:
        OSError: The kernel refuses (no NET_ADMIN, or no packet log).
    """
    log = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    log.bind((0, 0))
    log.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    log.settimeout(2)
    for attribute in (
        struct.pack("=HHB3x", 5, CFG_CMD, BIND),
        struct.pack("=HH", 10, CFG_MODE) + struct.pack(">IBB2x", MOST_BYTES, COPY_PACKET, 0),
    ):
        body = struct.pack(">BBH", socket.AF_UNSPEC, 0, group) + attribute
        log.send(struct.pack("=IHHII", 16 + len(body), CONFIG, REQUEST | ACK, 0, 0) + body)
        answer = log.recv(4096)
        kind, code = struct.unpack_from("=H", answer, 4)[0], struct.unpack_from("=i", answer, 16)[0]
        if kind == ERROR and code:
            raise OSError(-code, "the kernel refuses the packet log")
    log.setblocking(False)
    return log


def refused(data: bytes) -> Iterator[str]:
    """What the packets of one netlink datagram were meant for, as `tcp 198.51.100.20:443`."""
    for kind, body in _messages(data):
        if kind == MESSAGE:
            for attribute, value in _attributes(body[4:]):
                if attribute == PAYLOAD and (told := describe(value)):
                    yield told


def describe(packet: bytes) -> str:
    """Protocol and destination of an IP packet, "" if it is none."""
    if len(packet) >= 20 and packet[0] >> 4 == 4:
        protocol, family, raw = packet[9], socket.AF_INET, packet[16:20]
        rest = b"" if struct.unpack_from(">H", packet, 6)[0] & 0x1FFF else packet[(packet[0] & 15) * 4 :]
    elif len(packet) >= 40 and packet[0] >> 4 == 6:
        family, raw = socket.AF_INET6, packet[24:40]
        protocol, rest = _last_header(packet[6], packet[40:])
    else:
        return ""
    address = socket.inet_ntop(family, raw)
    name = PROTOCOLS.get(protocol, f"protocol-{protocol}")
    if protocol not in WITH_PORTS or len(rest) < 4:
        return f"{name} {address}"
    port = struct.unpack_from(">H", rest, 2)[0]
    return f"{name} [{address}]:{port}" if family == socket.AF_INET6 else f"{name} {address}:{port}"


def _last_header(protocol: int, rest: bytes) -> tuple[int, bytes]:
    while len(rest) >= 8:
        if protocol in EXTENSIONS:
            protocol, rest = rest[0], rest[(rest[1] + 1) * 8 :]
        elif protocol == FRAGMENT:
            first = not struct.unpack_from(">H", rest, 2)[0] & 0xFFF8
            protocol, rest = rest[0], rest[8:] if first else b""
        else:
            break
    return protocol, rest


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 16:
        size, kind = struct.unpack_from("=IH", data)
        if size < 16:
            return
        yield kind, data[16:size]
        data = data[(size + 3) & ~3 :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        if size < 4:
            return
        yield kind & 0x3FFF, data[4:size]
        data = data[(size + 3) & ~3 :]
