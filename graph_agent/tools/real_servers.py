"""The configured MCP servers as the tools of test cases: a change is sent only to a server that can be emptied."""

from __future__ import annotations

import asyncio
from typing import Any

from graph_agent.clock import run_with_timeout
from graph_agent.errors import ConfigurationError, ToolErrorCode
from graph_agent.models.tools import ToolResult
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.server_group import McpServerGroup

NOT_SENT = ToolResult.failed(
    ToolErrorCode.TOOL_UNAVAILABLE, "A test case changes nothing on a server that cannot be emptied; nothing was done."
)
_EMPTY_SECONDS = 60.0
"""The time limit of a command that empties a server."""


class RealServers(McpServerGroup):
    """MCP servers for test cases, which the file of servers says how to empty."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.problems: list[str] = []
        """A sentence for each change that was not sent."""

    async def empty(self) -> None:
        """Remove the data of the servers that can be emptied. Raises `ConfigurationError` if one of their commands fails."""
        for server in self._servers.values():
            if server.empty:
                await _empty(server)

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        """Run a permitted call, unless it may change something on a server that cannot be emptied."""
        claims = self.claims(call.tool_name)
        if not call.mutating or (claims is not None and claims.server.empty):
            return await super().execute(call, deadline=deadline)
        server = "its server" if claims is None else f"the server '{claims.server.name}'"
        self.problems.append(
            f"{call.tool_name} was not sent: {server} cannot be emptied, because the file of servers has no `empty` for it"
        )
        return NOT_SENT


async def _empty(server: ServerConfig) -> None:
    quiet = asyncio.subprocess.DEVNULL
    try:
        command = await asyncio.create_subprocess_exec(*server.empty, stdin=quiet, stdout=quiet, stderr=quiet)
    except OSError as exc:
        raise ConfigurationError(f"the server '{server.name}' cannot be emptied: its command cannot be started") from exc
    try:
        status = await run_with_timeout(_EMPTY_SECONDS, command.wait())
    except TimeoutError:
        raise ConfigurationError(f"the server '{server.name}' was not emptied within {_EMPTY_SECONDS:g} s") from None
    finally:
        if command.returncode is None:
            command.kill()
    if status:
        raise ConfigurationError(f"the server '{server.name}' was not emptied: its command ended with {status}")
