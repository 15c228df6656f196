"""GET /api/about: the words of the page come from the constitution and the tools."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import httpx
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.llm.embedded.planning import EmbeddedAdapter
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.turn.engine import LLMAgentEngine
from tests.chat.environment import Environment

VIEWS = ["chat", "inbox", "decisions", "lab", "behavior"]
WORDS = ("outcomes", "types")
DISCLOSURE = "You are talking to an AI system."


async def about_board(environment: Environment, served: Callable[[Runtime], httpx.AsyncClient], constitution: str) -> object:
    """Return what a server with three tools of a notice board says about itself."""
    server = MCPServer("board", log_level="ERROR")

    @server.tool(title="Read one notice", annotations=ToolAnnotations(read_only_hint=True))
    async def read_notice(number: int) -> str:
        return f"notice {number}"

    @server.tool(title="List all notices", annotations=ToolAnnotations(read_only_hint=True))
    async def list_notices() -> str:
        return "none"

    @server.tool()
    async def pin_notice(text: str) -> str:
        return text

    tools = McpToolExecutor(server, trusted=False)
    engine = LLMAgentEngine(EmbeddedAdapter(), tools, constitution)
    try:
        other: Any = tools
        async with served(dataclasses.replace(environment.runtime(), tools=other, engine=engine, tasks=None)) as client:
            return {name: value for name, value in (await client.get("/api/about")).json().items() if name not in WORDS}
    finally:
        await engine.aclose()
        await tools.aclose()


async def test_the_shipped_server_has_a_view_of_the_tasks(client: httpx.AsyncClient) -> None:
    found = (await client.get("/api/about")).json()
    outcomes = {one["code"]: one["words"] for one in found.pop("outcomes")}
    assert outcomes["SUCCESS:TASK_COMPLETED"] == "done"
    assert {one["code"]: one["words"] for one in found.pop("types")}["CANCEL_PENDING"] == "declined"
    assert found == {
        "title": "Helpful task management assistant",
        "examples": ["show my tasks", "what can you do?"],
        "views": [*VIEWS, "tasks"],
        "disclosure": DISCLOSURE,
        "starting": None,
    }


async def test_another_server_is_described_by_its_heading_and_a_tool_that_reads(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient]
) -> None:
    text = "# Notice board\n\nYou are a clerk.\n\n## Available Tools\n- {}\n- {}\n"
    listed = text.format("read_notice: Read a notice (reads)", "list_notices: List all notices (reads)")
    assert await about_board(environment, served, listed) == {
        "title": "Notice board",
        "examples": ["List all notices", "what can you do?"],
        "views": VIEWS,
        "disclosure": DISCLOSURE,
        "starting": None,
    }


async def test_a_server_that_only_writes_has_an_example_that_changes_nothing(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient]
) -> None:
    text = "# Constitution\n\nNo role.\n\n## Available Tools\n- pin_notice: Pin a notice (requires confirmation)\n"
    assert await about_board(environment, served, text) == {
        "title": "graph_agent",
        "examples": ["what do I have to confirm?", "what can you do?"],
        "views": VIEWS,
        "disclosure": DISCLOSURE,
        "starting": None,
    }
