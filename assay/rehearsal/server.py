"""The stand-in's server: answers as the vendor's API would, from a script, and keeps a record of what was asked.

Runs in a container of its own, with the standard library alone:

    python3 -m assay.rehearsal.server /standin/play.json

It prints `ready PORT` when it listens. The record (JSON lines) is a file; nothing of it is served. One line a request
is written before the answer is sent, and one more with `outcome` when the answer is out or the client is gone.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

from assay.rehearsal.http1 import Connection, Malformed, tls
from assay.rehearsal.play import Play, Player
from assay.rehearsal.protocol import Answer, Asked, Heard, Json, Speaker, shorten

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import RawIOBase

SPEAKERS = {
    "anthropic": "assay.rehearsal.anthropic:Anthropic",
    "openai-responses": "assay.rehearsal.responses:Responses",
    "openai-chat": "assay.rehearsal.openai:Chat",
    "xai": "assay.rehearsal.xai:Xai",
    "gemini": "assay.rehearsal.gemini:Gemini",
}
"""The class that speaks each protocol, by the name that agents.toml uses: a new protocol is a file and a line here."""

IDLE_SECONDS = 900
MAX_RECORD = 64 << 20
SECRET_HEADER = re.compile(r"auth|api-?key|cookie|token|secret", re.IGNORECASE)
SECRET_QUERY = re.compile(r"([?&](?:key|[a-z_]*token)=)[^&]*", re.IGNORECASE)


class Record:
    """The JSON lines of what was asked. Safe to use from several threads.

    Args:
        file: Where they go, unbuffered.
    """

    def __init__(self, file: RawIOBase) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._size = 0
        self._n = 0

    def number(self) -> int:
        """The next request's number, from 1."""
        with self._lock:
            self._n += 1
            return self._n

    def write(self, line: Json) -> None:
        """Add a line; beyond the limit one line says so and the rest is left out."""
        data = json.dumps(line).encode() + b"\n"
        with self._lock:
            if self._size > MAX_RECORD:
                return
            self._size += len(data)
            self._file.write(data if self._size <= MAX_RECORD else b'{"n": 0, "kind": "full"}\n')


class Server:
    """Listens, and gives each connection a thread.

    Args:
        config: `api`, `hosts`, `script`, `shell`, `first`, `bodies`, `port`, `cert`, `key`, `record`.
    """

    def __init__(self, config: Json) -> None:
        self._speaker = speaker(config["api"])
        self._player = Player(config["script"], config["shell"], self._speaker, config["first"])
        self._record = Record(open(config["record"], "ab", buffering=0))  # noqa: SIM115, PTH123 - for as long as it runs
        self._bodies: bool = config["bodies"]
        self._tls = tls(config["cert"], config["key"], config["hosts"])
        self._socket = socket.create_server((config["address"], config["port"]), backlog=128)
        self.port: int = self._socket.getsockname()[1]

    def serve(self) -> None:
        """Accept connections until the process is stopped."""
        while True:
            try:
                sock, _ = self._socket.accept()
            except OSError:  # a client that left before it was taken
                continue
            try:
                threading.Thread(target=self._connection, args=(sock,), daemon=True).start()
            except RuntimeError:  # no more threads
                sock.close()

    def _connection(self, raw: socket.socket) -> None:
        raw.settimeout(IDLE_SECONDS)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = raw
        try:
            sock = secure = self._tls.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
            secure.do_handshake()
        except OSError as error:
            self._record.write({"n": self._record.number(), "kind": "no TLS", "error": shorten(str(error))})
            sock.close()
            return
        connection = Connection(sock)
        try:
            heard = connection.hear()
            while heard is not None and self._answer(connection, heard):
                heard = connection.hear()
        except Malformed as error:
            self._record.write({"n": self._record.number(), "kind": "malformed", "error": str(error)})
            with contextlib.suppress(OSError):
                connection.send_whole(error.status, {"connection": "close"}, b"")
        except OSError:
            pass  # the client is gone; what it was sent is in the record
        except Exception as error:
            self._record.write({"n": self._record.number(), "kind": "fault", "error": shorten(repr(error))})
            raise
        finally:
            connection.close()

    def _answer(self, connection: Connection, heard: Heard) -> bool:
        """Answer one request; whether the connection goes on."""
        asked = self._speaker.listen(heard)
        n = self._record.number()
        line = _line(n, heard, asked)
        if self._bodies and asked.messages:
            line["body"] = heard.json()
        if asked.answer is not None:
            turn, answer = {}, asked.answer
        else:
            play, settled = self._player.take(asked)
            turn, answer = play.turn, self._words(asked, play)
            line |= {"turn": play.position, "how": play.how, "settled": settled}
            line["awaits"] = [
                call.id
                for call, step in zip(play.calls, turn.get("calls", []), strict=True)
                if "expect" in step or "fails" in step
            ]
        line["status"] = None if "before" in (turn.get("hang"), turn.get("cut")) else answer.status
        self._record.write(line)

        def record(outcome: str) -> None:
            self._record.write({"n": n, "outcome": outcome})

        try:
            return deliver(connection, heard, answer, turn, record)
        except OSError:
            record("gone")
            raise

    def _words(self, asked: Asked, play: Play) -> Answer:
        if "status" in play.turn or "limit" in play.turn:
            return self._speaker.refuse(asked, play.turn, play.serial)
        return self._speaker.speak(asked, play.turn, play.calls, play.serial)


def speaker(api: str) -> Speaker:
    """Who speaks a protocol; only its own file is imported."""
    module, _, name = SPEAKERS[api].partition(":")
    made: Speaker = getattr(importlib.import_module(module), name)()
    return made


def deliver(connection: Connection, heard: Heard, answer: Answer, turn: Json, record: Callable[[str], None]) -> bool:
    """Send an answer as the turn says, with its delays, hangs and cuts; whether the connection goes on.

    `record` is told the outcome: `sent` just before the last byte goes out, so that who has the answer also finds it
    recorded; or `cut`, `hung`, `gone`.
    """
    if "delay" in turn and connection.gone(turn["delay"]):
        record("gone")
        return False
    if "before" in (turn.get("hang"), turn.get("cut")):
        return _break_off(connection, turn, record)
    broken = "hang" in turn or "cut" in turn
    if answer.events is None:
        body = answer.body
        if broken:
            headers = {**answer.headers, "content-length": str(len(body))}
            connection.sock.sendall(connection.head(answer.status, headers) + body[: len(body) // 2])
            return _break_off(connection, turn, record)
        record("sent")
        connection.send_whole(answer.status, answer.headers, body, bare=heard.method == "HEAD")
        return heard.goes_on
    connection.send_head(answer.status, answer.headers)
    for event in answer.events[: max(1, len(answer.events) // 2)] if broken else answer.events:
        connection.send_chunk(event)
        if "pace" in turn and connection.gone(turn["pace"]):
            record("gone")
            return False
    if broken:
        return _break_off(connection, turn, record)
    record("sent")
    connection.send_chunk(b"")
    return heard.goes_on


def _break_off(connection: Connection, turn: Json, record: Callable[[str], None]) -> bool:
    if "hang" in turn:
        connection.gone(turn.get("hold"))
    record("hung" if "hang" in turn else "cut")
    return False


def _line(n: int, heard: Heard, asked: Asked) -> Json:
    """What the record keeps of a request."""
    line: Json = {
        "n": n,
        "at": round(time.time(), 3),
        "method": heard.method,
        "path": shorten(SECRET_QUERY.sub(r"\1…", heard.path)),
        "headers": {name: _plain(name, value) for name, value in heard.headers.items()},
        "size": len(heard.body),
        "kind": asked.kind,
        "label": asked.label,
    }
    if asked.messages:
        line |= {
            "model": asked.model,
            "effort": asked.effort,
            "tools": asked.tools,
            "streaming": asked.streaming,
            "messages": asked.messages,
            "last": asked.last,
            "results": [
                {"call": result.call, "error": result.error, "text": shorten(result.text)} for result in asked.results
            ],
        }
    return line


def _plain(name: str, value: str) -> str:
    """A header's value, or only its scheme and length where it is a credential."""
    if not SECRET_HEADER.search(name):
        return shorten(value)
    scheme, space, secret = value.rpartition(" ")
    return f"{scheme}{space}<{len(secret)} characters>"


def main(path: str) -> None:
    """Serve as the configuration file says."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs 10 ms of start
        server = Server(json.load(file))
    print("ready", server.port, flush=True)
    server.serve()


if __name__ == "__main__":
    main(sys.argv[1])
