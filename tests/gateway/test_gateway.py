"""The gateway before the task server: what its MCP clients see, and what is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp.types import CallToolResult, ElicitRequestFormParams, ElicitResult, Implementation

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.clock import ManualClock
from graph_agent.gateway.server import DECISION_META, Gateway
from graph_agent.replays.replayer import replay
from tests.chat.environment import Environment

PAGE = "http://127.0.0.1:8000"
MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])
"""The revisions in which a client can be: one with a handshake and sessions, and the newest."""


class User:
    """Answers the questions that a client shows: each with the next of `answers`."""

    def __init__(self, *answers: ElicitResult | asyncio.Event) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.shown = asyncio.Event()

    async def __call__(self, context: Any, params: Any) -> ElicitResult:  # noqa: ARG002 (the SDK's signature)
        assert isinstance(params, ElicitRequestFormParams)
        self.asked.append(params.message)
        self.shown.set()
        answer = self.answers.pop(0)
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            answer = YES
        return answer


YES = ElicitResult(action="accept", content={"yes": True})
NO = ElicitResult(action="decline")


@asynccontextmanager
async def opened(environment: Environment) -> AsyncGenerator[tuple[Gateway, Runtime]]:
    runtime = environment.runtime()
    gateway = Gateway(runtime.engine, runtime.chat, user_id="ann", page=PAGE)
    async with gateway.maintained():
        yield gateway, runtime


def connect(gateway: Gateway, mode: Any, user: User | None = None, name: str = "editor") -> Client:
    return Client(gateway.server, mode=mode, elicitation_callback=user, client_info=Implementation(name=name, version="1"))


def value(result: CallToolResult) -> Any:
    """What a result says, after the error if there is one."""
    assert result.structured_content is not None
    return result.structured_content


async def add(client: Client, description: str) -> str:
    added = await client.call_tool("add_task", {"description": description})
    return str(value(added)["data"]["task"]["id"])


async def all_replay(environment: Environment) -> list[str]:
    """The type of every decision; each must be closed and replay."""
    records = await environment.records()
    assert len(records) == len(await environment.decisions())
    for record in records:
        texts = await environment.engines[0].audit.texts(list(record.header.digests.values()))
        assert (await replay(record, texts)).identical
    return [str(record.decision.decision_type) for record in records]


@MODES
async def test_a_client_sees_the_granted_tools_and_each_call_is_a_recorded_decision(
    environment: Environment,
    mode: str,
) -> None:
    async with opened(environment) as (gateway, runtime), connect(gateway, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == ["add_task", "complete_task", "delete_task", "list_tasks", "update_task"]
        hints = [tools[name].annotations for name in ("list_tasks", "add_task", "delete_task")]
        assert [hint and (hint.read_only_hint, hint.destructive_hint) for hint in hints] == [
            (True, False),
            (False, False),
            (False, True),
        ]
        assert tools["add_task"].input_schema["required"] == ["description"]

        added = await client.call_tool("add_task", {"description": "call mom"})
        assert (added.is_error, value(added)["data"]["receipt"]) == (False, "added 'call mom'")
        listed = await client.call_tool("list_tasks", {})
        assert [task["description"] for task in value(listed)["data"]["tasks"]] == ["call mom"]
        refused = await client.call_tool("list_tasks", {"user_id": "bob"})
        assert (refused.is_error, value(refused)["error_code"]) == (True, "ACCESS_DENIED")
        unknown = await client.call_tool("drop_table", {})
        assert (unknown.is_error, value(unknown)["error"]) == (True, "there is no such tool")

        (conversation,) = (await runtime.chat.conversations("ann")).conversations
        page = await runtime.chat.conversation("ann", conversation.id)
        assert [message.content for message in page.messages][:2] == [
            'call "add_task" {"description":"call mom"}',
            "Done: added 'call mom'.",
        ]
    records = await environment.records()
    assert added.meta is not None
    assert added.meta[DECISION_META] == records[0].header.decision_id
    assert {record.header.context.user_id for record in records} == {"ann"}
    assert await all_replay(environment) == ["INVOKE_TOOL", "INVOKE_TOOL", "RESPOND_ONLY", "INVOKE_TOOL"]


@MODES
async def test_a_confirmation_is_asked_by_elicitation(environment: Environment, mode: str) -> None:
    user = User(NO, ElicitResult(action="accept", content={"yes": False}), YES)
    async with opened(environment) as (gateway, _), connect(gateway, mode, user) as client:
        task = await add(client, "call mom")
        for _ in range(2):
            declined = await client.call_tool("delete_task", {"task_id": task})
            assert value(declined) == {"success": False, "error": "OK, I won't do that. Nothing was changed."}
        deleted = await client.call_tool("delete_task", {"task_id": task})
        assert value(deleted)["data"]["receipt"] == "deleted 'call mom'"
    assert set(user.asked) == {"Delete 'call mom'. Should I go ahead? Please answer yes or no."}
    assert await environment.descriptions() == []
    assert (await all_replay(environment))[-1] == "EXECUTE_PENDING"


@MODES
async def test_without_elicitation_a_call_waits_for_a_yes_on_the_page_and_reads_go_on(
    environment: Environment,
    mode: str,
) -> None:
    async with opened(environment) as (gateway, runtime), connect(gateway, mode) as client:
        task = await add(client, "call mom")
        waiting = await client.call_tool("delete_task", {"task_id": task})
        (conversation,) = (await runtime.chat.conversations("ann")).conversations
        assert waiting.is_error is False
        assert value(waiting)["success"] is False
        text = value(waiting)["error"]
        assert text.startswith(
            f"Not done yet: it waits for your yes, on {PAGE}/chat/{conversation.id} or with `graph-agent ask --yes "
        )
        assert text.endswith("Delete 'call mom'. Should I go ahead? Please answer yes or no.")
        await client.call_tool("list_tasks", {})
        await add(client, "call dad")
        # The page shows the question still, and its answer deletes the task.
        pending = (await runtime.chat.conversation("ann", conversation.id)).pending_action
        assert pending is not None
        answer = await runtime.chat.send("ann", "yes", conversation_id=conversation.id)
        assert answer.decision.effects == ["deleted 'call mom'"]
    assert await environment.descriptions() == ["call dad"]


@MODES
async def test_a_closed_form_is_no_answer_and_a_late_yes_does_nothing(
    environment: Environment,
    clock: ManualClock,
    mode: str,
) -> None:
    class Late(User):
        async def __call__(self, context: Any, params: Any) -> ElicitResult:
            answer = await super().__call__(context, params)
            clock.advance(seconds=301)
            return answer

    user = Late(ElicitResult(action="cancel"), YES)
    async with opened(environment) as (gateway, _), connect(gateway, mode, user) as client:
        task = await add(client, "call mom")
        closed = await client.call_tool("delete_task", {"task_id": task})
        assert value(closed)["error"].startswith("Not done yet: it waits for your yes")
        late = await client.call_tool("delete_task", {"task_id": task})
        assert value(late)["error"] == "That question has expired, so nothing was done. Please ask me again."
    assert await environment.descriptions() == ["call mom"]


@MODES
async def test_a_call_that_waits_for_a_yes_blocks_no_other_call(environment: Environment, mode: str) -> None:
    answer = asyncio.Event()
    user = User(answer, YES)
    async with opened(environment) as (gateway, _), connect(gateway, mode, user) as client:
        first, second = await add(client, "call mom"), await add(client, "call dad")
        waiting = asyncio.create_task(client.call_tool("delete_task", {"task_id": first}))
        await user.shown.wait()
        listed, added = await asyncio.gather(client.call_tool("list_tasks", {}), add(client, "call aunt"))
        assert len(value(listed)["data"]["tasks"]) >= 2
        assert added
        if mode == "legacy":
            # The second question waits for the answer to the first one.
            other = asyncio.create_task(client.call_tool("delete_task", {"task_id": second}))
            await add(client, "call uncle")
            assert len(user.asked) == 1
        answer.set()
        assert value(await waiting)["data"]["receipt"] == "deleted 'call mom'"
        if mode == "legacy":
            assert value(await other)["data"]["receipt"] == "deleted 'call dad'"


@MODES
async def test_the_calls_of_a_client_queue_and_each_client_has_a_conversation(
    environment: Environment,
    mode: str,
) -> None:
    async with (
        opened(environment) as (gateway, runtime),
        connect(gateway, mode) as client,
        connect(gateway, mode, name="other") as other,
    ):
        await asyncio.gather(*(add(client, f"task {n}") for n in range(5)), add(other, "of the other"))
        conversations = (await runtime.chat.conversations("ann")).conversations
    assert len(conversations) == 2
    assert len(await environment.descriptions()) == 6
