"""Write the header of a tar member anew, with other names.

One name is laid out in several places: cut in two (ustar), in a record (pax) with its beginning once more in the header
of the record and in that of the member, or in a block of its own (GNU). So names are never changed where they lie: the
header is made anew from what they come to.
"""

from __future__ import annotations

from collections.abc import Callable

from assay.sandbox.archive import BLOCK, Member, pax_records

NAME, SIZE, SUM, KIND, LINK = slice(0, 100), slice(124, 136), slice(148, 156), slice(156, 157), slice(157, 257)
MAGIC, OWNERS, PREFIX = slice(257, 265), slice(265, 329), slice(345, 512)
USTAR = b"ustar\00000"
RECORDS = b"PaxHeaders/0"
"""What the block of records is called; who reads it knows it by its kind."""


def rewritten(member: Member, name: bytes, link: bytes, clean: Callable[[bytes], bytes]) -> bytes:
    """The header of a member, extensions included, with these names and everything else that is text cleaned.

    Args:
        member: As it was read.
        name: What it is called now.
        link: What it leads to now.
        clean: Gives back as many bytes as it takes.
    """
    records = {
        clean(key): clean(value) for key, value in pax_records(member.raw).items() if key not in (b"path", b"linkpath")
    }
    head = bytearray(member.raw[-BLOCK:])
    head[OWNERS] = clean(bytes(head[OWNERS]))
    head[PREFIX] = bytes(BLOCK - PREFIX.start)
    head[MAGIC] = USTAR
    for at, key, value in ((NAME, b"path", name), (LINK, b"linkpath", link)):
        head[at] = _fitted(value, at)
        if value:
            records[key] = value
    return _extension(records) + _summed(head)


def _summed(head: bytearray) -> bytes:
    head[SUM] = b" " * 8
    head[SUM] = b"%06o\0 " % sum(head)
    return bytes(head)


def _extension(records: dict[bytes, bytes]) -> bytes:
    data = b"".join(_record(key, value) for key, value in records.items())
    head = bytearray(BLOCK)
    head[NAME] = _fitted(RECORDS, NAME)
    head[100:108] = b"0000644\0"
    head[SIZE] = b"%011o\0" % len(data)
    head[KIND] = b"x"
    head[MAGIC] = USTAR
    return _summed(head) + data + bytes(-len(data) % BLOCK)


def _record(key: bytes, value: bytes) -> bytes:
    """`LENGTH KEY=VALUE` and a line feed; the length counts its own digits."""
    rest = len(key) + len(value) + 3
    length = rest + len(str(rest))
    length = rest + len(str(length))
    return b"%d %b=%b\n" % (length, key, value)


def _fitted(value: bytes, at: slice) -> bytes:
    room = at.stop - at.start
    return value[:room].ljust(room, b"\0")
