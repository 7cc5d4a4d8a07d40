"""An MCP server on standard input and output that is wrong in one chosen way: `faulty_server.py MODE`.

Each mode is one fault; `fine` has none. Its tools misbehave on demand whatever the mode.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else "fine"
OUT = sys.stdout.buffer


def raw(data: bytes) -> None:
    OUT.write(data)
    OUT.flush()


def reply(number: object, result: object) -> None:
    raw(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode() + b"\n")


def refuse(number: object, code: object, message: str) -> None:
    raw(json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}).encode() + b"\n")


def text(words: str, **more: object) -> dict[str, object]:
    return {"content": [{"type": "text", "text": words}], **more}


def tool(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def pattern_of(pattern: str) -> dict[str, object]:
    return {"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}}


DOUBLING = {"$ref": "#/$defs/twice"}
SLOW_SCHEMAS: dict[str, dict[str, object]] = {
    "slow_pattern": pattern_of("^(a+)+$"),
    "endless_pattern": pattern_of("^(?=a)(a+)+$"),
    "endless_schema": {"type": "object", "$defs": {"twice": {"anyOf": [DOUBLING, DOUBLING]}}, **DOUBLING},
}
"""Output schemas that a naive look at an answer never comes back from."""


def initialize(number: object, params: dict[str, Any]) -> None:
    info = {"name": "faulty", "version": "1.0"}
    answers: dict[str, Any] = {
        "bad_version": {"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": info},
        "no_version": {"hello": 1},
        "no_capabilities": {"protocolVersion": "2025-11-25", "serverInfo": info},
        "nameless": {"protocolVersion": "2025-11-25", "capabilities": {}},
        "init_list": [],
    }
    if MODE == "hang_init":
        return
    if MODE == "init_refused":
        refuse(number, -32603, "boom at init")
    elif MODE == "unsupported":
        refuse(number, -32022, "no such version")
    elif MODE in answers:
        reply(number, answers[MODE])
    else:
        reply(number, {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info})


def list_tools(number: object, params: dict[str, Any]) -> None:
    cursor = params.get("cursor")
    page = int(cursor) if cursor and cursor.isdigit() else 0
    shape = {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}
    results: dict[str, Any] = {
        "pages": {"tools": [tool(f"t{page}")], **({"nextCursor": str(page + 1)} if page < 2 else {})},
        "endless": {"tools": [tool("t")], "nextCursor": "same"},
        "pages_without_end": {"tools": [tool(f"t{page}")], "nextCursor": str(page + 1)},
        "twice": {"tools": [tool("a"), tool("a"), tool("b")]},
        "one_bad_tool": {"tools": [{"name": "a"}, tool("b"), "c"]},
        "bad_schema": {
            "tools": [{"name": "a", "inputSchema": {"type": "object", "properties": {"x": {"type": "int"}}}}]
        },
        "no_tools_key": {},
        "cursor_number": {"tools": [], "nextCursor": 7},
        "breaks_schema": {"tools": [tool("a", outputSchema=shape)]},
        "visa": {"tools": [tool(name) for name in ("get_visa_bulletin", "check_priority_date", "explain_term")]},
        "no_structure": {"tools": [tool("a", outputSchema=shape)]},
        **{mode: {"tools": [tool("a", outputSchema=schema)]} for mode, schema in SLOW_SCHEMAS.items()},
    }
    if MODE == "hang_list":
        return
    names = ("a", "sleep", "die", "kill", "mixed", "refuse", "fail", "big", "noise", "badlist", "badblock", "wrongid")
    usual = [tool(name) for name in (*names, "nothing", "badcode", "deep", "spawn", "ask", "roots", "silent")]
    reply(number, results.get(MODE, {"tools": usual}))


def call_tool(number: object, name: str, args: dict[str, Any]) -> None:
    if MODE == "breaks_schema":
        reply(number, text("hi", structuredContent={"x": "one"}))
    elif MODE in SLOW_SCHEMAS:
        reply(number, text("hi", structuredContent={"x": "a" * 40 + "!"}))
    elif MODE == "no_structure":
        reply(number, text("hi"))
    elif name in ACTIONS:
        ACTIONS[name](number, args)
    else:
        reply(number, text("ok " + json.dumps(args)))


def sleep(number: object, args: dict[str, Any]) -> None:
    time.sleep(args.get("s", 60))
    reply(number, text("slept"))


def noise(number: object, args: dict[str, Any]) -> None:
    raw(b"DEBUG: got call\n")
    reply(number, text("after noise"))


def spawn(number: object, args: dict[str, Any]) -> None:
    """Leave a child that is in another session and outlives this process; `bare`: and knows no environment."""
    env: dict[str, str] | None = {} if args.get("bare") else None
    child = subprocess.Popen(["sleep", "600"], executable="/bin/sleep", start_new_session=True, env=env)
    reply(number, text(str(child.pid)))


def ask(number: object, args: dict[str, Any]) -> None:
    """Ask the client something before answering, and tell what it said."""
    raw(json.dumps({"jsonrpc": "2.0", "id": "q", "method": args.get("method", "ping")}).encode() + b"\n")
    said = json.loads(sys.stdin.readline())
    reply(number, text(json.dumps(said.get("result", said.get("error")))))


def silent(number: object, args: dict[str, Any]) -> None:
    """Close the output and live on."""
    os.close(1)
    time.sleep(60)


MIXED = [
    {"type": "text", "text": "A"},
    {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    {"type": "text", "text": "B"},
    {"type": "resource", "resource": {"uri": "x://1", "text": "embedded"}},
]
ACTIONS: dict[str, Any] = {
    "sleep": sleep,
    "noise": noise,
    "spawn": spawn,
    "ask": ask,
    "silent": silent,
    "die": lambda *_: os._exit(7),
    "kill": lambda *_: os.kill(os.getpid(), signal.SIGKILL),
    "mixed": lambda number, _: reply(number, {"content": MIXED}),
    "refuse": lambda number, _: refuse(number, -32602, "Unknown tool: refuse"),
    "badcode": lambda number, _: refuse(number, "high", "a code that is none"),
    "fail": lambda number, _: reply(number, text("tool failed", isError=True)),
    "big": lambda number, args: reply(number, text("z" * args.get("n", 10_000_000))),
    "badlist": lambda number, _: reply(number, {"content": "no list"}),
    "badblock": lambda number, _: reply(number, {"content": [{"text": "no type"}]}),
    "nothing": lambda number, _: reply(number, {}),
    "wrongid": lambda *_: reply(99999, text("x")),
    "deep": lambda *_: raw(b"[" * 200_000 + b"\n"),
}


def at_start() -> None:
    sys.stderr.write(f"stderr of {MODE}\n")
    sys.stderr.flush()
    if MODE == "exit":
        sys.exit(1)
    if MODE == "hang":
        time.sleep(600)
    if MODE in ("stubborn", "stubborn_hang"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE == "garbage":
        raw(b"Welcome to my server v1!\n{not json}\n\n")
    if MODE == "binary":
        raw(b"\xff\xfe\x00bin\x1b[31m\n")
    if MODE == "flood":
        for _ in range(2000):
            sys.stderr.write("y" * 1000 + "\n")
    if MODE == "daemon":
        subprocess.Popen(["sleep", "600"])
        os._exit(5)


def main() -> None:
    at_start()
    for line in sys.stdin:
        message = json.loads(line)
        method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method == "initialize":
            initialize(number, params)
        elif number is None:
            continue
        elif method == "tools/list":
            list_tools(number, params)
        elif method == "tools/call":
            call_tool(number, params["name"], params.get("arguments", {}))
        elif method == "server/discover" and MODE == "dies_of_discover":
            sys.exit(3)
        else:
            refuse(number, -32601, "Method not found")
    if MODE == "stubborn":
        time.sleep(600)


if __name__ == "__main__":
    main()
