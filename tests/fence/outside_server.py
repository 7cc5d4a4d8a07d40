"""What answers in the pretend internet: TLS with a certificate by name (a shared front), plain HTTP, echo, a DNS sink.

Arguments: a folder with `<name>.pem`, then addresses. Everything seen is one line on standard output.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import socket
import socketserver
import ssl
import sys
import threading
from pathlib import Path

OUT = threading.Lock()
GO = threading.Event()


def tell(line: str) -> None:
    with OUT:
        print(line, flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        tell(f"GET {self.headers.get('Host')} {self.path}")
        for header in ("x-api-key", "authorization"):
            for value in self.headers.get_all(header, ()):
                tell(f"{header}: {value}")
        if self.path == "/v1/stream":
            self.stream()
        elif self.headers.get("Upgrade") == "websocket":
            self.upgraded()
        else:
            self.answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def stream(self) -> None:
        """One event, and the other only once somebody has asked for `/v1/go`."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"b\r\ndata: one\n\n\r\n")
        GO.wait(30)
        self.wfile.write(b"b\r\ndata: two\n\n\r\n0\r\n\r\n")

    def upgraded(self) -> None:
        """Every byte comes back."""
        self.send_response(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "websocket")
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        while data := self.connection.recv(4096):
            self.connection.sendall(data)
        self.close_connection = True

    def answer(self) -> None:
        if self.path == "/v1/go":
            GO.set()
        body = f"host={self.headers.get('Host')}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext | None = None

    def server_bind(self) -> None:
        # HTTPServer's own looks the address's name up, and waits for a resolver that is not there.
        socketserver.TCPServer.server_bind(self)

    def finish_request(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        if self.context:
            request.settimeout(10)
            request = self.context.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, *_: object) -> None:
        return


class Server6(Server):
    address_family = socket.AF_INET6


def front(folder: Path) -> ssl.SSLContext:
    contexts = {}
    for path in folder.glob("*.pem"):
        contexts[path.stem] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        contexts[path.stem].load_cert_chain(path)

    def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        tell(f"TLS {name}")
        if name in contexts:
            connection.context = contexts[name]

    contexts["api.vendor.test"].sni_callback = choose
    return contexts["api.vendor.test"]


def echo(address: str, port: int, family: socket.AddressFamily) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as server:
        server.bind((address, port))
        while True:
            data, client = server.recvfrom(4096)
            tell(f"UDP {port} {data[:80]!r}")
            server.sendto(data, client)


def plain(address: str, port: int) -> None:
    with socket.create_server((address, port)) as server:
        while True:
            client, _ = server.accept()
            tell(f"TCP {port}")
            client.close()


def main() -> None:
    folder, addresses = Path(sys.argv[1]), sys.argv[2:]
    context = front(folder)
    for address in addresses:
        kind, family = (Server6, socket.AF_INET6) if ":" in address else (Server, socket.AF_INET)
        for port, tls in ((443, context), (80, None)):
            server = kind((address, port), Handler)
            server.context = tls
            threading.Thread(target=server.serve_forever, daemon=True).start()
        for port in (443, 53, 123):
            threading.Thread(target=echo, args=(address, port, family), daemon=True).start()
        if family == socket.AF_INET:
            threading.Thread(target=plain, args=(address, 22), daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
