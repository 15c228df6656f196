"""The card of a request for approval: what its rows, the answers and the operations have, and nothing beside it."""

from __future__ import annotations

import random

import pytest

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.conversations.reading import StoredMessage
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.errors import ServiceError
from graph_agent.models.card import Card, CardState
from graph_agent.words.values import time_in_words
from tests.chat.environment import Environment
from tests.chat.test_approvals import ADD, chat_of, own, request_of, requests_of, respond, rules
from tests.chat.test_recovered_yes import yes_to
from tests.scripted_turns import calls


@pytest.fixture
def environment(each_environment: Environment) -> Environment:
    return each_environment


async def shown(chat: ChatService, asked: ChatAnswer) -> tuple[list[Card], list[StoredMessage]]:
    """Return the cards of a conversation, and the messages that no card says."""
    messages = (await chat.conversation("ann", asked.conversation_id)).messages
    cards = [one.card for one in messages if one.card is not None]
    said = {decision_id for card in cards for decision_id in card.says}
    return cards, [one for one in messages if not (one.in_card and one.decision_id in said)]


async def end(environment: Environment, chat: ChatService, asked: ChatAnswer, how: str) -> None:
    request = request_of(asked)
    if how == "cancelled":
        await requests_of(chat).cancel(request.id, "ann")
    elif how == "unapproved":
        assert isinstance(environment.clock, ManualClock)
        environment.clock.advance(hours=24)
    else:
        await respond(chat, request, approve=how == "done")
    await chat.serve_due()


@pytest.mark.parametrize(
    ("how", "heading", "people", "note"),
    [
        ("done", "Done", ("Approved by 'bob' as manager.",), ""),
        ("denied", "Denied", ("Denied by 'bob' as manager.", "'bob' says: 'too much'"), "Nothing was changed."),
        ("cancelled", "Withdrawn", (), "Nothing was changed."),
        ("unapproved", "Not approved in time", (), "No one answered until {until}. Nothing was changed."),
    ],
)
async def test_the_end_of_a_request_is_on_its_card_alone(
    environment: Environment, how: str, heading: str, people: tuple[str, ...], note: str
) -> None:
    chat = chat_of(environment, ADD)
    asked = await chat.send("ann", "add bread")
    request = request_of(asked)
    [open_card], _ = await shown(chat, asked)
    assert (open_card.state, open_card.heading, open_card.withdraw) == (CardState.WAITS, "Waits for approval", request.id)
    assert open_card.people == ("It waits for another person with the role manager: additions need a manager.",)
    await end(environment, chat, asked, how)
    [card], messages = await shown(chat, asked)
    until = time_in_words(request.action.expires_at, "")
    assert (card.state, card.heading, card.people, card.note) == (CardState(how), heading, people, note.format(until=until))
    assert (card.withdraw, card.answered_in) == ("", (await own(chat, "ann"))[0].closing_decision)
    assert [one.content for one in messages] == ["add bread", asked.reply]
    assert card.calls[0].result == ()


async def test_after_a_yes_the_request_is_on_the_card_of_the_yes(environment: Environment) -> None:
    await environment.chat().send("ann", "add bread")
    delete = rules("delete_task", name="deletions need a manager")
    chat = chat_of(environment, calls(("delete_task", {"task_id": await environment.task_id("bread")})), conditions=delete)
    asked = await chat.send("ann", "delete bread")
    waits = await chat.send("ann", answers=yes_to(asked))
    assert asked.decision.pending_action is not None
    [card], messages = await shown(chat, asked)
    assert (card.id, card.state, card.withdraw) == (asked.decision.pending_action.id, CardState.WAITS, request_of(waits).id)
    assert card.heading == "You said yes · waits for approval"
    assert [one.content for one in messages] == ["delete bread", asked.reply]
    await respond(chat, request_of(waits))
    [card], messages = await shown(chat, asked)
    assert (card.state, card.people) == (CardState.DONE, ("Approved by 'bob' as manager.",))
    assert [one.content for one in messages] == ["delete bread", asked.reply]


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_people_do_a_card_has_the_state_of_its_request_and_of_its_call(
    environment: Environment, seed: int
) -> None:
    """An oracle of its own: the list of the user's requests, and the tasks."""
    chance = random.Random(seed)
    two = rules(approved="context.approvals.manager >= 2", name="two managers")
    chat = chat_of(environment, ADD, conditions=two)
    asked = await chat.send("ann", "add bread")
    request = request_of(asked)
    steps: list[tuple[str, ...]] = [("approve", "bob"), ("approve", "eve"), ("deny", "dan"), ("cancel",), ("wait",), ("serve",)]
    for step in chance.choices(steps, k=8):
        try:
            match step:
                case ("approve", user):
                    await respond(chat, request, user)
                case ("deny", user):
                    await respond(chat, request, user, approve=False)
                case ("cancel",):
                    await requests_of(chat).cancel(request.id, "ann")
                case ("wait",):
                    assert isinstance(environment.clock, ManualClock)
                    environment.clock.advance(hours=9)
                case _:
                    await chat.serve_due()
        except ServiceError:
            # It has ended, or this person has answered.
            pass
        [card], _ = await shown(chat, asked)
        [known] = await own(chat, "ann")
        states = {
            "open": CardState.WAITS,
            "denied": CardState.DENIED,
            "cancelled": CardState.CANCELLED,
            "expired": CardState.UNAPPROVED,
            "approved": CardState.DONE,
        }
        assert card.state is states[known.state], (step, known)
        assert (card.state is CardState.DONE) == (await environment.descriptions() == ["bread"])
        assert bool(card.withdraw) == (known.state == "open")
