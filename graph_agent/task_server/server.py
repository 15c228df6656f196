"""The task tools as an MCP server.

The SDK would derive schemas from Python signatures and answer invalid arguments with its validator's text. This server uses the
declarations of the adapter contract instead, and returns every failure as the data of a normal result.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcp import MCPError
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import ValidationError

from graph_agent.clock import RandomIds, SystemClock
from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.errors import ToolErrorCode
from graph_agent.models.llm import ToolDeclaration
from graph_agent.ports import Clock, IdSource
from graph_agent.task_server.arguments import OperationMeta, UserMeta, error_sentence
from graph_agent.task_server.declarations import (
    OPERATION_META,
    PREVIEW_TEMPLATE,
    TASK_TOOLS,
    TOOL_HINTS,
    USER_META,
    ToolHints,
)
from graph_agent.task_server.models import ResultEnvelope
from graph_agent.task_server.tools import NO_USER, NOT_DONE, NOT_FOUND, Call, TaskTools


def build_task_server(
    database: Database,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    default_user: str | None = None,
    *,
    token_verifier: TokenVerifier | None = None,
    auth: AuthSettings | None = None,
) -> MCPServer:
    """Build an MCP server for the tasks in `database`, which must be migrated; the caller closes it.

    A call acts for the subject of the verified token if there is one, else for the user in the request's
    `_meta["graph_agent/user"]`, else for `default_user`, which suits an ordinary MCP client of one user.
    """
    tools = TaskTools(database, clock or SystemClock(), ids or RandomIds())
    with _unchanged_logging():
        server = TaskServer(tools, default_user, token_verifier=token_verifier, auth=auth)

    @server.resource(PREVIEW_TEMPLATE, name="task", title="Task", description="One task.", mime_type="application/json")
    async def task(task_id: str, context: Context) -> str:
        try:
            user_id = server.user_of(context)
        except ValidationError:
            user_id = None
        if user_id is None:
            raise _refusal(NO_USER, INVALID_PARAMS)
        try:
            found = await tools.preview(user_id, task_id)
        except DatabaseUnavailableError:
            raise _refusal(NOT_DONE, INTERNAL_ERROR) from None
        if found is None:
            raise _refusal(NOT_FOUND, INVALID_PARAMS)
        return json.dumps({"description": found.description, "status": found.status}, ensure_ascii=False)

    return server


class TaskServer(MCPServer[Any]):
    """An `MCPServer` that lists and calls the declared tools."""

    def __init__(self, tools: TaskTools, default_user: str | None, **options: Any) -> None:
        # No subscriptions, because the list of tools never changes.
        super().__init__("graph-agent-tasks", title="Tasks", log_level="WARNING", subscriptions=False, **options)
        self._task_tools = tools
        self._default_user = default_user
        self._listed = [_tool(declaration, TOOL_HINTS[declaration.name]) for declaration in TASK_TOOLS]

    async def list_tools(self) -> list[Tool]:
        return list(self._listed)

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> CallToolResult:
        if name not in TOOL_HINTS:
            raise ToolError("unknown tool")
        result = (await self._result(name, arguments, context)).to_json()
        # Sent as text too, because not every client reads structured content.
        text = json.dumps(result, ensure_ascii=False)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=result)

    def user_of(self, context: Context[Any, Any] | None) -> str | None:
        """Return the user of a request; None if it names none, or one that differs from its token. Raises ValidationError."""
        token = get_access_token()
        named = _meta(context).get(USER_META)
        if token is not None:
            named = token.subject if named in (None, token.subject) else None
        elif named is None:
            named = self._default_user
        return None if named is None else UserMeta(user_id=named).user_id

    async def _result(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None) -> ResultEnvelope:
        try:
            user_id = self.user_of(context)
            operation = _meta(context).get(OPERATION_META)
            operation = None if operation is None else OperationMeta.model_validate(operation)
        except ValidationError as error:
            return ResultEnvelope.failed(ToolErrorCode.VALIDATION_ERROR, error_sentence(error))
        if user_id is None:
            return NO_USER
        return await self._task_tools.call(Call(name, arguments, user_id, operation))


def _meta(context: Context[Any, Any] | None) -> dict[str, Any]:
    meta = None if context is None else context.request_context.meta
    return {} if meta is None else dict(meta)


def _tool(declaration: ToolDeclaration, hints: ToolHints) -> Tool:
    return Tool(
        name=declaration.name,
        title=hints.title,
        description=declaration.description,
        input_schema=declaration.parameters,
        annotations=ToolAnnotations(
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
            open_world_hint=False,
        ),
        _meta=hints.meta or None,
    )


def _refusal(result: ResultEnvelope, code: int) -> MCPError:
    return MCPError(code=code, message=str(result.error), data={"error_code": result.error_code})


@contextmanager
def _unchanged_logging() -> Iterator[None]:
    """Keep `MCPServer` from configuring the root logger, which is the application's task. It does so if there is no handler."""
    root = logging.getLogger()
    placeholder = logging.NullHandler()
    root.addHandler(placeholder)
    try:
        yield
    finally:
        root.removeHandler(placeholder)
