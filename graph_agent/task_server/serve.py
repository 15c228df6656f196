"""The transports of the task server for other processes: stdio and ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]


async def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve MCP on stdin and stdout until the client disconnects. No other code may write to stdout meanwhile."""
    await server.run_stdio_async()


def streamable_http_app(
    server: MCPServer[Any],
    *,
    allowed_hosts: list[str] | None = None,
    allowed_origins: list[str] | None = None,
    path: str = "/mcp",
) -> AsgiApp:
    """Return `server` as an ASGI application that accepts only the given Host and Origin headers; by default loopback.

    Hosts are written `name:port`, or `name:*` for any port. If the application is mounted in another one, the lifespan of that
    one must run `server.session_manager.run()`.
    """
    loopback = ["127.0.0.1:*", "localhost:*", "[::1]:*"]
    return server.streamable_http_app(
        streamable_http_path=path,
        json_response=True,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=allowed_hosts or loopback,
            allowed_origins=allowed_origins or [f"http://{host}" for host in loopback],
        ),
    )
