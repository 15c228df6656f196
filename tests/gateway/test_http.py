"""The gateway over HTTP with bearer tokens: the token says who calls, and what it may do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from graph_agent.api.server import HttpServerConfig
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.bootstrap.tools_app import mcp_app
from graph_agent.gateway.server import Gateway
from graph_agent.settings import Settings
from tests.chat.environment import Environment
from tests.gateway.test_gateway import MODES, YES, User, add, value
from tests.serving import ServerWithoutSignals
from tests.task_server.test_http import WITH_TOKENS, bearer, called


@asynccontextmanager
async def gateway_over_http(environment: Environment, settings: Settings = WITH_TOKENS) -> AsyncGenerator[str]:
    """Serve a gateway for the subjects of tokens in this loop; yield its address."""
    async with over_http(environment.runtime(), settings) as url:
        yield url


@asynccontextmanager
async def over_http(runtime: Runtime, settings: Settings = WITH_TOKENS) -> AsyncGenerator[str]:
    """Serve a gateway before the tools of `runtime`."""
    gateway = Gateway(runtime.engine, runtime.chat, user_id=None, page="https://page.example")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        options: Any = {"stateless_http": False, "json_response": False}
        app = mcp_app(settings, gateway.server, url, reads=gateway.reads, **options)
        server = ServerWithoutSignals(HttpServerConfig(app, lifespan="on", timeout_graceful_shutdown=1))
        async with gateway.maintained():
            running = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield url
            finally:
                server.should_exit = True
                await running


@asynccontextmanager
async def connected(url: str, headers: dict[str, str], mode: str = "auto", user: User | None = None) -> AsyncGenerator[Client]:
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, elicitation_callback=user) as client,
    ):
        yield client


@MODES
async def test_the_token_says_who_calls_and_confirmation_works_over_http(environment: Environment, mode: str) -> None:
    user = User(YES)
    async with (
        gateway_over_http(environment) as url,
        connected(url, bearer("ann"), mode, user) as ann,
        connected(url, bearer("bob"), mode) as bob,
    ):
        task = await add(ann, "call mom")
        await add(bob, "buy milk")
        # A user in the metadata is ignored.
        meta = cast(Any, {"graph_agent/user": "ann"})
        listed = await bob.session.call_tool("list_tasks", {}, meta=meta)
        assert [one["description"] for one in value(cast(Any, listed))["data"]["tasks"]] == ["buy milk"]
        deleted = await ann.call_tool("delete_task", {"task_id": task})
        assert value(deleted)["data"]["preview"] == "call mom"
    assert (await environment.descriptions("ann"), await environment.descriptions("bob")) == ([], ["buy milk"])
    assert {record.header.context.user_id for record in await environment.records()} == {"ann", "bob"}


async def test_the_roles_of_the_token_are_recorded_with_the_call(environment: Environment) -> None:
    settings = WITH_TOKENS.model_copy(update={"roles": "team=manager,clerk"})
    async with gateway_over_http(environment, settings) as url:
        headers = bearer("ann", team=["manager", "root"])
        async with connected(url, headers, user=User(YES)) as client:
            await client.call_tool("delete_task", {"task_id": await add(client, "call mom")})
    assert [record.header.context.roles for record in await environment.records()] == [("manager",)] * 3


async def test_a_token_without_the_scope_to_write_only_reads(environment: Environment) -> None:
    async with gateway_over_http(environment) as url:
        async with connected(url, bearer("ann", "read")) as client:
            listed = await client.call_tool("list_tasks", {})
            assert value(listed)["data"]["tasks"] == []
        async with httpx2.AsyncClient(headers=bearer("ann", "read"), timeout=60) as http:
            refused = await http.post(url, json=called("add_task", description="call mom"))
            assert (refused.status_code, refused.json()["error"]) == (403, "insufficient_scope")
    assert await environment.descriptions() == []


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer nonsense"}])
async def test_a_request_without_a_valid_token_is_refused(environment: Environment, headers: dict[str, str]) -> None:
    async with gateway_over_http(environment) as url, httpx2.AsyncClient(headers=headers, timeout=60) as http:
        assert (await http.post(url, json=called("list_tasks"))).status_code == 401
