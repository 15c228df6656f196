"""The tools of a desk as an MCP server in this process, for tests that go over the protocol."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import CallToolResult, Tool, ToolAnnotations

from graph_agent.ledger.protocol import ResultEnvelope
from graph_agent.ledger.requests import call_result
from graph_agent.testing.desk import OrderDesk


class DeskServer(MCPServer[Any]):
    """Serves the tools of a desk, without its ledger: `McpToolExecutor(DeskServer(desk))`."""

    def __init__(self, desk: OrderDesk) -> None:
        super().__init__("desk", log_level="WARNING")
        self.desk = desk

    async def list_tools(self) -> list[Tool]:
        listed = []
        for one in self.desk.declarations():
            traits = self.desk.traits(one.name)
            hints = ToolAnnotations(read_only_hint=traits.read_only, destructive_hint=False, open_world_hint=False)
            listed.append(
                Tool(
                    name=one.name,
                    title=traits.title,
                    description=one.description,
                    input_schema=one.parameters,
                    annotations=hints,
                )
            )
        return listed

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        context: Context[Any, Any] | None = None,  # noqa: ARG002 (of the SDK)
    ) -> CallToolResult:
        result = self.desk.call(name, arguments)
        data = {"result": result.data} if isinstance(result.data, list) else result.data
        return call_result(ResultEnvelope(success=result.success, data=data, error=result.error, error_code=result.error_code))
