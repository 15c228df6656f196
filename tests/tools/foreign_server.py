"""A foreign MCP server over stdio that misbehaves on request. Run as a script."""

from __future__ import annotations

import os
import time

from mcp.server.mcpserver import MCPServer

server = MCPServer("stranger", log_level="ERROR")


@server.tool()
async def pid() -> dict[str, int]:
    return {"pid": os.getpid()}


@server.tool()
async def die() -> str:
    os._exit(1)


@server.tool()
def block() -> str:
    time.sleep(60)
    return "late"


if __name__ == "__main__":
    server.run("stdio")
