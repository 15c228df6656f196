"""The shipped task server: in this process, or served to other clients."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from graph_agent.clock import RandomIds, SystemClock
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import CONFIRMATION_LIFETIME, PendingAction
from graph_agent.models.llm import FunctionCall
from graph_agent.models.tools import ToolResult
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.guard import AuthorizedCall, judge_batch
from graph_agent.policy.rules import Policy, compile_policy
from graph_agent.ports import Clock, IdSource
from graph_agent.settings import Settings
from graph_agent.task_server.serve import serve_stdio, streamable_http_app
from graph_agent.task_server.server import build_task_server
from graph_agent.tools.executor import McpToolExecutor


@asynccontextmanager
async def open_tools(
    database: Database, *, clock: Clock | None = None, ids: IdSource | None = None
) -> AsyncGenerator[McpToolExecutor]:
    """Open a client of a task server in this process."""
    tools = McpToolExecutor(build_task_server(database, clock, ids), clock=clock)
    try:
        yield tools
    finally:
        await tools.aclose()


async def serve_tools(database: Database, user_id: str) -> None:
    """Serve one user's tasks over stdio until the client disconnects."""
    await serve_stdio(build_task_server(database, default_user=user_id))


def tools_app(database: Database, user_id: str) -> Any:
    """Return an ASGI application (streamable HTTP at /mcp) with one user's tasks, for loopback addresses."""
    return streamable_http_app(build_task_server(database, default_user=user_id))


async def served_policy(settings: Settings, database: Database) -> Policy:
    """Return the policy: the constitution joined with the tools of the server. Raises `ConfigurationError`."""
    async with open_tools(database) as tools:
        return await _policy(settings, tools)


async def call_tool(
    settings: Settings, database: Database, name: str, arguments: dict[str, Any], user_id: str, *, consent: bool
) -> ToolResult:
    """Make one call that the guard has checked like a model's; `consent` is the user's yes, if the tool needs one.

    Raises `ServiceError` VALIDATION_ERROR if the guard does not permit the call.
    """
    async with open_tools(database) as tools:
        policy = await _policy(settings, tools)
        call = _permitted(policy, FunctionCall(name=name, arguments=arguments), user_id, consent=consent)
        return await tools.execute(call.tool_name, call.arguments, call.user_id, operation_key=call.operation_key)


async def _policy(settings: Settings, tools: McpToolExecutor) -> Policy:
    constitution = Constitution.load(settings.constitution)
    await tools.start()
    served = tools.declarations()
    return compile_policy(constitution, served, {tool.name: tools.traits(tool.name) for tool in served})


def _permitted(policy: Policy, call: FunctionCall, user_id: str, *, consent: bool) -> AuthorizedCall:
    key, now = RandomIds().new(), SystemClock().now()
    confirmed = PendingAction(
        id=key,
        tool_name=call.name,
        arguments=call.arguments,
        description=call.name,
        created_at=now,
        expires_at=now + CONFIRMATION_LIFETIME,
    )
    judgement, *_ = judge_batch(
        [call],
        policy=policy,
        user_id=user_id,
        decision_id=key,
        max_calls_per_turn=1,
        confirmed=confirmed if consent else None,
    )
    if judgement.authorized is None:
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, f"{call.name}: {judgement.error}")
    return judgement.authorized
