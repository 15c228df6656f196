"""Several MCP servers as one tool server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mcp import StdioServerParameters
from mcp.server.mcpserver import MCPServer

from graph_agent.errors import ToolErrorCode
from graph_agent.ports import ToolServer
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.server_group import McpServerGroup

DOWN = StdioServerParameters(command="/no/such/command")


def server(*tools: str) -> MCPServer[Any]:
    """Return a server whose tools return their own names."""
    built: MCPServer[Any] = MCPServer("third-party", log_level="ERROR")
    for name in tools:

        async def tool(name: str = name) -> dict[str, str]:
            return {"tool": name}

        built.add_tool(tool, name=name)
    return built


@asynccontextmanager
async def group(*servers: ServerConfig, granted: Sequence[str] = ()) -> AsyncIterator[McpServerGroup]:
    tools = McpServerGroup(servers, granted=granted)
    await tools.start()
    yield tools
    await tools.aclose()


async def test_tools_keep_their_names_unless_two_servers_serve_one() -> None:
    async with group(ServerConfig("a", server("read", "write")), ServerConfig("b", server("read"))) as tools:
        assert isinstance(tools, ToolServer)
        assert tools.get_available_tools() == ["a.read", "write", "b.read"]
        assert (await tools.execute("b.read", {}, "ann")).success
        assert (await tools.execute("read", {}, "ann")).error_code is ToolErrorCode.TOOL_UNAVAILABLE


async def test_a_prefix_is_used_on_request_and_where_the_constitution_uses_it() -> None:
    async with group(
        ServerConfig("a", server("read"), prefixed=True), ServerConfig("b", server("list", "write")), granted=["b.write"]
    ) as tools:
        assert tools.get_available_tools() == ["a.read", "list", "b.write"]


async def test_a_tool_cannot_take_the_name_of_another_servers_tool() -> None:
    async with group(ServerConfig("a", server("read")), ServerConfig("b", server("a.read")), granted=["a.read"]) as tools:
        assert tools.get_available_tools() == ["a.read", "b.a.read"]


async def test_the_tools_of_a_server_that_is_down_are_unavailable_and_the_others_continue() -> None:
    async with group(ServerConfig("a", server("read")), ServerConfig("down", DOWN, secrets=("such",))) as tools:
        assert not await tools.start()
        assert tools.get_available_tools() == ["read"]
        results = await asyncio.gather(*(tools.execute(name, {}, "ann") for name in ["read", "down.write"] * 25))
        assert [result.error_code for result in results] == [None, ToolErrorCode.TOOL_UNAVAILABLE] * 25
        assert tools.failure("down") == "there is no *** command or folder"


async def test_a_command_that_dies_at_once_is_not_started_by_every_call() -> None:
    async with group(ServerConfig("down", DOWN)) as tools:
        executor = tools.executors["down"]
        opened = []
        for _ in range(20):
            await executor.start()
            opened.append(executor._session)
        # The first failure is retried at once; after the second one no session is opened during the back-off.
        assert len({id(session) for session in opened if session is not None}) <= 2
        assert executor.failure == "there is no such command or folder"
