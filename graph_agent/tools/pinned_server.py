"""A server in this process that lists pinned tools, for an analysis of what they may do. It performs no call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.types import Tool


class PinnedServer(MCPServer[Any]):
    """Lists the definitions that an operator has accepted, whatever the real server lists now."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        super().__init__("pinned")
        self._pinned = list(tools)

    async def list_tools(self) -> list[Tool]:
        return self._pinned
