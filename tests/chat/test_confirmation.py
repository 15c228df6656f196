"""Confirmations through the chat service: two clients, two questions, and answers by id."""

from __future__ import annotations

import pytest

from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import ConfirmationAnswer, DecisionType, OutcomeCategory, PendingAction
from graph_agent.ports import LLMAdapter
from graph_agent.rules_model.adapter import RuleBasedAdapter
from tests.chat.environment import Environment, calls, says


def yes(pending: PendingAction) -> ConfirmationAnswer:
    return ConfirmationAnswer(pending_action=pending.id, yes=True)


async def two_tasks(environment: Environment, chat: ChatService) -> str:
    first = await chat.send("ann", "add a task to call mom")
    await chat.send("ann", "add a task to buy bread", conversation_id=first.conversation_id)
    assert sorted(await environment.descriptions()) == ["buy bread", "call mom"]
    return first.conversation_id


async def question(chat: ChatService, conversation: str, text: str) -> PendingAction:
    asked = await chat.send("ann", text, conversation_id=conversation)
    assert asked.decision.pending_action is not None
    return asked.decision.pending_action


async def test_an_answer_by_id_confirms_from_another_client_and_works_once(environment: Environment) -> None:
    chat, second_client = environment.chat(), environment.chat()
    conversation = await two_tasks(environment, chat)
    pending = await question(chat, conversation, "delete the call mom task")
    done = await second_client.send("ann", answers=yes(pending))
    assert done.conversation_id == conversation
    assert done.decision.decision_type is DecisionType.EXECUTE_PENDING
    again = await chat.send("ann", answers=yes(pending), conversation_id=conversation)
    assert again.reply == "That question has already been answered, so nothing was done now."
    assert again.decision.outcome_category is OutcomeCategory.USER_INPUT
    assert await environment.descriptions() == ["buy bread"]
    shown = await chat.conversation("ann", conversation)
    assert [message.content for message in shown.messages if message.role == "user"][-2:] == ["Yes.", "Yes."]


async def test_an_answer_to_the_older_of_two_questions_does_nothing_and_leaves_the_newer_one(environment: Environment) -> None:
    chat = environment.chat()
    conversation = await two_tasks(environment, chat)
    older = await question(chat, conversation, "delete the call mom task")
    newer = await question(chat, conversation, "delete the buy bread task")
    late = await chat.send("ann", answers=yes(older))
    assert late.reply == "That question has been replaced by a later one, so nothing was done."
    assert len(await environment.descriptions()) == 2
    confirmed = await chat.send("ann", answers=yes(newer))
    assert confirmed.decision.effects == ["deleted 'buy bread'"]


async def test_a_dropped_action_is_named_in_the_reply_and_in_the_conversation(environment: Environment) -> None:
    chat = environment.chat()
    conversation = await two_tasks(environment, chat)
    await question(chat, conversation, "delete the buy bread task")
    other = await chat.send("ann", "show my tasks", conversation_id=conversation)
    assert other.decision.notices == ["Not done: delete 'buy bread'."]
    shown = await chat.conversation("ann", conversation)
    assert shown.messages[-1].notices == ["Not done: delete 'buy bread'."]


async def test_an_expired_a_foreign_and_an_unknown_answer_do_nothing_and_say_which(
    environment: Environment, clock: ManualClock
) -> None:
    chat = environment.chat()
    conversation = await two_tasks(environment, chat)
    pending = await question(chat, conversation, "delete the call mom task")
    foreign = await chat.send("bob", answers=yes(pending))
    assert foreign.reply == "I have no such question waiting for you here, so nothing was done."
    assert foreign.conversation_id != conversation
    elsewhere = (await chat.send("ann", "hello")).conversation_id
    wrong = await chat.send("ann", answers=yes(pending), conversation_id=elsewhere)
    assert wrong.reply == "I have no such question waiting for you here, so nothing was done."
    clock.advance(minutes=6)
    late = await chat.send("ann", answers=yes(pending))
    assert late.reply == "That question has expired, so nothing was done. Please ask me again."
    assert len(await environment.descriptions()) == 2


@pytest.mark.parametrize("scripted", [False, True])
async def test_a_task_renamed_between_question_and_yes_is_asked_about_anew(environment: Environment, scripted: bool) -> None:
    chat = environment.chat()
    conversation = await two_tasks(environment, chat)
    model: LLMAdapter = RuleBasedAdapter()
    if scripted:
        model = ScriptedAdapter([calls("delete_task", task_id=await environment.task_id("call mom"))])
    asking = environment.chat(model)
    pending = await question(asking, conversation, "delete the call mom task")
    await environment.chat().send("ann", "rename call mom to call dad")
    anew = await asking.send("ann", "yes", conversation_id=conversation)
    assert anew.decision.decision_type is DecisionType.REQUEST_CONFIRMATION
    assert anew.reply.endswith("Delete 'call dad'. Should I go ahead? Please answer yes or no.")
    assert anew.decision.pending_action is not None
    assert anew.decision.pending_action.id != pending.id
    confirmed = await asking.send("ann", "yes, go for it", conversation_id=conversation)
    assert confirmed.decision.effects == ["deleted 'call dad'"]


async def test_unclear_twice_then_a_new_request(environment: Environment) -> None:
    chat = environment.chat(ScriptedAdapter([says("What would you like to do?")]))
    conversation = await two_tasks(environment, environment.chat())
    pending = await question(environment.chat(), conversation, "delete the buy bread task")
    for text in ("ye", "do it I guess"):
        asked = await chat.send("ann", text, conversation_id=conversation)
        assert asked.decision.pending_action is not None
        assert (asked.decision.pending_action.id, asked.decision.pending_action.expires_at) == (pending.id, pending.expires_at)
    third = await chat.send("ann", "hmm maybe", conversation_id=conversation)
    assert third.decision.notices == ["Not done: delete 'buy bread'."]
    assert len(await environment.descriptions()) == 2
