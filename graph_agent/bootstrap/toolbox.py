"""The tool servers of a runtime: those of a file, or the shipped task server in this process."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from graph_agent.clock import RandomIds, SystemClock
from graph_agent.db import Database
from graph_agent.errors import ConfigurationError, ServiceError, ServiceErrorCode
from graph_agent.models.decision import CONFIRMATION_LIFETIME, PendingAction
from graph_agent.models.llm import FunctionCall
from graph_agent.models.tools import ToolResult
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.guard import AuthorizedCall, judge_batch
from graph_agent.policy.rules import Policy, compile_policy
from graph_agent.ports import Clock, IdSource
from graph_agent.settings import Settings
from graph_agent.task_server.server import build_task_server
from graph_agent.tools.identity import UserHeaders
from graph_agent.tools.pins import Pins, lock_file
from graph_agent.tools.server_file import ServerConfig, read_server_file
from graph_agent.tools.server_group import McpServerGroup


@asynccontextmanager
async def open_tools(
    database: Database,
    *,
    file: Path | None = None,
    constitution: Constitution | None = None,
    pins: Pins | None = None,
    user_headers: UserHeaders | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
) -> AsyncGenerator[McpServerGroup]:
    """Open a client of the MCP servers that `file` lists, or else of the task server in this process.

    The names in the constitution decide how tools are called. With `pins`, a tool that differs from its pinned definition is
    refused. `user_headers` are the headers of each user for servers over HTTP. Raises `ConfigurationError`.
    """
    if file is None:
        servers = [ServerConfig("tasks", build_task_server(database, clock, ids), trusted=True)]
    else:
        servers = read_server_file(file, os.environ)
    granted = () if constitution is None else constitution.whitelist
    tools = McpServerGroup(servers, granted=granted, pins=pins, user_headers=user_headers, clock=clock)
    try:
        yield tools
    finally:
        await tools.aclose()


def pins_of(settings: Settings) -> Pins | None:
    """Return the pins in the lock file beside the constitution of `settings`, if there are any for its MCP servers."""
    if settings.mcp is None or settings.constitution is None:
        return None
    return Pins.load(lock_file(settings.constitution))


def shared_identities(settings: Settings) -> list[str]:
    """Return the configured MCP servers that cannot tell the users apart. Raises `ConfigurationError`."""
    servers = [] if settings.mcp is None else read_server_file(settings.mcp, os.environ)
    return McpServerGroup(servers).shared_identities()


async def serve_tools(database: Database, user_id: str) -> None:
    """Serve one user's tasks over stdio until the client disconnects."""
    await build_task_server(database, default_user=user_id).run_stdio_async()


def tools_app(database: Database, user_id: str) -> Any:
    """Return an ASGI application (streamable HTTP at /mcp) with one user's tasks, for loopback addresses."""
    return build_task_server(database, default_user=user_id).streamable_http_app(json_response=True)


async def served_policy(settings: Settings, database: Database) -> Policy:
    """Return the policy: the constitution joined with the tools of the server. Raises `ConfigurationError`."""
    constitution = Constitution.load(settings.constitution)
    async with open_tools(database, file=settings.mcp, constitution=constitution, pins=pins_of(settings)) as tools:
        return await _policy(constitution, tools)


async def call_tool(
    settings: Settings, database: Database, name: str, arguments: dict[str, Any], user_id: str, *, consent: bool
) -> ToolResult:
    """Make one call that the guard has checked like a model's; `consent` is the user's yes, if the tool needs one.

    Raises `ServiceError` VALIDATION_ERROR if the guard does not permit the call.
    """
    constitution = Constitution.load(settings.constitution)
    async with open_tools(database, file=settings.mcp, constitution=constitution, pins=pins_of(settings)) as tools:
        policy = await _policy(constitution, tools)
        call = _permitted(policy, FunctionCall(name=name, arguments=arguments), user_id, consent=consent)
        return await tools.execute(call.tool_name, call.arguments, call.user_id, operation_key=call.operation_key)


async def _policy(constitution: Constitution, tools: McpServerGroup) -> Policy:
    await connect(tools)
    served = tools.declarations()
    return compile_policy(constitution, served, {tool.name: tools.traits(tool.name) for tool in served})


async def connect(tools: McpServerGroup) -> None:
    """Connect to all servers. Raises `ConfigurationError` if one does not answer, or if a tool of it is refused."""
    await tools.start()
    if down := [f"'{name}' ({tools.failure(name)})" for name, executor in tools.executors.items() if not executor.connected]:
        raise ConfigurationError(f"these MCP servers do not answer: {', '.join(down)}")
    differing = [f"{server}.{tool} ({why})" for server, one in tools.executors.items() for tool, why in one.refused.items()]
    if differing:
        raise ConfigurationError(f"these tools differ from their pinned definitions: {', '.join(differing)}")


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
        # Its ledger row names no decision, which `log verify` would look for.
        decision_id=f"tools-call:{key}",
        max_calls_per_turn=1,
        confirmed=confirmed if consent else None,
    )
    if judgement.authorized is None:
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, f"{call.name}: {judgement.error}")
    return judgement.authorized
