"""The resolver inside the fence: it answers the pinned names, and says at once that no other exists.

A name that is asked is the report's best witness: most attempts end here and never become a packet.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

A, AAAA, INTERNET = 1, 28, 1
NXDOMAIN, NOT_IMPLEMENTED = 3, 4
RESPONSE, RECURSION = 0x8000, 0x0080
MOST_BYTES = 512
LONGEST = 256
"""Characters of a name as it is reported; escapes can make one four times as long."""
SECONDS = 60


class Question(NamedTuple):
    """What a query asks; `raw` is the question section, to be given back byte for byte."""

    id: int
    flags: int
    name: str
    type: int
    raw: bytes


def parse(query: bytes) -> Question | None:
    """The one question of a query, None if the bytes are no such thing."""
    if len(query) < 12:
        return None
    number, flags, questions = struct.unpack_from(">HHH", query)
    if flags & RESPONSE or questions != 1:
        return None
    labels, at = [], 12
    while at < len(query) and query[at]:
        size = query[at]
        if size > 63 or at - 12 + size > 254:
            return None
        labels.append(query[at + 1 : at + 1 + size])
        at += 1 + size
    if at + 5 > len(query):
        return None
    kind = struct.unpack_from(">H", query, at + 1)[0]
    return Question(
        number, flags, ".".join(_plain(label) for label in labels)[:LONGEST] or ".", kind, query[12 : at + 5]
    )


def answer(question: Question, pinned: Mapping[str, Sequence[str]]) -> bytes:
    """The reply from the pins alone: addresses, nothing (a pinned name's other types), or no such name."""
    records: list[bytes] = []
    code = 0
    if question.flags & 0x7800:
        code = NOT_IMPLEMENTED
    elif question.name not in pinned:
        code = NXDOMAIN
    else:
        family = {A: socket.AF_INET, AAAA: socket.AF_INET6}.get(question.type)
        for address in pinned[question.name]:
            if family == (socket.AF_INET6 if ":" in address else socket.AF_INET):
                data = socket.inet_pton(family, address)
                records.append(struct.pack(">HHHIH", 0xC00C, question.type, INTERNET, SECONDS, len(data)) + data)
    room = (MOST_BYTES - 12 - len(question.raw)) // 28
    records = records[:room]
    flags = RESPONSE | RECURSION | question.flags & 0x7900 | code
    return struct.pack(">HHHHHH", question.id, flags, 1, len(records), 0, 0) + question.raw + b"".join(records)


def _plain(label: bytes) -> str:
    return "".join(
        chr(byte) if byte in b"abcdefghijklmnopqrstuvwxyz0123456789-_" else f"\\{byte:03d}" for byte in label.lower()
    )
