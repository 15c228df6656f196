"""The task tools as an MCP server.

The SDK would derive schemas from Python signatures and answer invalid arguments with its validator's text. This server uses the
declarations of the adapter contract instead. A failure is an error of the tool (`isError`) with its data beside it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcp import MCPError, types
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from graph_agent.clock import RandomIds, SystemClock
from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.ledger.protocol import UNREAD_META, ResultEnvelope, change_meta, output_schema
from graph_agent.ledger.requests import RefusedRequestError, RequestMeta, call_result
from graph_agent.models.llm import ToolDeclaration
from graph_agent.ports import Clock, IdSource
from graph_agent.task_server.declarations import PREVIEW_TEMPLATE, TASK_TOOLS, TOOL_HINTS, ToolHints
from graph_agent.task_server.models import ChangedTask, ListedTasks, Task
from graph_agent.task_server.tools import NOT_DONE, NOT_FOUND, TaskTools

_MIME_TYPE = "application/json"


def build_task_server(
    database: Database, clock: Clock | None = None, ids: IdSource | None = None, default_user: str | None = None
) -> TaskServer:
    """Build an MCP server for the tasks in `database`, which must be migrated; the caller closes it.

    A call acts for the subject of the verified token if there is one, else for the user in the request's
    `_meta["graph_agent/user"]`, else for `default_user`, which suits an ordinary MCP client of one user.
    `bootstrap.tools_app` serves it over HTTP.
    """
    tools = TaskTools(database, clock or SystemClock(), ids or RandomIds())
    with _unchanged_logging():
        server = TaskServer(tools, default_user)

    @server.resource(PREVIEW_TEMPLATE, name="task", title="Task", description="One task.", mime_type=_MIME_TYPE)
    async def task(task_id: str, context: Context) -> str:
        try:
            found = await tools.preview(RequestMeta.of(context, default_user).user_id, task_id)
        except RefusedRequestError as refused:
            raise _refusal(refused.result, types.INVALID_PARAMS) from None
        except DatabaseUnavailableError:
            raise _refusal(NOT_DONE, types.INTERNAL_ERROR) from None
        if found is None:
            raise _refusal(NOT_FOUND, types.INVALID_PARAMS)
        return json.dumps({"description": found.description, "status": found.status}, ensure_ascii=False)

    return server


class TaskServer(MCPServer[Any]):
    """An `MCPServer` that lists and calls the declared tools, and lists the tasks of the user as resources."""

    def __init__(self, tools: TaskTools, default_user: str | None, **options: Any) -> None:
        # No subscriptions, because the list of tools never changes.
        super().__init__("graph-agent-tasks", title="Tasks", log_level="WARNING", subscriptions=False, **options)
        self._task_tools = tools
        self._default_user = default_user
        self._listed = [_tool(declaration, TOOL_HINTS[declaration.name]) for declaration in TASK_TOOLS]

    async def list_tools(self) -> list[types.Tool]:
        return list(self._listed)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> types.CallToolResult:
        if name not in TOOL_HINTS:
            raise ToolError("unknown tool")
        try:
            meta = RequestMeta.of(context, self._default_user, change=not TOOL_HINTS[name].read_only)
        except RefusedRequestError as refused:
            return call_result(refused.result)
        return call_result(await self._task_tools.call(name, arguments, meta.user_id, meta.operation))

    # The SDK has public methods for unpaged lists only, which do not get the cursor.

    async def _handle_list_tools(
        self, ctx: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        if params is not None and params.cursor is not None:
            raise _invalid_cursor()  # All tools are in one page.
        return await super()._handle_list_tools(ctx, params)

    async def _handle_list_resources(
        self, ctx: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        try:
            meta = RequestMeta.of(Context(request_context=ctx, mcp_server=self), self._default_user)
            page, cursor = await self._task_tools.page(meta.user_id, None if params is None else params.cursor)
        except RefusedRequestError as refused:
            raise _refusal(refused.result, types.INVALID_PARAMS) from None
        except DatabaseUnavailableError:
            raise _refusal(NOT_DONE, types.INTERNAL_ERROR) from None
        except ValueError:
            raise _invalid_cursor() from None
        return types.ListResourcesResult(resources=[_resource(task) for task in page], next_cursor=cursor)


def _tool(declaration: ToolDeclaration, hints: ToolHints) -> types.Tool:
    return types.Tool(
        name=declaration.name,
        title=hints.title,
        description=declaration.description,
        input_schema=declaration.parameters,
        output_schema=output_schema(ListedTasks if hints.read_only else ChangedTask),
        annotations=types.ToolAnnotations(
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
            open_world_hint=False,
        ),
        _meta={
            UNREAD_META: ["user_id"],
            **({} if hints.read_only else change_meta(PREVIEW_TEMPLATE if hints.preview else None)),
        },
    )


def _resource(task: Task) -> types.Resource:
    uri = PREVIEW_TEMPLATE.format(task_id=task.id)
    return types.Resource(uri=uri, name=task.id, title=task.description, mime_type=_MIME_TYPE)


def _refusal(result: ResultEnvelope, code: int) -> MCPError:
    return MCPError(code=code, message=str(result.error), data={"error_code": result.error_code})


def _invalid_cursor() -> MCPError:
    return MCPError(code=types.INVALID_PARAMS, message="The cursor is not valid.")


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
