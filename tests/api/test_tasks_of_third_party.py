"""GET /api/tasks with a third-party server: the constitution decides about this call like about those of a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.llm.embedded.planning import EmbeddedAdapter
from graph_agent.record.audit_writer import MemoryAuditWriter
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.setup import EnginePorts
from tests.chat.environment import Environment

READS = ToolAnnotations(read_only_hint=True)


async def tasks_over(
    environment: Environment,
    served: Callable[[Runtime], httpx.AsyncClient],
    line: str,
    *,
    has: list[Any] | None = None,
    query: str = "",
    audit: MemoryAuditWriter | None = None,
) -> tuple[httpx.Response, list[tuple[str, str]]]:
    """Return the answer under a constitution with one more line, and the calls that the server got; it `has` these tasks."""
    server, calls = MCPServer("board", log_level="ERROR"), []

    @server.tool(annotations=READS)
    async def list_tasks(status: str, owner: str = "everyone") -> dict[str, Any]:
        calls.append((status, owner))
        return {"tasks": [{"id": "1", "owner": owner}] if has is None else has}

    @server.tool(annotations=READS)
    async def read_board() -> str:
        return "empty"

    tools = McpToolExecutor(server, trusted=False)
    constitution = f"# Board\n\nYou read a board.\n\n## Available Tools\n- read_board: Read the board (reads)\n{line}"
    engine = LLMAgentEngine(EmbeddedAdapter(), tools, constitution, ports=EnginePorts(audit or MemoryAuditWriter()))
    try:
        other: Any = tools
        async with served(dataclasses.replace(environment.runtime(), tools=other, engine=engine, tasks=None)) as client:
            return await client.get(f"/api/tasks{query}"), calls
    finally:
        await engine.aclose()
        await tools.aclose()


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("", 404),
        ("- list_tasks: List the tasks\n", 503),
        ("- list_tasks: List the tasks (reads) (requires confirmation)\n", 404),
    ],
    ids=["not listed", "of an untrusted server without a mark", "needs a confirmation"],
)
async def test_a_tool_that_the_constitution_does_not_permit_as_a_read_is_not_called(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient], line: str, status: int
) -> None:
    answer, calls = await tasks_over(environment, served, line)
    assert (answer.status_code, calls) == (status, [])


async def test_the_argument_that_the_constitution_binds_is_the_user(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient]
) -> None:
    line = "- list_tasks: List the tasks (reads) (owner is the signed-in user)\n"
    answer, calls = await tasks_over(environment, served, line)
    assert (answer.status_code, calls) == (200, [("all", LOCAL_USER)])
    assert answer.json()["items"] == [{"id": "1", "owner": LOCAL_USER}]


async def test_what_the_page_reads_from_another_server_is_a_recorded_decision(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient]
) -> None:
    audit = MemoryAuditWriter()
    answer, calls = await tasks_over(environment, served, "- list_tasks: List the tasks (reads)\n", audit=audit)
    assert (answer.status_code, calls) == (200, [("all", "everyone")])
    (record,) = audit.records.values()
    assert (record.header.context.user_id, record.header.model) == (LOCAL_USER, "none")
    assert [(one.tool_name, one.parameters) for one in record.invocations] == [("list_tasks", {"status": "all"})]


async def test_a_page_begins_after_a_task_whose_id_is_a_number(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient]
) -> None:
    has = [{"id": 2**60 + number} for number in range(3)]
    line = "- list_tasks: List the tasks (reads)\n"
    answer, _ = await tasks_over(environment, served, line, has=has, query=f"?limit=1&before={2**60}")
    assert answer.json() == {"items": [{"id": 2**60 + 1}], "has_more": True}


async def test_tasks_that_are_no_objects_are_not_available(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient]
) -> None:
    answer, _ = await tasks_over(environment, served, "- list_tasks: List the tasks (reads)\n", has=["call mom"])
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
