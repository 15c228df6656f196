"""A tool server that calls the bound functions of `run_agent`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from graph_agent.agent_service.tool_binding import McpTool, ToolBinding
from graph_agent.errors import ConfigurationError, ToolErrorCode
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.guard import AuthorizedCall
from graph_agent.ports import SentCall, ToolServer

_NO_SUCH_TOOL = ToolResult.failed(ToolErrorCode.TOOL_NOT_FOUND, "There is no such tool.")
_NO_PREVIEW = ToolResult.failed(ToolErrorCode.TOOL_EXECUTION_ERROR, "The object of the call cannot be shown.")
_UNKNOWN = ToolResult.failed(ToolErrorCode.UNKNOWN_ERROR, "It is not known whether the tool acted.")


class BoundTools:
    """A `ToolServer` over bindings.

    A tool of an MCP server keeps the traits that its server declares. Any other function counts as a write and is never sent
    twice, unless its binding has `reads`. An exception of a function is raised, and the engine handles it.
    """

    def __init__(self, bindings: Sequence[ToolBinding], shipped: ToolServer) -> None:
        """`shipped` serves the MCP tools that name no server. Raises `ConfigurationError` if two bindings have one name."""
        self._bindings: dict[str, ToolBinding] = {}
        self._servers: dict[str, ToolServer] = {}
        for binding in bindings:
            if binding.tool_name in self._bindings:
                raise ConfigurationError(f"two bindings are named '{binding.tool_name}'")
            self._bindings[binding.tool_name] = binding
            reference = binding.mcp_tool_reference
            if isinstance(reference, McpTool) and reference.name == binding.tool_name:
                self._servers[binding.tool_name] = reference.server or shipped

    async def start(self) -> bool:
        """Connect to the servers of the bindings. Always True, because the declarations come from the bindings."""
        for server in {id(server): server for server in self._servers.values()}.values():
            await server.start()
        return True

    def get_available_tools(self) -> list[str]:
        return list(self._bindings)

    def declarations(self) -> list[ToolDeclaration]:
        return [binding.declaration for binding in self._bindings.values()]

    def traits(self, tool_name: str) -> ToolTraits:
        server = self._servers.get(tool_name)
        traits = server.traits(tool_name) if server is not None else ToolTraits()
        return traits.replace(read_only=True) if self._bindings[tool_name].reads else traits

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        server = self._servers.get(call.tool_name)
        if server is not None:
            return await server.execute(call, deadline=deadline)
        binding = self._bindings.get(call.tool_name)
        if binding is None:
            return _NO_SUCH_TOOL
        value = binding.mcp_tool_reference(**{**call.arguments, "user_id": call.user_id})
        return _result(await value if inspect.isawaitable(value) else value)

    async def settle(self, call: SentCall, *, deadline: float | None = None) -> ToolResult:
        server = self._servers.get(call.tool_name)
        return _UNKNOWN if server is None else await server.settle(call, deadline=deadline)

    async def preview(
        self, tool_name: str, parameters: dict[str, Any], user_id: str, *, deadline: float | None = None
    ) -> ToolResult:
        server = self._servers.get(tool_name)
        if server is None:
            return _NO_PREVIEW
        return await server.preview(tool_name, parameters, user_id, deadline=deadline)


def _result(value: Any) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, dict) and isinstance(value.get("success"), bool):
        return _from_dictionary(value)
    return ToolResult(success=True, data=value if isinstance(value, dict | list) else {"result": value})


def _from_dictionary(value: dict[str, Any]) -> ToolResult:
    if value["success"]:
        data = value["data"] if "data" in value else {key: item for key, item in value.items() if key != "success"}
        return ToolResult(success=True, data=data if isinstance(data, dict | list) or data is None else {"result": data})
    known = value.get("error_code") in ToolErrorCode.__members__
    code = ToolErrorCode(value["error_code"]) if known else ToolErrorCode.TOOL_EXECUTION_ERROR
    return ToolResult.failed(code, str(value.get("error") or "The tool reported a failure."))
