"""What an operator has stopped is not sent by a gateway: neither calls nor the reads of prompts and linked resources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.models.stop import Stop, StopScope
from graph_agent.record.stops import end_stop, place_stop
from tests.chat.environment import Environment
from tests.gateway.parts_server import LINK
from tests.gateway.test_gateway import add, connect, opened, value
from tests.gateway.test_parts import connected
from tests.mcp.conftest import Servers

SAY = "We look into it."
SENTENCE = f"{SAY} Nothing was done."
READS = pytest.mark.parametrize(
    ("name", "read"),
    [
        ("today", lambda client: client.read_resource(LINK.uri)),
        ("review", lambda client: client.get_prompt("parts.review", {"name": "today"})),
    ],
)


async def stop(runtime: Runtime, scope: StopScope, name: str = "", *, changes_only: bool = False) -> int:
    """Stop something in another process, of which the gateway has to learn before the next read."""
    runtime.audit.permit.renew_seconds = 0.0
    placed = Stop(number=0, scope=scope, name=name, changes_only=changes_only, reason="wrong", say=SAY)
    return (await place_stop(runtime.database, placed)).number


async def resume(runtime: Runtime, number: int) -> None:
    await end_stop(runtime.database, number, runtime.audit.permit.sealer, by="olga", reason="fixed")


async def asked_for(client: Client) -> Any:
    """The prompts and resources that the server was asked for."""
    return value(await client.call_tool("served", {}))["data"]["result"]


@READS
@pytest.mark.parametrize(
    ("scope", "name_of_stop"), [(StopScope.EVERYTHING, ""), (StopScope.SERVER, "parts"), (StopScope.USER, "local")]
)
async def test_a_stop_reaches_the_read_of_a_prompt_and_of_a_linked_resource_until_it_is_resumed(
    tmp_path: Path,
    servers: Servers,
    name: str,
    read: Callable[[Client], Awaitable[Any]],
    scope: StopScope,
    name_of_stop: str,
) -> None:
    async with connected(tmp_path, servers, "auto") as (client, runtime):
        await client.call_tool("show", {"what": "link"})
        stopped = await stop(runtime, scope, name_of_stop)
        with pytest.raises(MCPError) as refused:
            await read(client)
        assert refused.value.message == SENTENCE
        await resume(runtime, stopped)
        await read(client)
        assert await asked_for(client) == [name]


@READS
async def test_a_stop_of_changes_or_of_others_lets_reads_pass(
    tmp_path: Path, servers: Servers, name: str, read: Callable[[Client], Awaitable[Any]]
) -> None:
    async with connected(tmp_path, servers, "auto") as (client, runtime):
        await client.call_tool("show", {"what": "link"})
        for scope, other in [(StopScope.EVERYTHING, ""), (StopScope.SERVER, "other"), (StopScope.USER, "bob")]:
            await stop(runtime, scope, other, changes_only=not other)
        await read(client)
        assert await asked_for(client) == [name]


async def test_a_stop_reaches_the_call_of_a_client(environment: Environment) -> None:
    async with opened(environment) as (gateway, runtime), connect(gateway, "auto") as client:
        await add(client, "call mom")
        stopped = await stop(runtime, StopScope.EVERYTHING)
        refused = await client.call_tool("add_task", {"description": "bread"})
        assert (refused.is_error, value(refused)["error"]) == (True, SENTENCE)
        await resume(runtime, stopped)
        assert await environment.descriptions() == ["call mom"]
        await add(client, "bread")
