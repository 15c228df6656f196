"""Bindings as a tool server: what `run_agent` makes of a list of them."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Sequence
from typing import Any

from graph_agent.agent_service.tool_binding import McpTool, ToolBinding
from graph_agent.errors import ConfigurationError, ToolErrorCode
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.ports import ToolServer

_log = logging.getLogger(__name__)


def _failure(code: ToolErrorCode, error: str) -> ToolResult:
    return ToolResult(success=False, error=error, error_code=code)


_NO_SUCH_TOOL = _failure(ToolErrorCode.TOOL_NOT_FOUND, "There is no such tool.")
_NO_PREVIEW = _failure(ToolErrorCode.TOOL_EXECUTION_ERROR, "What the call would act on cannot be shown.")
_NOT_LEARNED = _failure(ToolErrorCode.UNKNOWN_ERROR, "It could not be learned whether the tool acted.")
_TIMED_OUT = _failure(ToolErrorCode.TIMEOUT_ERROR, "The tool did not answer in time; it is not known whether it acted.")
_RAISED = _failure(ToolErrorCode.UNKNOWN_ERROR, "The tool failed; it is not known whether it acted.")


class BoundTools:
    """`ToolServer` over bindings. A tool of an MCP server keeps what that server says of it; of any other function nothing is
    known: it counts as one that changes something, and is never sent twice.
    """

    def __init__(self, bindings: Sequence[ToolBinding], shipped: ToolServer) -> None:
        """`shipped` stands in for MCP tools without a server. Raises `ConfigurationError` for two bindings of one name."""
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
        """Open the servers behind the bindings. What they serve is known without them, so this is always True."""
        for server in {id(server): server for server in self._servers.values()}.values():
            await server.start()
        return True

    def get_available_tools(self) -> list[str]:
        return list(self._bindings)

    def declarations(self) -> list[ToolDeclaration]:
        return [binding.declaration for binding in self._bindings.values()]

    def traits(self, tool_name: str) -> ToolTraits:
        server = self._servers.get(tool_name)
        return server.traits(tool_name) if server is not None else ToolTraits()

    async def execute(
        self,
        tool_name: str,
        parameters: dict[str, Any],
        user_id: str,
        *,
        operation_key: str | None = None,
        deadline: float | None = None,
    ) -> ToolResult:
        server = self._servers.get(tool_name)
        if server is not None:
            return await server.execute(tool_name, parameters, user_id, operation_key=operation_key, deadline=deadline)
        binding = self._bindings.get(tool_name)
        if binding is None:
            return _NO_SUCH_TOOL
        try:
            async with asyncio.timeout(deadline):
                answer = binding.mcp_tool_reference(**{**parameters, "user_id": user_id})
                return _result(await answer if inspect.isawaitable(answer) else answer)
        except TimeoutError:
            return _TIMED_OUT
        except Exception:
            _log.exception("a bound tool raised instead of answering")
            return _RAISED

    async def settle(
        self,
        tool_name: str,
        parameters: dict[str, Any],
        user_id: str,
        *,
        operation_key: str,
        deadline: float | None = None,
    ) -> ToolResult:
        server = self._servers.get(tool_name)
        if server is None:
            return _NOT_LEARNED
        return await server.settle(tool_name, parameters, user_id, operation_key=operation_key, deadline=deadline)

    async def preview(
        self, tool_name: str, parameters: dict[str, Any], user_id: str, *, deadline: float | None = None
    ) -> ToolResult:
        server = self._servers.get(tool_name)
        if server is None:
            return _NO_PREVIEW
        return await server.preview(tool_name, parameters, user_id, deadline=deadline)


def _result(answer: Any) -> ToolResult:
    if isinstance(answer, ToolResult):
        return answer
    if isinstance(answer, dict) and isinstance(answer.get("success"), bool):
        return _unpacked(answer)
    return ToolResult(success=True, data=answer if isinstance(answer, dict | list) else {"result": answer})


def _unpacked(answer: dict[str, Any]) -> ToolResult:
    if answer["success"]:
        data = answer["data"] if "data" in answer else {key: value for key, value in answer.items() if key != "success"}
        return ToolResult(success=True, data=data if isinstance(data, dict | list) or data is None else {"result": data})
    known = answer.get("error_code") in ToolErrorCode.__members__
    code = ToolErrorCode(answer["error_code"]) if known else ToolErrorCode.TOOL_EXECUTION_ERROR
    return _failure(code, str(answer.get("error") or "The tool reported a failure."))
