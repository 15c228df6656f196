"""The progress of a running tool in the streams of its turn."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from ag_ui.core import ActivitySnapshotEvent
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.testing import calls, says
from graph_agent.tools.executor import McpToolExecutor
from tests.api.event_client import Heard, hear, listening
from tests.chat.environment import Environment

SHOWN = {"done": 2, "total": 5, "message": "reading‹U+202E›"}


@asynccontextmanager
async def slow_list(environment: Environment) -> AsyncGenerator[tuple[Runtime, asyncio.Event]]:
    """A turn whose tool reports its progress, and returns once the event is set."""
    server, go_on = MCPServer("board", log_level="ERROR"), asyncio.Event()

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def list_tasks(context: Context[Any, Any], status: str = "all") -> dict[str, Any]:
        await context.report_progress(2, 5, "reading\u202e")
        await go_on.wait()
        return {"tasks": [], "status": status}

    async def is_not_called(description: str = "", task_id: str = "") -> str:  # noqa: ARG001 (the sentences name them)
        raise AssertionError

    # The constitution lists these tools too, so a server must have them.
    for name in ("add_task", "update_task", "complete_task", "delete_task"):
        server.add_tool(is_not_called, name=name)
    tools: Any = McpToolExecutor(server, trusted=True)
    model = ScriptedAdapter([calls("list_tasks"), says("You have no tasks.")])
    try:
        yield dataclasses.replace(environment, tools=tools).runtime(model), go_on
    finally:
        await tools.aclose()


async def test_progress_is_streamed_while_the_tool_runs_and_is_not_part_of_the_record(environment: Environment) -> None:
    async with slow_list(environment) as (runtime, go_on), listening(runtime) as client:
        events: list[Heard] = []
        async with client.stream("POST", "/api/chat/stream", json={"content": "show my tasks"}) as answer:
            async for event in hear(answer):
                events.append(event)
                if event.event == "progress":
                    go_on.set()
        (progress,) = [event for event in events if event.event == "progress"]
        before = events[events.index(progress) - 1]
        assert (progress.id, progress.data) == (None, SHOWN)
        assert (before.event, before.data["state"]) == ("state", "EXECUTE_TOOLS")
        decision_id = events[-1].data["decision_id"]
        rest = [event for event in events if event is not progress]
        assert [event.id for event in rest] == [f"{decision_id}:{number}" for number in range(1, len(rest) + 1)]
        async with client.stream("GET", f"/api/decisions/{decision_id}/events") as recorded:
            assert [event async for event in hear(recorded)] == rest


async def test_progress_is_an_activity_of_ag_ui(environment: Environment) -> None:
    message = {"id": "m1", "role": "user", "content": "show my tasks"}
    body = {"threadId": "t1", "runId": "r1", "state": {}, "messages": [message], "tools": [], "context": []}
    async with slow_list(environment) as (runtime, go_on), listening(runtime) as client:
        kinds: list[str] = []
        async with client.stream("POST", "/agui", json=body) as answer:
            async for line in answer.aiter_lines():
                if not line.startswith("data: "):
                    continue
                event = json.loads(line.removeprefix("data: "))
                kinds.append(event["type"])
                if event["type"] == "ACTIVITY_SNAPSHOT":
                    activity = ActivitySnapshotEvent.model_validate(event)
                    assert (activity.activity_type, activity.content) == ("PROGRESS", SHOWN)
                    go_on.set()
        assert kinds.count("ACTIVITY_SNAPSHOT") == 1
        assert kinds[-1] == "RUN_FINISHED"
