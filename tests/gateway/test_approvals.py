"""Approval by another person at the gateway: the client is told at once, and asks for the result later."""

from __future__ import annotations

import re
from typing import Any

from graph_agent.gateway.server import WAITING_FOR_APPROVAL
from graph_agent.models.approval import ApproverIdentity
from graph_agent.policy.constitution import Constitution
from tests.chat.environment import Environment
from tests.chat.test_approvals import requests_of, rules, waiting
from tests.gateway.test_gateway import MODES, connect, opened, value


def without_questions() -> str:
    without_limits = re.sub(r" \(at most \d+ per message\)", "", Constitution.load().text)
    return without_limits.replace("(requires confirmation)", "(without confirmation)")


@MODES
async def test_a_call_that_waits_returns_at_once_and_its_result_is_there_later(environment: Environment, mode: str) -> None:
    async with opened(environment, conditions=rules()) as (gateway, runtime), connect(gateway, mode) as client:
        assert "question_status" in {tool.name for tool in (await client.list_tools()).tools}
        waits = await client.call_tool("add_task", {"description": "bread"})
        assert waits.is_error
        assert value(waits)["state"] == WAITING_FOR_APPROVAL
        assert value(waits)["error"].startswith("Not done yet: Add task 'bread'. ")
        asked = value(waits)["id"]
        (waiting_one,) = await waiting(runtime.chat, "bob", ["manager"])
        request_id = waiting_one.id
        again = await client.call_tool("question_status", {"id": asked})
        assert (again.is_error, value(again)["state"]) == (True, WAITING_FOR_APPROVAL)
        requests = requests_of(runtime.chat)
        view = await requests.view(request_id, "bob", ["manager"])
        await requests.answer(request_id, "bob", ["manager"], approve=True, digest=view.digest, identity=ApproverIdentity.TOKEN)
        done = await client.call_tool("question_status", {"id": asked})
        assert (done.is_error, value(done)["state"]) == (False, "approved")
        assert value(done)["data"]["preview"] == "bread"
        assert await environment.descriptions() == ["bread"]
        for wrong in ({"id": "00000000-0000-0000-0000-000000000000"}, {"id": 1}, {}):
            assert (await client.call_tool("question_status", wrong)).is_error


@MODES
async def test_the_end_without_a_call_and_the_same_call_again_are_reported(environment: Environment, mode: str) -> None:
    async with opened(environment, conditions=rules()) as (gateway, runtime), connect(gateway, mode) as client:
        asked = value(await client.call_tool("add_task", {"description": "bread"}))["id"]
        (waiting_one,) = await waiting(runtime.chat, "bob", ["manager"])
        request_id = waiting_one.id
        again = await client.call_tool("add_task", {"description": "bread"})
        assert again.is_error
        assert request_id in value(again)["error"]
        requests = requests_of(runtime.chat)
        digest = (await requests.view(request_id, "bob", ["manager"])).digest
        no: dict[str, Any] = {"approve": False, "digest": digest, "reason": "too much", "identity": ApproverIdentity.TOKEN}
        await requests.answer(request_id, "bob", ["manager"], **no)
        ended = await client.call_tool("question_status", {"id": asked})
        assert (ended.is_error, value(ended)["state"]) == (True, "denied")
        assert value(ended)["error"].startswith("Denied by 'bob' as manager, so nothing was done")
        # The reason is for people.
        assert "too much" not in str(value(ended))
        assert await environment.descriptions() == []


async def test_without_rules_that_ask_anybody_there_is_no_such_tool(environment: Environment) -> None:
    async with opened(environment, constitution=without_questions()) as (gateway, _), connect(gateway, "auto") as client:
        assert "question_status" not in {tool.name for tool in (await client.list_tools()).tools}
        assert (await client.call_tool("question_status", {"id": "x"})).is_error
