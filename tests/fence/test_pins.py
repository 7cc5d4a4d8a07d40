"""What may be pinned, and to where."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from assay.model.errors import FenceFailed
from assay.sandbox.pins import check, engine_host, look_up, resolve
from assay.sandbox.rules import Pin


def answering(monkeypatch: pytest.MonkeyPatch, answers: dict[str, list[str]]) -> None:
    """Names are looked up in this table; everything else is as it is."""

    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        if host not in answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", (address, port)) for address in answers[host]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def test_hosts_are_pinned_to_all_their_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, {"api.vendor.test": ["8.8.4.4", "2600::1", "8.8.4.4"], "b.test": ["8.8.4.5"]})
    assert resolve(["API.vendor.test.", "b.test", "api.vendor.test"]) == (
        Pin("api.vendor.test", ("8.8.4.4", "2600::1")),
        Pin("b.test", ("8.8.4.5",)),
    )


@pytest.mark.parametrize("address", ["127.0.0.1", "192.168.1.9", "169.254.169.254", "fd00::1", "224.0.0.1"])
def test_a_host_that_leads_inside_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    answering(monkeypatch, {"api.vendor.test": ["8.8.4.4", address]})
    with pytest.raises(FenceFailed, match=r"api\.vendor\.test resolves to .* not of the public internet"):
        resolve(["api.vendor.test"])


def test_the_machines_own_name_is_refused_for_real() -> None:
    with pytest.raises(FenceFailed, match="localhost resolves to"):
        resolve(["localhost"])


def test_an_unknown_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, {})
    with pytest.raises(FenceFailed, match="cannot be looked up on this machine: Name or service not known"):
        resolve(["nowhere.test"])


def test_looking_up_has_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    hang = threading.Event()

    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        hang.wait(30)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert look_up(["slow.test"], 443, 0.1) == ["no answer within 0.1 s"]
    hang.set()


@pytest.mark.parametrize("host", ["", "a b", 'a"b', "a;b", "-a.test", "a..b", "x" * 64 + "\n", "Ä.test", "a.test\n"])
def test_a_pin_needs_a_plain_host_name(host: str) -> None:
    with pytest.raises(FenceFailed):
        check(Pin(host, ("8.8.4.4",)))


@pytest.mark.parametrize("pin", [Pin("a.test", ()), Pin("a.test", ("8.8.4.4",), ()), Pin("a.test", ("8.8.4",))])
def test_a_pin_needs_addresses_and_ports(pin: Pin) -> None:
    with pytest.raises(FenceFailed):
        check(pin)


def test_only_code_may_pin_a_private_address() -> None:
    check(Pin("a.test", ("10.0.0.1",), private=True))
    with pytest.raises(FenceFailed):
        check(Pin("a.test", ("10.0.0.1",)))


def test_the_engines_host_is_this_machine_unless_it_is_named() -> None:
    own = engine_host("http+docker://localhost", "")
    assert own
    assert not any(address.startswith("127.") or address == "::1" for address in own)
    assert engine_host("https://8.8.4.4:2376", "") == ("8.8.4.4",)
    assert engine_host("http+docker://ssh", "ssh://me@8.8.4.5") == ("8.8.4.5",)
