"""MCP servers over HTTP: the shipped task server, and any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graph_agent.db import Database
from graph_agent.net.bearer_tokens import BearerTokens
from graph_agent.net.mcp_http import LaunchTokenGate, ProtectedResource, SubjectTokens, local_app, protected_app
from graph_agent.settings import Settings
from graph_agent.task_server.declarations import TOOL_HINTS
from graph_agent.task_server.server import build_task_server


def tools_app(settings: Settings, database: Database, user_id: str, url: str, launch_token: str | None = None) -> Any:
    """Return an ASGI application (streamable HTTP) with the tasks, for clients that reach it as `url`.

    With bearer tokens it serves the tasks of their subjects, otherwise those of one user; see `mcp_app`.
    """
    server = build_task_server(database, default_user=None if settings.authenticates else user_id)
    return mcp_app(settings, server, url, launch_token, reads=_is_read)


def mcp_app(
    settings: Settings,
    server: Any,
    url: str,
    launch_token: str | None = None,
    *,
    reads: Callable[[object], bool],
    **options: Any,
) -> Any:
    """Return an ASGI application with an MCP server of the SDK, for clients that reach it as `url`.

    With bearer tokens it serves their subjects, otherwise one user on loopback addresses, to clients that send the launch
    token; without one, to all clients. A token needs the scope `write` for a tool for whose name `reads` is false. `options`
    are those of the SDK. Raises `ConfigurationError`.
    """
    if not settings.authenticates:
        app = local_app(server, **options)
        return app if launch_token is None else LaunchTokenGate(app, launch_token)
    verifier = SubjectTokens(BearerTokens.of(settings))
    return protected_app(server, ProtectedResource(url, settings.jwt_issuer), verifier, reads=reads, **options)


def _is_read(name: object) -> bool:
    return isinstance(name, str) and name in TOOL_HINTS and TOOL_HINTS[name].read_only
