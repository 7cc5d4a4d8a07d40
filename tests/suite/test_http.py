"""Servers behind an address, wrong in every way that HTTP allows."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from assay.suite.wire.connect import connect
from assay.suite.wire.faults import Gone, NoAnswer, StartFault
from assay.suite.wire.sse import Events
from assay.suite.wire.transport import Server, shown_url

Handle = Callable[[BaseHTTPRequestHandler, dict[str, Any]], object]


@contextmanager
def served(program: str, folder: Path) -> Iterator[str]:
    """A Python MCP server over streamable HTTP in a process of its own; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = folder / "http_oracle.py"
    file.write_text(program.replace("TRANSPORT", f'"streamable-http", host="127.0.0.1", port={port}'))
    server = subprocess.Popen(
        [sys.executable, str(file)], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
    )
    try:
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert server.poll() is None, "the server ended"
                assert time.monotonic() < end, "the server does not listen"
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@contextmanager
def http_server(handle: Handle, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """An HTTP server whose POSTs are answered by `handle(request, message)`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            handle(self, json.loads(body))

        def do_GET(self) -> None:
            handle(self, {"method": "GET"})

        def do_DELETE(self) -> None:
            handle(self, {"method": "DELETE"})

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that gave up is what these tests are about."""

    server = Quiet(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(request: BaseHTTPRequestHandler, status: int, body: bytes = b"", kind: str = "", **headers: str) -> None:
    request.send_response(status)
    for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
        if value:
            request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    request.wfile.write(body)


def result(message: dict[str, Any], value: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": value}).encode()


INIT = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "h", "version": "1"}}


def polite(request: BaseHTTPRequestHandler, message: dict[str, Any]) -> bool:
    """Answer the handshake; False for anything else."""
    if message["method"] == "initialize":
        send(request, 200, result(message, INIT), "application/json", mcp_session_id="s1")
    elif message["method"] in ("notifications/initialized", "notifications/cancelled"):
        send(request, 202)
    elif message["method"] == "DELETE":
        send(request, 200)
    else:
        return False
    return True


REFUSALS: dict[str, tuple[Handle, str]] = {
    "401": (
        lambda r, _: send(r, 401, b"no entry", "text/plain", www_authenticate='Bearer realm="x"'),
        'HTTP 401 Unauthorized, it wants: Bearer realm="x": no entry',
    ),
    "500": (lambda r, _: send(r, 500, b"oops\nmore", "text/plain"), "HTTP 500 Internal Server Error: oops"),
    "501": (lambda r, _: send(r, 501), "HTTP 501 Not Implemented"),
    "redirect": (
        lambda r, _: send(r, 307, location="https://elsewhere/mcp?key=secret"),
        "it points to https://elsewhere/mcp?…",
    ),
    "page": (
        lambda r, _: send(r, 200, b"<html>hello</html>", "text/html; charset=utf-8"),
        "HTTP 200 OK without a message (content type text/html, body: <html>hello</html>)",
    ),
    "no JSON": (
        lambda r, _: send(r, 200, b"{", "application/json"),
        "without a message (content type application/json",
    ),
    "empty": (lambda r, _: send(r, 200), "without a message (content type not given, body: (empty))"),
    "escape": (lambda r, _: send(r, 503, b"\x1b[2Jboo", "text/plain"), "HTTP 503 Service Unavailable: \\x1b[2Jboo"),
    "ended stream": (lambda r, _: send(r, 200, b": hi\n\n", "text/event-stream"), "the HTTP answer ended before"),
    "refused": (
        lambda r, m: send(
            r,
            400,
            json.dumps({"jsonrpc": "2.0", "id": m.get("id"), "error": {"code": -32000, "message": "no"}}).encode(),
        ),
        "the server refused: -32000 no",
    ),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_no_session(kind: str) -> None:
    handle, words = REFUSALS[kind]
    with http_server(handle) as url, pytest.raises(StartFault) as caught:
        connect(Server(url=url, transport="http", connect_timeout=5))
    assert words in caught.value.cause
    assert caught.value.evidence["url"] == url
    assert "secret" not in caught.value.told()


def test_nothing_listens_and_no_such_host() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(StartFault, match="connection refused"):
        connect(Server(url=f"http://127.0.0.1:{port}/mcp"))
    with pytest.raises(StartFault, match="the host name is not known"):
        connect(Server(url="http://no-such-host.invalid/mcp"))


def test_a_hang_is_told_in_time() -> None:
    over = threading.Event()
    with http_server(lambda *_: over.wait(10)) as url:
        begin = time.monotonic()
        with pytest.raises(StartFault, match="no answer within 1 s"):
            connect(Server(url=url, connect_timeout=1))
        assert 1 <= time.monotonic() - begin <= 1.5
        over.set()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_trickle_does_not_stretch_the_time_limit(streamed: bool) -> None:
    over = threading.Event()

    def handle(request: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        if polite(request, message):
            return
        request.send_response(200)
        request.send_header("content-type", "text/event-stream" if streamed else "application/json")
        request.send_header("content-length", "100000")
        request.end_headers()
        while not over.wait(0.1):
            request.wfile.write(b": keep-alive\n" if streamed else b" ")
            request.wfile.flush()

    with http_server(handle) as url, connect(Server(url=url)) as session:
        begin = time.monotonic()
        with pytest.raises(NoAnswer, match="no answer within 1 s"):
            session.call("a", seconds=1)
        assert 1 <= time.monotonic() - begin <= 1.5
        over.set()


def test_session_headers_keep_alive_and_delete() -> None:
    seen: list[tuple[str, str | None, str | None, int]] = []

    def handle(request: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        headers = request.headers
        seen.append(
            (message["method"], headers["mcp-session-id"], headers["mcp-protocol-version"], request.client_address[1])
        )
        assert headers["authorization"] == "Bearer t0ken"
        if not polite(request, message):
            send(request, 200, result(message, {"content": []}), "application/json")

    headers = {"Authorization": "Bearer t0ken"}
    with http_server(handle) as url, connect(Server(url=url, headers=headers)) as session:
        session.call("a")
        session.call("b")
    methods = [entry[0] for entry in seen]
    assert methods == ["initialize", "notifications/initialized", "tools/call", "tools/call", "DELETE"]
    assert [entry[1:3] for entry in seen] == [(None, None), *[("s1", "2025-11-25")] * 4]
    assert len({entry[3] for entry in seen[:4]}) == 1, "one connection was kept"


def test_a_stream_with_a_request_of_the_servers_in_it() -> None:
    answers: list[dict[str, Any]] = []

    def handle(request: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        if "method" not in message:
            answers.append(message)
            send(request, 202)
        elif not polite(request, message):
            ping = b'data: {"jsonrpc": "2.0",\r\ndata:  "id": 9, "method": "ping"}\r\n\r\n'
            other = b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n'
            final = b"id: 4\ndata: " + result(message, {"content": [{"type": "text", "text": "yes"}]}) + b"\n\n"
            send(request, 200, ping + other + final, "text/event-stream")

    with http_server(handle) as url, connect(Server(url=url)) as session:
        assert session.call("a").text == "yes"
    assert answers == [{"jsonrpc": "2.0", "id": 9, "result": {}}]


def test_a_stream_that_ends_early_is_resumed_where_it_may_be() -> None:
    def handle(request: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        if message["method"] == "GET":
            assert request.headers["last-event-id"] == "7"
            body = json.dumps({"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "late"}]}})
            send(request, 200, f"data: {body}\n\n".encode(), "text/event-stream")
        elif not polite(request, message):
            send(request, 200, b"id: 7\ndata:\n\n", "text/event-stream")

    with http_server(handle) as url, connect(Server(url=url)) as session:
        assert session.call("a").text == "late"


@pytest.mark.parametrize("status", [404, 500])
def test_a_call_refused_by_http(status: int) -> None:
    def handle(request: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        if not polite(request, message):
            send(request, status, b"gone", "text/plain")

    with http_server(handle) as url, connect(Server(url=url)) as session, pytest.raises(Gone) as caught:
        session.call("a")
    assert f"tools/call a: HTTP {status}" in str(caught.value)
    assert caught.value.evidence["status"].startswith(str(status))


def test_a_server_that_hangs_up() -> None:
    def handle(request: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        if not polite(request, message):
            request.connection.shutdown(socket.SHUT_RDWR)
            request.close_connection = True

    with http_server(handle) as url, connect(Server(url=url)) as session, pytest.raises(Gone, match="hung up"):
        session.call("a")


def test_an_old_server_that_names_another_host() -> None:
    def handle(request: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        if message["method"] == "GET":
            send(request, 200, b"event: endpoint\ndata: http://elsewhere/messages\n\n", "text/event-stream")
        else:
            send(request, 405)

    with http_server(handle) as url, pytest.raises(StartFault, match="on another host"):
        connect(Server(url=url, transport="sse"))


def test_addresses_are_shown_without_secrets() -> None:
    assert shown_url("https://me:pw@host:1/a/b?token=x#y") == "https://host:1/a/b?…"


def test_events_in_any_cut() -> None:
    stream = "\ufeffdata: a\r\n\r\nevent: x\rdata: b\rdata\r\rid: 3\n: note\ndata:ü\n\n".encode()
    wanted = [("message", "a"), ("x", "b\n"), ("message", "ü")]
    for size in range(1, len(stream) + 1):
        events = Events()
        found = [e for at in range(0, len(stream), size) for e in events.feed(stream[at : at + size])]
        assert [(event.name, event.data) for event in found] == wanted, size
        assert events.last_id == "3"


def test_https_with_a_ca_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    def handle(request: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        if not polite(request, message):
            send(
                request,
                200,
                result(message, {"content": [{"type": "text", "text": "x" * 200_000}]}),
                "application/json",
            )

    with http_server(handle, context) as url:
        with pytest.raises(StartFault, match="certificate verify failed"):
            connect(Server(url=url))
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        with connect(Server(url=url)) as session:
            assert len(session.call("a").text) == 200_000
