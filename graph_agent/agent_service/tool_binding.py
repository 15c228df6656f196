"""A tool: its schema in the OpenAI format, and the function that runs it; and a tool server that calls these functions."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from graph_agent.bootstrap.agent_services import shared_services
from graph_agent.errors import ConfigurationError, ToolErrorCode
from graph_agent.llm.adapter_call import is_documented_read
from graph_agent.llm.openai_compatible import build_tools
from graph_agent.models.base import Frozen
from graph_agent.models.config import DEFAULT_CALL_SECONDS
from graph_agent.models.llm import FunctionCall, ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.ports import SentCall, ToolServer, call_seconds_of
from graph_agent.tools.answers import NO_PREVIEW, OUTCOME_UNKNOWN
from graph_agent.tools.functions import NOT_FOUND, USER


class ToolBinding(Frozen):
    """One tool for `run_agent`.

    `mcp_tool_reference` is called as `await reference(user_id=..., **arguments)`, with the authenticated user. Its return value
    is the result: any JSON, where `{"success": False, "error": text}` is a failure.
    """

    tool_name: str = Field(min_length=1)
    openai_function_schema: dict[str, Any]
    mcp_tool_reference: Any
    reads: bool = False
    """True for a tool that changes nothing: it may run any number of times, and leaves no receipt."""

    @field_validator("openai_function_schema")
    @classmethod
    def _has_the_format(cls, value: dict[str, Any]) -> dict[str, Any]:
        if not all(key in value for key in ("type", "function")):
            raise ValueError("Schema must have 'type' and 'function' keys")
        if value["type"] != "function":
            raise ValueError("Schema type must be 'function'")
        if not isinstance(value["function"], dict):
            raise ValueError("Schema function must be an object")
        return value

    @field_validator("mcp_tool_reference")
    @classmethod
    def _is_callable(cls, value: Any) -> Any:
        if not callable(value):
            raise ValueError("mcp_tool_reference must be callable")
        return value

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        if self.openai_function_schema["function"].get("name", self.tool_name) != self.tool_name:
            raise ValueError("tool_name must match the name in the schema")
        return self

    @property
    def declaration(self) -> ToolDeclaration:
        """The declaration for the model, without a parameter `user_id`: the model never chooses the user."""
        function = self.openai_function_schema["function"]
        schema = dict(function.get("parameters") or {"type": "object", "properties": {}})
        if isinstance(schema.get("properties"), dict):
            schema["properties"] = {name: value for name, value in schema["properties"].items() if name != USER}
        if isinstance(schema.get("required"), list):
            schema["required"] = [name for name in schema["required"] if name != USER]
        return ToolDeclaration(
            name=self.tool_name, description=str(function.get("description") or self.tool_name), parameters=schema
        )

    def __hash__(self) -> int:
        return hash(self.tool_name)


@dataclass(frozen=True)
class McpTool:
    """A tool of an MCP server as an async function; without `server`, of the shipped task server on the default database.

    A direct call is a decision without a model: judged by the constitution and recorded. A tool that needs confirmation is not
    run by it. In `run_agent` calls go to the server itself, with its previews and its ledger.
    """

    name: str
    server: ToolServer | None = None

    async def __call__(self, user_id: str, **arguments: Any) -> dict[str, Any]:
        async with shared_services() as services:
            finished = await services.calling_engine(self.server).call(user_id, [FunctionCall(self.name, arguments)])
        assert finished.turn is not None
        result = finished.turn.calls[-1].result
        return {"success": result.success, "data": result.data, "error": result.error, "error_code": result.error_code}


async def bind_mcp_tools(executor: ToolServer | None = None) -> list[ToolBinding]:
    """Return one binding for each tool that the server lists, with its own schema.

    Without `executor`, that is the shipped task server. Raises `ConfigurationError` if the server does not answer.
    """
    if executor is None:
        async with shared_services() as services:
            declarations = await _declarations(services.tools)
    else:
        declarations = await _declarations(executor)
    return [
        ToolBinding(tool_name=tool.name, openai_function_schema=schema, mcp_tool_reference=McpTool(tool.name, executor))
        for tool, schema in zip(declarations, build_tools(declarations), strict=True)
    ]


async def _declarations(server: ToolServer) -> list[ToolDeclaration]:
    if not await server.start():
        raise ConfigurationError("the tool server does not answer")
    return server.declarations()


class BoundTools:
    """A `ToolServer` over bindings.

    A tool of an MCP server keeps the traits that its server declares. Any other function counts as a write and is never sent
    twice, unless its binding has `reads` or it is the documented read `list_tasks`. An exception of a function is raised, and
    the engine handles it.
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

    @property
    def call_seconds(self) -> float:
        """The time limit of one call of the server that may take longest."""
        return max(map(call_seconds_of, self._servers.values()), default=DEFAULT_CALL_SECONDS)

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
        known = self._bindings[tool_name].reads or (server is None and is_documented_read(tool_name))
        return traits.replace(read_only=True) if known else traits

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        server = self._servers.get(call.tool_name)
        if server is not None:
            return await server.execute(call, deadline=deadline)
        binding = self._bindings.get(call.tool_name)
        if binding is None:
            return NOT_FOUND
        value = binding.mcp_tool_reference(**{**call.arguments, "user_id": call.user_id})
        return _result(await value if inspect.isawaitable(value) else value)

    async def settle(self, call: SentCall, *, deadline: float | None = None) -> ToolResult:
        server = self._servers.get(call.tool_name)
        return OUTCOME_UNKNOWN if server is None else await server.settle(call, deadline=deadline)

    async def preview(
        self, tool_name: str, parameters: dict[str, Any], user_id: str, *, deadline: float | None = None
    ) -> ToolResult:
        server = self._servers.get(tool_name)
        return NO_PREVIEW if server is None else await server.preview(tool_name, parameters, user_id, deadline=deadline)


def _result(value: Any) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    if not isinstance(value, dict) or not isinstance(value.get("success"), bool):
        return ToolResult(success=True, data=value if isinstance(value, dict | list) else {"result": value})
    if value["success"]:
        data = value["data"] if "data" in value else {key: item for key, item in value.items() if key != "success"}
        return ToolResult(success=True, data=data if isinstance(data, dict | list) or data is None else {"result": data})
    known = value.get("error_code") in ToolErrorCode.__members__
    code = ToolErrorCode(value["error_code"]) if known else ToolErrorCode.TOOL_EXECUTION_ERROR
    return ToolResult.failed(code, str(value.get("error") or "The tool reported a failure."))
