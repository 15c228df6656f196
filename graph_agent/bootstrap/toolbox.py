"""The tool servers of a runtime: those of a file, or the shipped task server in this process."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from graph_agent.bootstrap.database_rules import conditions_of, has_server, has_shipped_tools, missing_servers, pins_of
from graph_agent.bootstrap.rule_settings import constitution_of
from graph_agent.db import Database
from graph_agent.errors import ConfigurationError
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.constitution import Constitution
from graph_agent.ports import Clock
from graph_agent.settings import Settings
from graph_agent.task_server.server import build_task_server
from graph_agent.tools.identity import SignIns, UserHeaders, sign_in
from graph_agent.tools.pins import lock_file
from graph_agent.tools.served_policy import ServedPolicy
from graph_agent.tools.server_file import MAX_TIMEOUT_SECONDS, ServerConfig, read_server_file
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.tools.transport import HttpServer


@asynccontextmanager
async def open_tools(
    database: Database,
    settings: Settings,
    constitution: Constitution | None = None,
    *,
    user_headers: UserHeaders | None = None,
    clock: Clock | None = None,
    group: Callable[..., McpServerGroup] = McpServerGroup,
) -> AsyncGenerator[McpServerGroup]:
    """Open a client of the MCP servers in the file that `settings` name, or else of the task server in this process.

    With a constitution, its names decide how tools are called, and a tool that differs from its pinned definition is refused.
    `user_headers` are the headers of each user for servers over HTTP. `group` makes the client. Raises `ConfigurationError`.
    """
    tools = group(
        [ServerConfig("tasks", build_task_server(database, clock), trusted=True)]
        if has_shipped_tools(settings)
        else _servers(settings),
        granted=() if constitution is None else constitution.whitelist,
        pins=None if constitution is None else pins_of(settings),
        missing=missing_servers(settings),
        sign_ins=_sign_ins(settings),
        user_headers=user_headers,
        clock=clock,
    )
    try:
        yield tools
    finally:
        await tools.aclose()


async def sign_in_to(settings: Settings, name: str, show: Callable[[str], None]) -> None:
    """Sign in to the MCP server `name` of the file of servers; `show` opens an address. Raises `ConfigurationError`."""
    server = next((one.server for one in _servers(settings) if one.name == name), None)
    if not isinstance(server, HttpServer):
        raise ConfigurationError(f"the file of servers has no server '{name}' with a url")
    try:
        settings.home.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigurationError(f"the folder {settings.home} (GRAPH_AGENT_HOME) cannot be created") from exc
    await sign_in(server, _sign_ins(settings), show)


def _servers(settings: Settings) -> list[ServerConfig]:
    found = [] if settings.mcp is None else read_server_file(settings.mcp, os.environ)
    return [one for one in found if has_server(settings, one.name)]


def _sign_ins(settings: Settings) -> SignIns:
    return SignIns(settings.home / "sign_ins.json")


def lock_file_of(settings: Settings) -> Path | None:
    """Return the path of the lock file; None without a file of servers or a constitution."""
    return None if settings.mcp is None or settings.constitution is None else lock_file(settings.constitution)


def conditions_from(text: str, settings: Settings, servers: Mapping[str, str], name: str = "policy.cedar") -> ConditionsFile:
    """Return other conditions for the roles and the time zone of the settings; `servers` has the server of each tool."""
    return ConditionsFile(text, name, roles=settings.role_names, time_zone=settings.time_zone, servers=servers)


def shared_identities(settings: Settings) -> list[str]:
    """Return the configured MCP servers that cannot tell the users apart. Raises `ConfigurationError`."""
    return McpServerGroup(_servers(settings)).shared_identities()


def acting_as_users(settings: Settings) -> list[str]:
    """Return the configured MCP servers that act with the rights of the signed-in user. Raises `ConfigurationError`."""
    return [one.name for one in _servers(settings) if one.user_token is not None]


async def serve_tools(database: Database, user_id: str) -> None:
    """Serve one user's tasks over stdio until the client disconnects."""
    await build_task_server(database, default_user=user_id).run_stdio_async()


async def served_policy(settings: Settings, database: Database) -> tuple[CompiledPolicy, list[str]]:
    """Return the constitution joined with the tools that are served now, and one sentence for each problem of the servers.

    The tools of a server that does not answer are unavailable. Raises `ConfigurationError`.
    """
    constitution = constitution_of(settings)
    async with open_tools(database, settings, constitution) as tools:
        return await checked_tools(constitution, tools, conditions_of(settings))


async def checked_tools(
    constitution: Constitution, tools: McpServerGroup, conditions: ConditionsFile | None = None
) -> tuple[CompiledPolicy, list[str]]:
    """Connect to all servers and return the policy, and their problems; see `served_policy`."""
    policy = await ServedPolicy(constitution, tools, seconds=MAX_TIMEOUT_SECONDS, conditions=conditions).current()
    return policy, problems(tools)


async def connect(tools: McpServerGroup) -> None:
    """Connect to all servers. Raises `ConfigurationError` if one does not answer, or if a tool of it is refused."""
    await tools.start()
    if wrong := problems(tools):
        raise ConfigurationError("; ".join(wrong))


def require_functions(tools: McpServerGroup) -> None:
    """Raise `ConfigurationError` if functions cannot be served: unlike a server that is down, their file must be mended."""
    wrong = [f"'{name}' ({tools.failure(name)})" for name in tools.functions if not tools.executors[name].connected]
    if wrong:
        raise ConfigurationError(f"these functions cannot be served: {', '.join(wrong)}")


def problems(tools: McpServerGroup) -> list[str]:
    """Return the servers that do not answer and the tools that are refused, without secret values."""
    down = [f"'{name}' ({tools.failure(name)})" for name, executor in tools.executors.items() if not executor.connected]
    differing = [f"{server}.{tool} ({why})" for server, one in tools.executors.items() for tool, why in one.refused.items()]
    # The first start of an npx or uvx command downloads the server, which can take longer than its time limit.
    hint = " (`start_timeout` in the file of servers gives them more time)" if any("in time" in text for text in down) else ""
    down += [f"'{name}' ({why})" for name, why in tools.missing.items()]
    return [
        *([f"these MCP servers do not answer: {', '.join(down)}{hint}"] if down else []),
        *([f"these tools differ from their pinned definitions: {', '.join(differing)}"] if differing else []),
        *(f"the tool {name} is not called: {why}" for name, why in tools.uncertain.items()),
    ]
