"""The shipped task server over HTTP."""

from __future__ import annotations

from typing import Any

from graph_agent.db import Database
from graph_agent.ledger.http import LaunchTokenGate, ProtectedResource, SubjectTokens, local_app, protected_app
from graph_agent.net.bearer_tokens import BearerTokens
from graph_agent.settings import Settings
from graph_agent.task_server.declarations import TOOL_HINTS
from graph_agent.task_server.server import build_task_server


def tools_app(settings: Settings, database: Database, user_id: str, url: str, launch_token: str | None = None) -> Any:
    """Return an ASGI application (streamable HTTP) with the tasks, for clients that reach it as `url`.

    With bearer tokens it serves the tasks of their subjects, otherwise those of one user on loopback addresses, to clients that
    send the launch token; without one, to all clients. Raises `ConfigurationError`.
    """
    if not settings.authenticates:
        app = local_app(build_task_server(database, default_user=user_id))
        return app if launch_token is None else LaunchTokenGate(app, launch_token)
    read_tools = [name for name, hints in TOOL_HINTS.items() if hints.read_only]
    verifier = SubjectTokens(BearerTokens.of(settings))
    resource = ProtectedResource(url, settings.jwt_issuer)
    return protected_app(build_task_server(database), resource, verifier, read_tools=read_tools)
