"""The official SDK as oracle: what it sees of a server, this client sees too, in both protocol eras."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.suite.wire.connect import connect
from assay.suite.wire.transport import Server
from tests.suite.test_http import served

pytestmark = pytest.mark.timeout(120)

SERVER = '''
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage

server = MCPServer("oracle", version="3")

@server.tool()
def add(a: int, b: int) -> int:
    """Add."""
    return a + b

@server.tool()
def boom() -> str:
    raise ValueError("boom")

@server.resource("data://one")
def one() -> str:
    return "the one"

@server.prompt()
def greet(name: str) -> str:
    return f"Hello, {name}"

server.run(TRANSPORT)
'''


@pytest.fixture
def server(tmp_path: Path) -> Server:
    file = tmp_path / "oracle_server.py"
    file.write_text(SERVER.replace("TRANSPORT", '"stdio"'))
    return Server(command=(sys.executable, str(file)), cwd=tmp_path)


async def _sdk(server: Server, mode: str) -> dict[str, Any]:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    parameters = StdioServerParameters(command=server.command[0], args=list(server.command[1:]), cwd=server.cwd)
    async with Client(parameters, mode=mode) as client:
        tools = await client.list_tools()
        added = await client.call_tool("add", {"a": 2, "b": 3})
        failed = await client.call_tool("boom", {})
        read = await client.read_resource("data://one")
        prompt = await client.get_prompt("greet", {"name": "you"})
        return {
            "tools": [tool.name for tool in tools.tools],
            "schemas": [tool.input_schema for tool in tools.tools],
            "added": ([block.text for block in added.content if hasattr(block, "text")], added.structured_content),
            "failed": (failed.is_error, [block.text for block in failed.content if hasattr(block, "text")]),
            "read": [getattr(content, "text", None) for content in read.contents],
            "prompt": [getattr(message.content, "text", None) for message in prompt.messages],
        }


def _ours(server: Server) -> dict[str, Any]:
    with connect(server) as session:
        tools = session.list_all("tools/list")
        added, failed = session.call("add", {"a": 2, "b": 3}), session.call("boom")
        read = session.request("resources/read", {"uri": "data://one"})
        prompt = session.request("prompts/get", {"name": "greet", "arguments": {"name": "you"}})
        return {
            "tools": tools.names(),
            "schemas": [tool["inputSchema"] for tool in tools.items],
            "added": ([block["text"] for block in added.blocks], added.structured),
            "failed": (failed.is_error, [block["text"] for block in failed.blocks]),
            "read": [content["text"] for content in read["contents"]],
            "prompt": [message["content"]["text"] for message in prompt["messages"]],
        }


@pytest.mark.parametrize(("mode", "protocol"), [("legacy", ""), ("auto", "2026-07-28")])
def test_the_same_answers(server: Server, mode: str, protocol: str) -> None:
    from dataclasses import replace

    assert _ours(replace(server, protocol=protocol)) == asyncio.run(_sdk(server, mode))


@pytest.mark.parametrize("protocol", ["", "2026-07-28"])
def test_an_sdk_server_over_http(tmp_path: Path, protocol: str) -> None:
    with served(SERVER, tmp_path) as url:
        ours = _ours(Server(url=f"{url}/mcp", protocol=protocol))
    assert ours["added"][0] == ["5"]
    assert ours["prompt"] == ["Hello, you"]
