"""The card of a question: its state is what the questions, the operations and the record have."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.chat.answer import ChatAnswer
from graph_agent.clock import ManualClock
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.card import Card, CardState
from graph_agent.models.decision import ConfirmationAnswer
from graph_agent.models.record import OperationState
from graph_agent.models.said import Said, SaidCall, SaidPart, SaidState
from graph_agent.testing import says
from graph_agent.words.cards import Followed, card_of
from tests.chat.environment import Environment
from tests.chat.test_recovered_yes import asked_to_delete, yes_to
from tests.scripted_turns import calls

_SAID = Said(parts=(SaidPart(text="Delete task 'milk'"),))


@pytest.fixture
def environment(each_environment: Environment) -> Environment:
    return each_environment


async def cards(environment: Environment, conversation_id: str) -> list[Card]:
    page = await environment.chat().conversation("ann", conversation_id)
    return [message.card for message in page.messages if message.card is not None]


async def ask_about_both(environment: Environment) -> ChatAnswer:
    tasks = [await environment.task_id(name) for name in ("milk", "bread")]
    script = calls(*[("delete_task", {"task_id": one}) for one in tasks])
    return await environment.chat(ScriptedAdapter([script])).send("ann", "delete all")


async def test_an_answer_by_its_button_is_said_by_the_card_alone(environment: Environment) -> None:
    asked = await asked_to_delete(environment)
    [waiting] = await cards(environment, asked.conversation_id)
    assert (waiting.state, waiting.heading, waiting.late) == (
        CardState.WAITING,
        "Waits for your yes",
        "Not answered within five minutes",
    )
    answered = await environment.chat().send("ann", answers=yes_to(asked))
    [done] = await cards(environment, asked.conversation_id)
    assert (done.state, done.heading, done.answered_in) == (CardState.DONE, "Done", answered.decision_id)
    page = await environment.chat().conversation("ann", asked.conversation_id)
    assert [message.in_card for message in page.messages][-2:] == [True, True]


async def test_a_typed_answer_keeps_its_messages(environment: Environment) -> None:
    asked = await asked_to_delete(environment)
    await environment.chat().send("ann", "yes", conversation_id=asked.conversation_id)
    page = await environment.chat().conversation("ann", asked.conversation_id)
    assert not any(message.in_card for message in page.messages)
    assert [card.state for card in await cards(environment, asked.conversation_id)] == [CardState.DONE]


async def test_a_no_is_said_by_the_card(environment: Environment) -> None:
    asked = await asked_to_delete(environment)
    assert asked.decision.pending_action is not None
    answered = await environment.chat().send(
        "ann", answers=ConfirmationAnswer(pending_action=asked.decision.pending_action.id, yes=False)
    )
    [card] = await cards(environment, asked.conversation_id)
    assert (card.state, card.note, card.answered_in) == (CardState.DECLINED, "Nothing was changed.", answered.decision_id)


async def test_a_question_that_is_asked_again_has_one_card_which_says_so(environment: Environment, clock: ManualClock) -> None:
    asked = await asked_to_delete(environment)
    await environment.chat().send("ann", "yes but why", conversation_id=asked.conversation_id)
    [card] = await cards(environment, asked.conversation_id)
    assert card.notices == ("Answer this first: your last message was neither yes nor no.",)
    clock.advance(minutes=5)
    [late] = await cards(environment, asked.conversation_id)
    assert (late.state, late.notices) == (CardState.EXPIRED, ())


@pytest.mark.parametrize("said", [None, SaidState.DONE, SaidState.NOT_DONE, SaidState.UNKNOWN])
@pytest.mark.parametrize("operation", [None, *OperationState])
@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("undone", [True, False])
async def test_a_call_is_shown_as_its_operation_has_it(
    environment: Environment, said: SaidState | None, operation: OperationState | None, *, ended: bool, undone: bool
) -> None:
    """What the turn has said may be older: an outcome is settled later, and a change is undone later."""
    asked = await asked_to_delete(environment)
    assert asked.decision.pending_action is not None
    followed = Followed(
        ended=ended,
        calls={} if said is None else {1: SaidCall(sequence=1, state=said, said=_SAID, why="no such task")},
        operations={} if operation is None else {1: operation},
        undone=frozenset({1} if undone else ()),
    )
    card = card_of(asked.decision.pending_action, CardState.WORKING, followed=followed)
    pending = CardState.UNKNOWN if ended else CardState.WORKING
    of_operation = {
        OperationState.DONE: CardState.DONE,
        OperationState.VOID: CardState.NOT_DONE,
        OperationState.UNKNOWN: CardState.UNKNOWN,
        OperationState.INTENDED: pending,
    }
    of_turn: dict[Any, CardState] = {
        None: CardState.NOT_DONE if ended else CardState.WORKING,
        SaidState.DONE: CardState.DONE,
        SaidState.NOT_DONE: CardState.NOT_DONE,
        SaidState.UNKNOWN: CardState.UNKNOWN,
    }
    known = of_turn[said] if operation is None else of_operation[operation]
    assert card.state is (CardState.UNDONE if undone else known)
    # Of a call that was not done only, in whatever words, there is a reason.
    assert bool(card.calls[0].why) is (said is not None and card.state is CardState.NOT_DONE)


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (OperationState.DONE, OperationState.DONE, CardState.DONE),
        (OperationState.DONE, OperationState.VOID, CardState.PARTLY),
        (OperationState.VOID, OperationState.VOID, CardState.NOT_DONE),
        (OperationState.DONE, OperationState.UNKNOWN, CardState.UNKNOWN),
    ],
)
async def test_a_card_of_several_calls_says_what_became_of_each(
    environment: Environment, first: OperationState, second: OperationState, together: CardState
) -> None:
    await asked_to_delete(environment)
    asked = await ask_about_both(environment)
    assert asked.decision.pending_action is not None
    followed = Followed(ended=True, operations={1: first, 2: second})
    card = card_of(asked.decision.pending_action, CardState.WORKING, followed=followed)
    assert card.state is together
    assert all(one.heading for one in card.calls)
    await environment.chat(ScriptedAdapter([says("Hm.")])).send("ann", answers=yes_to(asked))
    done = (await cards(environment, asked.conversation_id))[-1]
    assert [done.state, *(one.state for one in done.calls)] == [CardState.DONE] * 3
    assert await environment.descriptions() == []


async def test_a_card_says_nothing_of_a_result_whose_object_its_sentence_names(environment: Environment) -> None:
    asked = await asked_to_delete(environment)
    await environment.chat().send("ann", answers=yes_to(asked))
    [card] = await cards(environment, asked.conversation_id)
    assert (card.calls[0].said.sentence, card.calls[0].result) == ("Delete task 'milk'", ())
