"""The stand-in's server as a process on loopback, and a client that asks what the vendor's CLI would ask."""

from __future__ import annotations

import contextlib
import copy
import http.client
import json
import socket
import ssl
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from assay.model.registry import Rehearsal, ShellCall
from assay.rehearsal.report import Report, judge, read
from assay.rehearsal.script import parse
from assay.rehearsal.vendor import configuration
from assay.sandbox.trust import issue

ROOT = Path(__file__).parents[2]
HOST = "api.anthropic.com"
REHEARSAL = Rehearsal(
    api="anthropic",
    hosts=[HOST],
    shell=[
        ShellCall(tool="Bash", input={"command": "{command}", "description": "d"}),
        ShellCall(tool="exec", input="run({command_json})"),
    ],
)
TOOLS = ("Bash", "Read", "Agent")


class Server:
    """A running server. Use as a context manager.

    Args:
        folder: Where its files go.
        script: TOML text.
    """

    def __init__(self, folder: Path, script: str, *, first: int = 0, bodies: bool = False) -> None:
        self.record = folder / "requests.jsonl"
        trust = issue([HOST])
        self.ca_pem = trust.ca_pem
        (folder / "cert.pem").write_bytes(trust.cert_pem)
        (folder / "key.pem").write_bytes(trust.key_pem)
        self.config = {
            **configuration(REHEARSAL, parse(script.encode(), "script.toml"), first=first, bodies=bodies),
            "address": "127.0.0.1",
            "port": 0,
            "cert": str(folder / "cert.pem"),
            "key": str(folder / "key.pem"),
            "record": str(self.record),
        }
        (folder / "play.json").write_text(json.dumps(self.config))
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-B", "-m", "assay.rehearsal.server", str(folder / "play.json")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        word, _, port = self._process.stdout.readline().partition(" ")
        assert word == "ready"
        self.port = int(port)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self._process.terminate()
        self.said, self.complained = self._process.communicate(timeout=10)

    def trusting(self) -> ssl.SSLContext:
        """What a client that trusts this run's authority alone uses."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.load_verify_locations(cadata=self.ca_pem.decode())
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context

    def connect(self, name: str | None = HOST, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        """A TLS connection that asks for a server name."""
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        try:
            return (context or self.trusting()).wrap_socket(raw, server_hostname=name)
        except BaseException:
            raw.close()
            raise

    @contextlib.contextmanager
    def client(self) -> Iterator[http.client.HTTPSConnection]:
        """An HTTP client with its connection made."""
        connection = http.client.HTTPSConnection(HOST)
        connection.sock = self.connect()
        try:
            yield connection
        finally:
            connection.close()

    def ask(self, messages: Sequence[Any] | str = "Go.", **more: Any) -> Reply:
        """POST one request as the CLI does, on a connection of its own."""
        with self.client() as client:
            return post(client, messages, **more)

    def report(self) -> Report:
        """What the record says by now."""
        return judge(read(self.record.read_bytes()), self.config["script"]["turns"], self.config["first"])


class Reply:
    """An answer: its status, headers, and message (put together from the events of a stream)."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()
        self.events: list[dict[str, Any]] = []
        if self.headers["content-type"].startswith("text/event-stream"):
            self.events = list(_events(self.body))
            self.message = _put_together(self.events)
        else:
            self.message = json.loads(self.body or b"{}")

    @property
    def text(self) -> str:
        """All text of the message."""
        return "".join(block["text"] for block in self.message["content"] if block["type"] == "text")

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The tool calls of the message."""
        return [block for block in self.message["content"] if block["type"] == "tool_use"]


def post(
    client: http.client.HTTPSConnection,
    messages: Sequence[Any] | str = "Go.",
    *,
    kind: str | None = "main",
    agent: str | None = None,
    headers: dict[str, str] | None = None,
    **more: Any,
) -> Reply:
    """POST one request on a connection that may be used again."""
    if isinstance(messages, str):
        messages = [user(messages)]
    tools = more.pop("tools", TOOLS)
    body = {
        "model": "m",
        "max_tokens": 100,
        "stream": True,
        "messages": messages,
        "tools": [{"name": name} for name in tools],
        **more,
    }
    given = {"content-type": "application/json", "x-api-key": "sk-secret-of-a-user"}
    given |= {"x-claude-code-request-class": kind} if kind else {}
    given |= {"x-claude-code-agent-id": agent} if agent else {}
    client.request("POST", "/v1/messages?beta=true", json.dumps(body), given | (headers or {}))
    return Reply(client.getresponse())


def user(text: str) -> dict[str, Any]:
    """A message of the user."""
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def after(messages: Sequence[Any], reply: Reply, *results: tuple[str, bool]) -> list[Any]:
    """The conversation after a reply, with a result (text, is it an error?) for each of its calls."""
    contents = [
        {"type": "tool_result", "tool_use_id": call["id"], "content": text, "is_error": error}
        for call, (text, error) in zip(reply.calls, results, strict=True)
    ]
    return [
        *messages,
        {"role": "assistant", "content": reply.message["content"]},
        {"role": "user", "content": contents},
    ]


def _events(body: bytes) -> Iterator[dict[str, Any]]:
    for chunk in body.decode().split("\n\n")[:-1]:
        name, data = chunk.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        yield event


def _put_together(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What a client makes of a stream's events."""
    message: dict[str, Any] = {}
    partial = ""
    for event in events:
        match event["type"]:
            case "message_start":
                message = copy.deepcopy(event["message"])
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(dict(event["content_block"]))
                partial = ""
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                match delta["type"]:
                    case "text_delta":
                        block["text"] += delta["text"]
                    case "thinking_delta":
                        block["thinking"] += delta["thinking"]
                    case "signature_delta":
                        block["signature"] += delta["signature"]
                    case "input_json_delta":
                        partial += delta["partial_json"]
            case "content_block_stop" if partial:
                message["content"][event["index"]]["input"] = json.loads(partial)
            case "message_delta":
                message |= event["delta"] | {"usage": event["usage"]}
    return message
