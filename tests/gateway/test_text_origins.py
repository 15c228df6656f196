"""Every text that a client reads has an origin: what a server has written is recorded first, and taints the calls after it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import ReadResourceResult

from graph_agent.bootstrap.runtime import Runtime, open_runtime
from graph_agent.gateway.answer import Answer, with_origin
from graph_agent.gateway.server import DECISION_META, Gateway
from graph_agent.models.origin import Origin
from graph_agent.models.record import DecisionRecord
from graph_agent.record.tables import decision_logs
from graph_agent.replays.replayer import replay
from graph_agent.tools.passed_on import ServerWordsError
from tests import fork_server
from tests.gateway.parts_server import LINK
from tests.gateway.test_gateway import MODES
from tests.mcp.conftest import Servers
from tests.mcp.test_third_party import settings

CONSTITUTION = """You help.

## Available Tools
- show: Show (reads) (trusted results)
- keep: Keep (without confirmation)

## Available Prompts
- parts.review: Review a note
- parts.fails_as_closed: Fails
"""
RULES = """@id("base") permit (principal, action, resource);
@id("after a foreign text it must be your words")
forbid (principal, action == Action::"keep", resource)
when { context.tainted && !(["user"].containsAll(context.source.text)) } unless { context.confirmed };
@id("no copies of foreign texts")
forbid (principal, action == Action::"keep", resource) when { context.sources.contains("untrusted") };
"""
NOT_COPIED = "permitted: no copies of foreign texts"


@asynccontextmanager
async def gateway(tmp_path: Path, servers: Servers) -> AsyncGenerator[tuple[Gateway, Runtime]]:
    constitution, rules = tmp_path / "constitution.md", tmp_path / "rules.cedar"
    constitution.write_text(CONSTITUTION, encoding="utf-8")
    rules.write_text(RULES, encoding="utf-8")
    script = str(Path(__file__).parent / "parts_server.py")
    file = servers(parts={"command": fork_server.python(), "args": [script], "timeout": 60, "trusted": True})
    given = settings(tmp_path, file, constitution, "embedded").model_copy(update={"conditions": rules})
    async with open_runtime(given) as runtime:
        opened = Gateway(runtime.engine, runtime.chat, user_id="local", page="http://127.0.0.1:1")
        async with opened.maintained():
            yield opened, runtime


async def keeps(client: Client, text: str) -> str:
    """Return the error of a call that keeps a text; empty if it was made."""
    result = await client.call_tool("keep", {"text": text})
    return str((result.structured_content or {}).get("error", ""))


async def link(client: Client) -> None:
    await client.call_tool("show", {"what": "link"})


async def resource(client: Client) -> None:
    await link(client)
    await client.read_resource(LINK.uri)


async def broken_resource(client: Client) -> None:
    await client.call_tool("show", {"what": "torn"})
    with pytest.raises(MCPError, match="The server 'parts' says"):
        await client.read_resource("notes://torn")


async def prompt(client: Client) -> None:
    await client.get_prompt("parts.review", {"name": "buy milk"})


async def broken_prompt(client: Client) -> None:
    with pytest.raises(MCPError, match="The server 'parts' says"):
        await client.get_prompt("parts.fails_as_closed")


@MODES
@pytest.mark.parametrize("read", [resource, broken_resource, prompt, broken_prompt])
async def test_what_a_client_reads_beside_its_calls_taints_those_after_it_in_every_session(
    tmp_path: Path, servers: Servers, mode: Any, read: Callable[[Client], Awaitable[None]]
) -> None:
    async with gateway(tmp_path, servers) as (opened, _):
        async with Client(opened.server, mode=mode) as client:
            assert await keeps(client, "first") == ""
            await read(client)
            assert "the user has to confirm it" in await keeps(client, "second")
        async with Client(opened.server, mode=mode) as another:
            assert "the user has to confirm it" in await keeps(another, "third")


@MODES
async def test_a_list_and_the_result_of_a_trusted_tool_taint_nothing(tmp_path: Path, servers: Servers, mode: Any) -> None:
    async with gateway(tmp_path, servers) as (opened, _), Client(opened.server, mode=mode) as client:
        await client.list_tools()
        await client.list_prompts()
        await link(client)
        assert await keeps(client, "first") == ""


@MODES
@pytest.mark.parametrize(("read", "copied"), [(resource, "buy milk"), (prompt, "Review the note buy milk.")])
async def test_a_copy_of_what_was_read_is_found_also_before_the_first_call(
    tmp_path: Path, servers: Servers, mode: Any, read: Callable[[Client], Awaitable[None]], copied: str
) -> None:
    async with gateway(tmp_path, servers) as (opened, _), Client(opened.server, mode=mode) as client:
        await read(client)
        assert NOT_COPIED in await keeps(client, copied)


async def test_a_reading_is_in_the_record_which_verifies_and_replays(tmp_path: Path, servers: Servers) -> None:
    async with gateway(tmp_path, servers) as (opened, runtime), Client(opened.server, mode="legacy") as client:
        await resource(client)
        made = await client.call_tool("keep", {"text": "x"})
        assert made.meta is not None
        asked = await runtime.audit.load(made.meta[DECISION_META])
        assert isinstance(asked, DecisionRecord)
        (sources,) = [entry.result for entry in asked.entries if entry.kind == "sources"]
        assert sources["calls"][0]["after"] == "linked resource"
        rows = [one async for one in readings(runtime)]
        (reading,) = [one for one in rows if one.invocations[0].tool_name == "linked resource"]
        assert "buy milk" in str(reading.invocations[0].result)
        assert (await replay(reading, (await runtime.engine.prepare()).texts)).identical


async def readings(runtime: Runtime) -> AsyncGenerator[DecisionRecord]:

    found = await runtime.audit.database.read(
        lambda connection: (
            connection.execute(decision_logs.select().with_only_columns(decision_logs.c.decision_id)).scalars().all()
        )
    )
    for one in found:
        record = await runtime.audit.load(one)
        if isinstance(record, DecisionRecord) and record.invocations:
            yield record


async def test_an_answer_without_an_origin_reaches_no_client() -> None:
    async def plain(context: Any, params: Any) -> Any:  # noqa: ARG001 (the SDK's signature)
        return ReadResourceResult(contents=[])

    with pytest.raises(TypeError, match="has no origin"):
        await with_origin(plain)(None, None)


async def test_a_foreign_text_reaches_no_client_before_it_is_recorded() -> None:
    with pytest.raises(TypeError, match="needs the decision"):
        Answer(ReadResourceResult(contents=[]), Origin.FOREIGN)

    async def quotes(context: Any, params: Any) -> Any:  # noqa: ARG001 (the SDK's signature)
        raise ServerWordsError(-32603, "The server 'x' says: pay")

    with pytest.raises(TypeError, match="was not recorded"):
        await with_origin(quotes)(None, None)
