"""The chat service with real engines, databases and tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import DecisionType, OutcomeCategory
from graph_agent.models.llm import FunctionCall
from graph_agent.reply.fixed import FAILURE_REPLY, RATE_LIMIT_REPLY
from graph_agent.testing import calls, says
from tests.chat.environment import Environment, GatedModel


async def _refused(chat: ChatService, content: str, user: str = "ann", **wish: Any) -> ServiceError:
    with pytest.raises(ServiceError) as refused:
        await chat.send(user, content, **wish)
    return refused.value


async def test_a_conversation_goes_on_with_its_history(environment: Environment) -> None:
    model = ScriptedAdapter([says("Hello!"), says("You said hi.")])
    chat = environment.chat(model)
    first = await chat.send("ann", "hi")
    second = await chat.send("ann", "what did I say?", conversation_id=first.conversation_id.upper())
    assert [message.content for message in model.requests[1].messages] == ["hi", "Hello!", "what did I say?"]
    assert second.conversation_id == first.conversation_id
    assert second.decision.decision_id == second.decision_id
    assert second.states[0] == "BUILD_REQUEST"
    shown = await chat.conversation("ann", first.conversation_id)
    assert [message.id for message in shown.messages][1::2] == [first.message_id, second.message_id]
    assert [page.id for page in (await chat.conversations("ann")).conversations] == [first.conversation_id]


async def test_a_double_click_in_two_processes_is_one_turn(environment: Environment) -> None:
    model = GatedModel([calls("add_task", description="milk"), says("Added.")])
    one, two = environment.chat(model), environment.chat()
    running = asyncio.create_task(one.send("ann", "add milk", idem_key="k"))
    await model.asked.acquire()
    clicked = await _refused(two, "add milk", idem_key="k")
    assert (clicked.code, clicked.retry_after) == (ServiceErrorCode.REQUEST_IN_PROGRESS, 1)
    model.gate.set()
    answer = await running
    assert await two.send("ann", "add milk", idem_key="k") == answer
    assert await environment.descriptions() == ["milk"]


async def test_a_conversation_is_busy_while_a_turn_runs_in_another_process(environment: Environment) -> None:
    model = GatedModel([says("one"), says("two"), says("three")])
    model.gate.set()
    one = environment.chat(model)
    conversation = (await one.send("ann", "hi")).conversation_id
    await model.asked.acquire()
    model.gate.clear()
    running = asyncio.create_task(one.send("ann", "again", conversation_id=conversation))
    await model.asked.acquire()
    busy = await _refused(environment.chat(), "and again", conversation_id=conversation)
    assert busy.code == ServiceErrorCode.CONVERSATION_BUSY
    model.gate.set()
    await running
    assert len(await environment.decisions()) == 2


async def test_conversations_of_other_users_and_malformed_ids_are_refused_without_a_row(environment: Environment) -> None:
    chat = environment.chat()
    mine = (await chat.send("ann", "hi")).conversation_id
    for user, conversation, code in (
        ("bob", mine, ServiceErrorCode.ACCESS_DENIED),
        ("ann", RandomIds().new(), ServiceErrorCode.CONVERSATION_NOT_FOUND),
        ("ann", "1", ServiceErrorCode.INVALID_ID_FORMAT),
        ("ann", "{" + mine + "}", ServiceErrorCode.INVALID_ID_FORMAT),
        ("ann", mine + "\n", ServiceErrorCode.INVALID_ID_FORMAT),
    ):
        for content in ("hello", " "):
            assert (await _refused(chat, content, user, conversation_id=conversation)).code == code
    assert len(await environment.decisions()) == 1


@pytest.mark.parametrize("content", ["", " \n\t", "x" * 4001, "nul \x00", "half \ud800", "\ud800" * 5000, " " * 5000])
async def test_an_invalid_message_is_refused_and_logged(environment: Environment, content: str) -> None:
    model = ScriptedAdapter([])
    refused = await _refused(environment.chat(model), content)
    assert refused.code == ServiceErrorCode.VALIDATION_ERROR
    assert model.requests == []
    assert await environment.decisions() == [("RESPOND_ONLY", "ERROR:USER_INPUT", "completed")]
    assert await environment.turns() == []


async def test_one_turn_too_many_is_refused_and_logged(environment: Environment) -> None:
    chat = environment.chat(ScriptedAdapter([says("hi")]), turns_per_minute=1)
    await chat.send("ann", "hello")
    refused = await _refused(chat, "hello again")
    assert (refused.code, refused.message, refused.retry_after) == (ServiceErrorCode.RATE_LIMITED, RATE_LIMIT_REPLY, 60)
    assert (await environment.decisions())[1:] == [("RESPOND_ONLY", "REFUSAL:RATE_LIMITED", "completed")]
    assert await environment.said() == ["hello", "hi"]


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "x" * 256, "a\n"])
async def test_a_key_is_short_and_printable(environment: Environment, key: str) -> None:
    assert (await _refused(environment.chat(), "hello", idem_key=key)).code == ServiceErrorCode.VALIDATION_ERROR


async def test_without_the_database_nothing_is_called_and_the_same_request_runs_later(environment: Environment) -> None:
    model = ScriptedAdapter([says("one"), says("two"), says("hi")])
    chat = environment.chat(model)
    conversation = (await chat.send("ann", "hi")).conversation_id
    gone = environment.open_database(Database)
    gone.close_now()
    for request in ({"conversation_id": conversation}, {"idem_key": "k"}):
        refused = await _refused(environment.chat(model, database=gone), "hello", **request)
        assert refused.code == ServiceErrorCode.SERVICE_UNAVAILABLE
    assert len(model.requests) == 1
    assert (await chat.send("ann", "found", conversation_id=conversation)).reply == "two"
    assert (await chat.send("ann", "hello", idem_key="k")).reply == "hi"
    assert await environment.said() == ["hi", "one", "found", "two", "hello", "hi"]
    assert len(await environment.decisions()) == 3


async def test_a_cancelled_caller_leaves_a_closed_record_and_an_answer(environment: Environment) -> None:
    model = GatedModel([says("never")])
    chat = environment.chat(model)
    running = asyncio.create_task(chat.send("ann", "hello", idem_key="k"))
    await model.asked.acquire()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await environment.decisions() == [("RESPOND_ONLY", "ERROR:RESPONSE_GENERATION", "interrupted")]
    assert await environment.turns() == [("done", 1)]
    assert (await chat.send("ann", "hello", idem_key="k")).reply == "This was stopped, so I did nothing further."


async def test_closing_ends_every_running_turn_with_its_answer(environment: Environment) -> None:
    model = GatedModel([says("never")] * 5)
    chat = environment.chat(model)
    running = [asyncio.create_task(chat.send("ann", f"hello {n}")) for n in range(5)]
    for _ in running:
        await model.asked.acquire()
    await chat.aclose()
    assert {answer.reply for answer in await asyncio.gather(*running)} == {FAILURE_REPLY}
    assert await environment.turns() == [("done", 1)] * 5
    assert {status for _, _, status in await environment.decisions()} == {"interrupted"}


async def test_fifty_turns_at_once_each_get_their_own_answer(environment: Environment) -> None:
    chat = environment.chat()
    answers = await asyncio.gather(*(chat.send("ann", f"add task number {n}") for n in range(50)))
    assert len({answer.decision_id for answer in answers}) == 50
    assert len(await environment.descriptions()) == 50
    assert {status for _, _, status in await environment.decisions()} == {"completed"}
    assert await environment.turns() == [("done", 1)] * 50


async def test_an_answer_after_a_question_answers_it_whatever_the_wording_and_after_a_restart(environment: Environment) -> None:
    ask = calls("ask_user", question="Tell me what to wipe.", reason="unclear_intent")
    answer = calls("answer", text="Hello! Shall we go on?", reports_change=False)
    first = await environment.chat(ScriptedAdapter([ask])).send("ann", "wipe everything off my to do list")
    assert first.decision.decision_type is DecisionType.ASK_CLARIFICATION
    model = ScriptedAdapter([answer, answer])
    restarted = environment.chat(model)
    second = await restarted.send("ann", "hello", conversation_id=first.conversation_id)
    assert second.decision.outcome_category is OutcomeCategory.CLARIFICATION_ANSWERED
    third = await restarted.send("ann", "hello", conversation_id=first.conversation_id)
    assert third.decision.outcome_category is OutcomeCategory.RESPONSE_GIVEN
    shown = (await restarted.conversation("ann", first.conversation_id)).messages
    assert [message.decision_type for message in shown] == [
        None,
        DecisionType.ASK_CLARIFICATION,
        None,
        DecisionType.RESPOND_ONLY,
        None,
        DecisionType.RESPOND_ONLY,
    ]
    assert all("decision_type" not in message.to_json() for message in model.requests[1].messages)


async def test_refusals_beyond_ten_a_minute_are_counted_instead_of_stored(environment: Environment, clock: ManualClock) -> None:
    chat = environment.chat()
    for _ in range(25):
        with pytest.raises(ServiceError, match="VALIDATION_ERROR"):
            await chat.send("ann", " ")
    with pytest.raises(ServiceError, match="VALIDATION_ERROR"):
        await chat.send("bob", " ")
    assert len(await environment.decisions()) == 11
    assert chat.refusals == {OutcomeCategory.USER_INPUT: 26}
    clock.advance(seconds=60)
    with pytest.raises(ServiceError, match="VALIDATION_ERROR"):
        await chat.send("ann", " ")
    assert len(await environment.decisions()) == 12


async def test_a_decision_without_a_model_belongs_to_a_conversation_and_leaves_its_question_waiting(
    environment: Environment,
) -> None:
    chat = environment.chat()
    add, listing = FunctionCall("add_task", {"description": "call mom"}), FunctionCall("list_tasks")
    added = await chat.call("ann", [add], idem_key="k1")
    again = await chat.call("ann", [add], idem_key="k1")
    assert (again, await environment.descriptions()) == (added, ["call mom"])
    with pytest.raises(ServiceError) as reused:
        await chat.call("ann", [listing], idem_key="k1")
    assert reused.value.code is ServiceErrorCode.IDEMPOTENCY_KEY_REUSED
    with pytest.raises(ServiceError) as broken:
        await chat.call("ann", [FunctionCall("add_task", {"description": float("nan")})])
    assert broken.value.code is ServiceErrorCode.VALIDATION_ERROR

    delete = FunctionCall("delete_task", {"task_id": await environment.task_id("call mom")})
    asked = await chat.call("ann", [delete], conversation_id=added.conversation_id)
    assert asked.decision.pending_action is not None
    await chat.call("ann", [listing], conversation_id=added.conversation_id)
    done = await chat.send("ann", "yes", conversation_id=added.conversation_id)
    assert done.decision.effects == ["Delete task 'call mom'"]
    assert await environment.descriptions() == []
