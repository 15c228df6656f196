"""Our MCP client for the client scenarios of the conformance suite, which pass the address of their server."""

from __future__ import annotations

import asyncio
import sys

from graph_agent.tools.executor import McpToolExecutor
from graph_agent.tools.transport import HttpServer
from tests.permission import permitted


async def call_every_tool(url: str) -> None:
    async with McpToolExecutor(HttpServer(url, {})) as tools:
        for tool in tools.declarations():
            arguments = dict.fromkeys(tool.parameters.get("required", ()), 1)
            result = await tools.execute(permitted(tool.name, arguments, "ann"))
            assert result.success, result


if __name__ == "__main__":
    asyncio.run(call_every_tool(sys.argv[1]))
