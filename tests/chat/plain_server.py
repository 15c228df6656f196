"""An MCP server without a ledger, over stdio: its tool does again whatever it is sent again. `plain_server.py FILE`."""

from __future__ import annotations

import os
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("plain", log_level="ERROR")


@server.tool()
async def send(text: str) -> str:
    """Send a text: append it to FILE."""
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{text}\n".encode())
    os.close(file)
    return "sent"


if __name__ == "__main__":
    server.run()
