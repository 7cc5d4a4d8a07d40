"""A corporate network in one container: a proxy that wants a password, and a vendor's API that only it can reach.

    python3 corporate.py CERT USER:PASSWORD

Prints a line for each tunnel that was asked for.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ssl
import sys


async def vendor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers every request with the name it was asked by; a key is told by its digest."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"x-api-key: "):
            print("key", hashlib.sha256(line.split(b": ", 1)[1]).hexdigest(), flush=True)
    host = next((line.split(b" ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"host:")), b"?")
    body = b"hello from " + host + b"\n" + b"x" * 200_000 + b"\n"
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()
    writer.close()


async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """One direction of a tunnel."""
    while data := await source.read(65536):
        target.write(data)
        await target.drain()
    target.close()


async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Opens a tunnel to the vendor, whatever name was asked for."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    wanted = f"Proxy-Authorization: Basic {base64.b64encode(sys.argv[2].encode()).decode()}"
    allowed = wanted in head.split("\r\n")
    print(head.split("\r\n")[0], "allowed" if allowed else "refused", flush=True)
    if not allowed:
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        return
    there, back = await asyncio.open_connection("127.0.0.1", 443)
    writer.write(b"HTTP/1.1 200 Connection established\r\nX-Proxy: corporate\r\n\r\n")
    await asyncio.gather(copy(reader, back), copy(there, writer), return_exceptions=True)


async def main() -> None:
    """Serve both until the end."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1])
    await asyncio.start_server(vendor, "0.0.0.0", 443, ssl=context)
    server = await asyncio.start_server(proxy, "0.0.0.0", 3128)
    print("ready", flush=True)
    await server.serve_forever()


asyncio.run(main())
