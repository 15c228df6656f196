"""Several MCP servers as one tool server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.server.mcpserver import MCPServer

from graph_agent.clock import ManualClock
from graph_agent.errors import ToolErrorCode
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.llm import FunctionCall
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.ports import Clock, ToolServer
from graph_agent.tools import session
from graph_agent.tools.served_policy import ServedPolicy
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.words.reasons import for_model
from tests.judging import judge_batch
from tests.permission import permitted

DOWN = StdioServerParameters(command="/no/such/command")


def server(*tools: str) -> MCPServer[Any]:
    """Return a server whose tools return their own names."""
    built: MCPServer[Any] = MCPServer("third-party", log_level="ERROR")
    for name in tools:

        async def tool(name: str = name) -> dict[str, str]:
            return {"tool": name}

        built.add_tool(tool, name=name)
    return built


@asynccontextmanager
async def group(
    *servers: ServerConfig, granted: Sequence[str] = (), clock: Clock | None = None
) -> AsyncIterator[McpServerGroup]:
    tools = McpServerGroup(servers, granted=granted, clock=clock)
    await tools.start()
    yield tools
    await tools.aclose()


async def test_tools_keep_their_names_unless_two_servers_serve_one() -> None:
    async with group(ServerConfig("a", server("read", "write")), ServerConfig("b", server("read"))) as tools:
        assert isinstance(tools, ToolServer)
        assert tools.get_available_tools() == ["a.read", "write", "b.read"]
        assert (await tools.execute(permitted("b.read", {}, "ann"))).success
        assert (await tools.execute(permitted("read", {}, "ann"))).error_code is ToolErrorCode.TOOL_UNAVAILABLE


async def test_a_turn_gives_a_call_as_long_as_the_slowest_server_may_take() -> None:
    async with group(ServerConfig("a", server("read"), timeout=1), ServerConfig("b", server("write"), timeout=45)) as tools:
        assert tools.call_seconds == 45
        assert [executor.call_seconds for executor in tools.executors.values()] == [1, 45]


async def test_a_prefix_is_used_on_request_and_where_the_constitution_uses_it() -> None:
    async with group(
        ServerConfig("a", server("read"), prefixed=True), ServerConfig("b", server("list", "write")), granted=["b.write"]
    ) as tools:
        assert tools.get_available_tools() == ["a.read", "list", "b.write"]


async def test_a_tool_cannot_take_the_name_of_another_servers_tool() -> None:
    async with group(ServerConfig("a", server("read")), ServerConfig("b", server("a.read")), granted=["a.read"]) as tools:
        assert tools.get_available_tools() == ["a.read", "b.a.read"]


async def test_the_tools_of_a_server_that_is_down_are_unavailable_and_the_others_continue() -> None:
    async with group(ServerConfig("a", server("read")), ServerConfig("down", DOWN, secrets=("such",))) as tools:
        assert not await tools.start()
        assert tools.get_available_tools() == ["read"]
        results = await asyncio.gather(*(tools.execute(permitted(name, {}, "ann")) for name in ["read", "down.write"] * 25))
        assert [result.error_code for result in results] == [None, ToolErrorCode.TOOL_UNAVAILABLE] * 25
        assert tools.failure("down") == "there is no *** command or folder: /no/***/command"


async def test_a_command_that_dies_at_once_is_not_started_by_every_call(caplog: pytest.LogCaptureFixture) -> None:
    async with group(ServerConfig("down", DOWN), clock=ManualClock()) as tools:
        executor = tools.executors["down"]
        for _ in range(20):
            await executor.start()
        # The first failure is retried at once; after the second one no session is opened during the back-off.
        failures = [record for record in caplog.records if record.name == session.logger.name]
        assert 1 <= len(failures) <= 2
        assert executor.failure == "there is no such command or folder"


async def policy_of(tools: McpServerGroup, *names: str) -> CompiledPolicy:
    lines = "\n".join(f"- {name}: Act (without confirmation)" for name in names)
    return await ServedPolicy(Constitution.parse(f"## Available Tools\n{lines}\n"), tools, seconds=60).current()


def replayed(policy: CompiledPolicy) -> CompiledPolicy:
    """Return the policy as a replay builds it from the record."""
    snapshot = PolicySnapshot(policy, AgentEngineConfig(), "prompt")
    return PolicySnapshot.from_texts(snapshot.texts, snapshot.digests).policy


def refusal(policy: CompiledPolicy) -> str | None:
    """Return the guard's refusal of a call of `add_note`."""
    requested = [FunctionCall(name="add_note", arguments={})]
    (judgement,) = judge_batch(requested, policy=policy, user_id="ann", decision_id="d", max_calls_per_turn=1)
    return for_model(judgement.reason) or None


async def test_a_name_of_a_server_that_is_down_is_not_taken_over_by_another_server() -> None:
    servers = (ServerConfig("notes", DOWN), ServerConfig("other", server("add_note")))
    async with group(*servers, granted=["add_note"]) as tools:
        why = "the server 'notes' has not answered yet and may serve it too: write 'other.add_note' in the constitution, or pin"
        assert refusal(await policy_of(tools, "add_note")) == f"unavailable: {why} the tools"
        assert (await tools.execute(permitted("add_note", {}, "ann"))).error_code is ToolErrorCode.TOOL_UNAVAILABLE
        assert tools.get_available_tools() == ["other.add_note"]


async def test_a_server_with_a_prefix_takes_no_name_whether_it_is_down_or_serves_a_tool_of_this_name() -> None:
    for beside in (DOWN, server("add_note")):
        servers = (ServerConfig("notes", beside, prefixed=True), ServerConfig("other", server("add_note")))
        async with group(*servers, granted=["add_note"]) as tools:
            assert refusal(await policy_of(tools, "add_note")) is None
            assert (await tools.execute(permitted("add_note", {}, "ann"))).success
    swapped = (ServerConfig("notes", server("add_note"), prefixed=True), ServerConfig("other", DOWN))
    async with group(*swapped, granted=["add_note"]) as tools:
        assert tools.get_available_tools() == ["notes.add_note"]
        assert (await tools.execute(permitted("add_note", {}, "ann"))).error_code is ToolErrorCode.TOOL_UNAVAILABLE


async def test_a_name_that_two_servers_serve_refuses_the_call_and_not_the_start() -> None:
    async with group(
        ServerConfig("a", server("add_note", "read")), ServerConfig("b", server("add_note")), granted=["add_note", "read"]
    ) as tools:
        policy = await policy_of(tools, "add_note", "read")
        assert list(policy.rules) == ["read"]
        assert "the servers 'a' and 'b' have a tool of this name" in str(refusal(policy))
        assert replayed(policy).unavailable == policy.unavailable


async def test_a_name_keeps_its_server_even_if_that_server_drops_the_tool_and_another_one_adds_it() -> None:
    first, second = server("add_note", "read"), server("write")
    async with group(ServerConfig("a", first), ServerConfig("b", second), granted=["add_note"]) as tools:
        assert tools.get_available_tools() == ["add_note", "read", "write"]
        first.remove_tool("add_note")
        second.add_tool(print, name="add_note")
        for executor in tools.executors.values():
            await executor.aclose()
        assert not await tools.start()
        assert "it belongs to the server 'a', and now 'b' serves it" in str(refusal(await policy_of(tools, "add_note")))


async def test_a_pinned_name_belongs_to_the_server_that_the_pin_file_names() -> None:
    async with group(ServerConfig("a", server("add_note"))) as pinning:
        pins = pinning.pins()
    down = McpServerGroup([ServerConfig("b", server("read")), ServerConfig("a", DOWN)], granted=["add_note"], pins=pins)
    await down.start()
    assert down.get_available_tools() == []
    await down.aclose()
    certain = McpServerGroup([ServerConfig("b", DOWN), ServerConfig("a", server("add_note"))], granted=["add_note"], pins=pins)
    await certain.start()
    assert (await certain.execute(permitted("add_note", {}, "ann"))).success
    await certain.aclose()


async def test_a_constitution_for_one_server_works_when_a_second_one_without_its_names_is_added() -> None:
    async with group(
        ServerConfig("notes", server("notes", "add_note")), ServerConfig("b", server("write")), granted=["notes", "add_note"]
    ) as tools:
        assert (await tools.execute(permitted("add_note", {}, "ann"))).success
        assert refusal(await policy_of(tools, "notes", "add_note")) is None
        for executor in tools.executors.values():
            await executor.aclose()
        assert (await tools.execute(permitted("notes", {}, "ann"))).success
