"""The undo of a call by a client of the gateway: its user is asked, and it is done once."""

from __future__ import annotations

import uuid
from typing import Any

from graph_agent.chat.questions import Person
from graph_agent.gateway.server import WAITING
from graph_agent.policy.constitution import Constitution
from tests.chat.environment import Environment
from tests.gateway.test_gateway import MODES, NO, YES, User, all_replay, connect, opened, value


def constitution() -> str:
    lines = Constitution.load().text.splitlines(keepends=True)
    marker = " (undone by delete_task(task_id = result.task.id) for 30 minutes)\n"
    return "".join(one.rstrip() + marker if one.startswith("- add_task:") else one for one in lines)


async def undo(client: Any, of: Any) -> tuple[bool, Any]:
    result = await client.call_tool("undo_decision", {"id": value(of)["undo"]})
    return result.is_error, value(result)


@MODES
async def test_a_client_undoes_a_call_after_its_user_has_said_yes(environment: Environment, mode: str) -> None:
    user = User(NO, YES)
    async with opened(environment, constitution=constitution()) as (gateway, _), connect(gateway, mode, user) as client:
        assert "undo_decision" in {tool.name for tool in (await client.list_tools()).tools}
        added = await client.call_tool("add_task", {"description": "call mom"})
        declined, said = await undo(client, added)
        assert (declined, said["error"]) == (True, "OK, I won't do that. Nothing was changed.")
        assert await environment.descriptions() == ["call mom"]
        failed, said = await undo(client, added)
        assert (failed, said["data"]) == (False, {"text": "Done: Undo: Add task 'call mom'."})
        since = "It is not known whether others have changed this since, which the undo takes away too: "
        question = "Undo: Add task 'call mom'. Should I go ahead? Please answer yes or no."
        assert user.asked == [f"{since}add task 'call mom'. {question}"] * 2
        assert await environment.descriptions() == []
        failed, said = await undo(client, added)
        assert failed
        assert said["error"].endswith("has undone it already).")
    assert await all_replay(environment)


@MODES
async def test_without_elicitation_an_undo_waits_for_a_yes_on_the_page(environment: Environment, mode: str) -> None:
    announced: list[str] = []
    async with opened(environment, announced.append, constitution=constitution()) as (gateway, runtime):
        async with connect(gateway, mode) as client:
            added = await client.call_tool("add_task", {"description": "call mom"})
            failed, said = await undo(client, added)
            assert (failed, said["state"]) == (True, WAITING)
        (one,) = (await runtime.chat.questions.inbox(Person("ann"))).questions
        assert announced[-1:] == [f"a call waits for its user's yes on http://127.0.0.1:8000/chat/{one.conversation_id}"]


@MODES
async def test_what_is_no_decision_of_the_user_is_refused_and_the_tool_is_listed_only_where_something_can_be_undone(
    environment: Environment, mode: str
) -> None:
    async with opened(environment, constitution=constitution()) as (gateway, _), connect(gateway, mode) as client:
        for wrong in ({"id": str(uuid.UUID(int=7))}, {"id": "x"}, {"id": None}, {}):
            assert (await client.call_tool("undo_decision", wrong)).is_error
    async with opened(environment) as (gateway, _), connect(gateway, mode) as client:
        assert "undo_decision" not in {tool.name for tool in (await client.list_tools()).tools}
        assert (await client.call_tool("undo_decision", {"id": "x"})).is_error
