"""The programs of the fence's container, as far as they can be tried without one."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.sandbox.fence_image import gate, names, nflog
from assay.sandbox.fence_image.tally import Tally
from assay.sandbox.rules import Pin

PINNED = {"api.vendor.test": ["198.51.100.2", "198.51.100.3", "2001:db8:f::2"]}


def query(name: str, kind: int = 1, flags: int = 0x0100) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode("latin-1") for part in name.split(".") if part)
    return struct.pack(">HHHHHH", 0x1234, flags, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)


def reply(raw: bytes) -> tuple[int, int, list[bytes]]:
    """Id, code and the data of the answers."""
    asked = names.parse(raw)
    assert asked is not None
    said = names.answer(asked, PINNED)
    number, flags, _, count, _, _ = struct.unpack_from(">HHHHHH", said)
    assert flags & 0x8000
    rest, data = said[12 + len(asked.raw) :], []
    for _ in range(count):
        size = struct.unpack_from(">H", rest, 10)[0]
        data.append(rest[12 : 12 + size])
        rest = rest[12 + size :]
    assert not rest
    return number, flags & 15, data


def test_a_pinned_name_has_its_addresses() -> None:
    assert reply(query("API.Vendor.test")) == (0x1234, 0, [socket.inet_aton(a) for a in PINNED["api.vendor.test"][:2]])
    assert reply(query("api.vendor.test", 28))[2] == [socket.inet_pton(socket.AF_INET6, "2001:db8:f::2")]


def test_a_pinned_name_has_nothing_else() -> None:
    assert reply(query("api.vendor.test", 65))[1:] == (0, [])


@pytest.mark.parametrize("name", ["secret.exfil.test", "vendor.test", "x.api.vendor.test", ""])
def test_no_other_name_exists(name: str) -> None:
    assert reply(query(name))[1:] == (3, [])


def test_more_addresses_than_a_datagram_holds_are_cut() -> None:
    asked = names.parse(query("many.test", 28))
    assert asked is not None
    said = names.answer(asked, {"many.test": [f"2001:db8::{n:x}" for n in range(1, 40)]})
    assert len(said) <= 512
    assert struct.unpack_from(">H", said, 6)[0] >= 10


@pytest.mark.parametrize("raw", [b"", b"x" * 11, query("a.test", flags=0x8100), query("a.test")[:-3]])
def test_what_is_no_query_is_not_answered(raw: bytes) -> None:
    assert names.parse(raw) is None


@settings(deadline=None)
@given(st.binary(max_size=600))
def test_any_datagram_is_survived(raw: bytes) -> None:
    asked = names.parse(raw)
    if asked:
        assert asked.name.isascii()
        assert asked.name.isprintable()
        assert len(asked.name) <= names.LONGEST
        assert len(names.answer(asked, PINNED)) <= 512


def test_odd_names_are_told_in_plain_characters() -> None:
    asked = names.parse(query("a\nb\x1b.test"))
    assert asked is not None
    assert asked.name == "a\\010b\\027.test"


def packet4(protocol: int, to: str, port: int = 443, fragment: int = 0) -> bytes:
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40, 0, fragment, 64, protocol, 0, bytes(4), socket.inet_aton(to))
    return head + struct.pack(">HH", 40000, port)


def packet6(protocol: int, to: str, port: int = 443, extension: bytes = b"") -> bytes:
    first = 0 if extension else protocol
    head = struct.pack(">IHBB16s16s", 6 << 28, 4, first, 64, bytes(16), socket.inet_pton(socket.AF_INET6, to))
    return head + extension + struct.pack(">HH", 40000, port)


@pytest.mark.parametrize(
    ("packet", "told"),
    [
        (packet4(6, "198.51.100.4"), "tcp 198.51.100.4:443"),
        (packet4(17, "198.51.100.4", 53), "udp 198.51.100.4:53"),
        (packet4(17, "198.51.100.4", 53, fragment=5), "udp 198.51.100.4"),
        (packet4(1, "198.51.100.4"), "icmp 198.51.100.4"),
        (packet4(47, "198.51.100.4"), "protocol-47 198.51.100.4"),
        (packet6(6, "2001:db8::4"), "tcp [2001:db8::4]:443"),
        (packet6(17, "2001:db8::4", 53, bytes([17, 0]) + bytes(6)), "udp [2001:db8::4]:53"),
        (b"\x45", ""),
        (b"", ""),
    ],
)
def test_packets_are_told_by_where_they_were_going(packet: bytes, told: str) -> None:
    assert nflog.describe(packet) == told


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_packet_is_survived(raw: bytes) -> None:
    nflog.describe(raw)
    list(nflog.refused(raw))


def test_a_tally_is_bounded() -> None:
    tally = Tally(most=3)
    for n in range(10):
        tally.add(f"name{n}")
        tally.add("name0")
    assert tally.counts == {"name0": 11, "name1": 1, "name2": 1}
    assert (tally.others, tally.total) == (7, 20)


def test_the_gate_lets_each_name_to_its_own_host_only() -> None:
    text = gate.config((Pin("a.test", ("8.8.4.4", "2600::1"), (443, 8443)), Pin("b.test", ("8.8.4.5",))), ipv6=False)
    assert "server s0 8.8.4.4:443" in text
    assert "server s0 8.8.4.4:8443" in text
    assert "2600::1" not in text
    assert "server s1 [2600::1]:443" in gate.config((Pin("a.test", ("8.8.4.4", "2600::1")),), ipv6=True)
    port_8443 = text.split("frontend port_8443")[1].split("backend")[0]
    assert "b.test" not in port_8443
