"""The task server over HTTP: for the users of bearer tokens, and for one user on loopback."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import httpx2
import jwt
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic import SecretStr

from graph_agent.api.server import HttpServerConfig
from graph_agent.bootstrap.tools_app import tools_app
from graph_agent.db import Database, migrate
from graph_agent.settings import Settings
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.tools.transport import HttpServer
from tests.permission import permitted
from tests.serving import ServerWithoutSignals

SECRET = "a secret of sixty-four bytes or more, so that no algorithm complains of it"
ISSUER = "https://login.example"
WITH_TOKENS = Settings(
    GRAPH_AGENT_JWT_SECRET=SecretStr(SECRET),
    GRAPH_AGENT_JWT_AUDIENCE="tasks",
    GRAPH_AGENT_JWT_ISSUER=ISSUER,
    GRAPH_AGENT_SECRET=SecretStr("x" * 32),
    GRAPH_AGENT_HOME=Path("/nonexistent"),
)
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
JSON = {"accept": "application/json, text/event-stream"}


def token(subject: str, scope: str | None = "read write", **claims: Any) -> str:
    given = {"sub": subject, "aud": "tasks", "iss": ISSUER, "exp": int(time.time()) + 600, "scope": scope, **claims}
    return jwt.encode({name: value for name, value in given.items() if value is not None}, SECRET, algorithm="HS256")


def bearer(subject: str, scope: str | None = "read write", **claims: Any) -> dict[str, str]:
    return {**JSON, "authorization": f"Bearer {token(subject, scope, **claims)}"}


def called(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


@asynccontextmanager
async def tasks_over_http(settings: Settings, url: str | None = None) -> AsyncIterator[str]:
    """Serve an empty task list in this loop; yield its address."""
    database = Database.open("sqlite://")
    migrate(database, "graph_agent.task_server")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        app = tools_app(settings, database, "local", url or address)
        server = ServerWithoutSignals(HttpServerConfig(app, lifespan="on", timeout_graceful_shutdown=1))
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield address
        finally:
            server.should_exit = True
            await running
            await database.close()


async def descriptions(url: str, subject: str) -> list[str]:
    async with McpToolExecutor(HttpServer(url, bearer(subject)), timeout=60) as tools:
        data = (await tools.execute(permitted("list_tasks", {}, "whoever"))).data
    assert isinstance(data, dict)
    return (
        [task["description"] for task in data["data"]["tasks"]] if "data" in data else [t["description"] for t in data["tasks"]]
    )


async def test_each_user_has_the_tasks_of_the_tokens_subject() -> None:
    async with tasks_over_http(WITH_TOKENS) as url:
        for user in ("ann", "bob"):
            async with (
                httpx2.AsyncClient(headers=bearer(user), timeout=60) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                added = await client.call_tool("add_task", {"description": f"the task of {user}"})
                assert not added.is_error
                # Another user in `_meta` is refused: the token says who calls.
                other = await client.session.call_tool("list_tasks", {}, meta=cast(Any, {"graph_agent/user": "eve"}))
                assert other.structured_content is not None
                assert (other.is_error, other.structured_content["error_code"]) == (True, "ACCESS_DENIED")
        assert await descriptions(url, "ann") == ["the task of ann"]
        assert await descriptions(url, "bob") == ["the task of bob"]


@pytest.mark.parametrize(
    "headers",
    [
        JSON,
        {**JSON, "authorization": "Basic YW5uOmE="},
        {**JSON, "authorization": "Bearer nonsense"},
        bearer("ann", exp=1),
        bearer("ann", aud="another"),
        bearer("ann", iss="https://evil.example"),
        bearer("ann", iss=None),
    ],
)
async def test_a_request_without_a_valid_token_is_told_where_to_get_one(headers: dict[str, str]) -> None:
    async with tasks_over_http(WITH_TOKENS) as url, httpx.AsyncClient(timeout=60) as client:
        refused = await client.post(url, json=INITIALIZE, headers=headers)
        origin = url.removesuffix("/mcp")
        metadata = f"{origin}/.well-known/oauth-protected-resource/mcp"
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == (
            'Bearer error="invalid_token", error_description="A valid bearer token is required.", scope="read", '
            f'resource_metadata="{metadata}"'
        )
        assert (await client.get(metadata)).json() == {
            "resource": url,
            "authorization_servers": [ISSUER],
            "scopes_supported": ["read", "write"],
            "bearer_methods_supported": ["header"],
        }


async def test_a_token_without_the_scope_write_only_reads() -> None:
    async with tasks_over_http(WITH_TOKENS) as url, httpx.AsyncClient(timeout=60) as client:
        no_scope = await client.post(url, json=INITIALIZE, headers=bearer("ann", None))
        assert (no_scope.status_code, no_scope.json()["error"]) == (403, "insufficient_scope")
        reader = bearer("ann", "read")
        listed = await client.post(url, json=called("list_tasks"), headers=reader)
        assert listed.status_code == 200
        refused = await client.post(url, json=called("add_task", description="a"), headers=reader)
        assert refused.status_code == 403
        assert 'scope="read write"' in refused.headers["www-authenticate"]
        too_long = await client.post(url, content=b" " * (2 * 1024 * 1024), headers=reader)
        assert too_long.status_code == 413
        assert await descriptions(url, "ann") == []


async def test_hosts_and_origins_other_than_the_public_address_are_refused() -> None:
    async with tasks_over_http(WITH_TOKENS, "https://tasks.example/mcp") as url, httpx.AsyncClient(timeout=60) as client:
        statuses = [
            (await client.post(url, json=called("list_tasks"), headers={**bearer("ann"), **headers})).status_code
            for headers in (
                {"host": "tasks.example"},
                {"host": "tasks.example", "origin": "https://tasks.example"},
                {"host": "tasks.example", "origin": "https://evil.example"},
                {"host": "evil.example"},
            )
        ]
        assert statuses == [200, 200, 403, 421]


async def test_without_tokens_one_user_is_served_on_loopback() -> None:
    async with tasks_over_http(Settings(GRAPH_AGENT_HOME=Path("/nonexistent"))) as url, httpx.AsyncClient(timeout=60) as client:
        async with Client(url) as plain:
            added = await plain.call_tool("add_task", {"description": "a"})
        assert added.structured_content is not None
        assert added.structured_content["data"]["task"]["user_id"] == "local"
        assert (await client.post(url, json=INITIALIZE, headers={**JSON, "host": "evil.example"})).status_code == 421
        assert (await client.get(f"{url.removesuffix('/mcp')}/.well-known/oauth-protected-resource/mcp")).status_code == 404


async def test_tokens_that_cannot_be_checked_now_are_answered_with_503() -> None:
    settings = Settings(
        GRAPH_AGENT_JWKS_URL="http://127.0.0.1:9/keys",
        GRAPH_AGENT_JWT_AUDIENCE="tasks",
        GRAPH_AGENT_SECRET=SecretStr("x" * 32),
        GRAPH_AGENT_HOME=Path("/nonexistent"),
    )
    async with tasks_over_http(settings) as url, httpx.AsyncClient(timeout=60) as client:
        signed = jwt.encode({"sub": "ann"}, SECRET, algorithm="HS256", headers={"kid": "k"})
        answered = await client.post(url, json=INITIALIZE, headers={**JSON, "authorization": f"Bearer {signed}"})
        assert (answered.status_code, answered.json()["error"]) == (503, "temporarily_unavailable")


async def test_our_own_client_keeps_its_ledger_over_http() -> None:
    async with tasks_over_http(WITH_TOKENS) as url:
        server = HttpServer(url, bearer("ann"))
        async with McpToolExecutor(server, timeout=60, trusted=True) as tools:
            first = await tools.execute(permitted("add_task", {"description": "a"}, "ann", "d:1"))
            again = await tools.execute(permitted("add_task", {"description": "a"}, "ann", "d:1"))
            void = await tools.settle(permitted("add_task", {"description": "b"}, "ann", "d:2"))
            late = await tools.execute(permitted("add_task", {"description": "b"}, "ann", "d:2"))
            missing = {"task_id": "00000000-0000-4000-8000-000000000000"}
            failed = await tools.execute(permitted("complete_task", missing, "ann", "d:3"))
        assert isinstance(first.data, dict)
        assert first.data["preview"] == "a"
        assert again.data == first.data
        assert [result.error_code for result in (void, late, failed)] == [
            "TOOL_EXECUTION_ERROR",
            "TOOL_EXECUTION_ERROR",
            "NOT_FOUND",
        ]
        assert await descriptions(url, "ann") == ["a"]
