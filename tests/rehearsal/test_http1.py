"""HTTP and TLS of the stand-in at their edges."""

from __future__ import annotations

import contextlib
import socket
import ssl

import pytest

from tests.rehearsal.conftest import Serve
from tests.rehearsal.loopback import HOST, Server

SCRIPT = '[[turn]]\ntext = "one"\ntimes = 100'


def raw(server: Server, data: bytes) -> bytes:
    """Send bytes, and read until the server closes."""
    with server.connect() as sock:
        sock.sendall(data)
        parts = []
        while part := sock.recv(65536):
            parts.append(part)
        return b"".join(parts)


def test_another_name_gets_no_handshake(serve: Serve) -> None:
    server = serve(SCRIPT)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for name in ("example.com", None):
        with pytest.raises(ssl.SSLError):
            server.connect(name, context)
    assert server.connect(HOST, context).close() is None  # type: ignore[func-returns-value]
    problems = server.report().problems
    assert [p.split(":")[0] for p in problems] == ["a connection got no TLS"] * 2 + ["never reached"]


def test_a_client_that_does_not_trust_the_authority_refuses(serve: Serve) -> None:
    server = serve(SCRIPT)
    with pytest.raises(ssl.SSLCertVerificationError):
        server.connect(HOST, ssl.create_default_context())


def test_a_client_that_wants_http2_gets_http1(serve: Serve) -> None:
    with serve(SCRIPT).connect() as sock:
        assert sock.selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"hello\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n", b"400"),
        (b"POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", b"400"),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nfffffffff\r\n", b"413"),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n-5\r\n", b"413"),
    ],
)
def test_what_is_no_request_is_refused_once(serve: Serve, request_bytes: bytes, status: bytes) -> None:
    server = serve(SCRIPT)
    try:
        answer = raw(server, request_bytes)
    except OSError:
        # What was not read when the server closed resets the connection.
        answer = b"HTTP/1.1 " + status
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert server.report().requests[0].kind == "malformed"
    assert server.ask().text == "one"


def test_a_body_in_chunks_is_read(serve: Serve) -> None:
    server = serve(SCRIPT)
    body = b'{"messages": [{"role": "user", "content": "chunky"}], "tools": [{"name": "Bash"}]}'
    head = (
        b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\nconnection: close\r\nexpect: 100-continue\r\n\r\n"
    )
    answer = raw(
        server, head + b"8;ext=1\r\n" + body[:8] + b"\r\n%x\r\n" % len(body[8:]) + body[8:] + b"\r\n0\r\nt: 1\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
    assert server.report().requests[0].raw["last"] == "chunky"


def test_a_connection_without_tls_does_not_block_others(serve: Serve) -> None:
    server = serve(SCRIPT)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as silent:
        assert server.ask().text == "one"
        silent.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert not silent.recv(100).startswith(b"HTTP")
    assert [request.kind for request in server.report().requests] == ["main", "no TLS"]
