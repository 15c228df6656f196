"""The state of a card, from its question to all that becomes of it later: what operations, rows and mandates have."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.questions import Person
from graph_agent.clock import ManualClock
from graph_agent.errors import ServiceError, ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.card import Card, CardState
from graph_agent.models.mandate import MandateState
from graph_agent.models.rule_set import RuleSet
from graph_agent.models.stop import Stop, StopScope
from graph_agent.models.tools import ToolResult
from graph_agent.policy.constitution import Constitution
from graph_agent.question.approvals import ApprovalStore
from graph_agent.record.mandates import find_mandate, void
from graph_agent.record.rule_sets import activate_rules
from graph_agent.record.stops import place_stop
from graph_agent.record.tree.leaves import Sealer
from graph_agent.testing import OrderDesk, says
from tests.chat.environment import Environment
from tests.chat.planning_process import PLAN, adds, chat_of
from tests.chat.test_approval_rules import other
from tests.chat.test_approvals import ADD, request_of, respond, rules
from tests.chat.test_cards import ask_about_both
from tests.chat.test_recovered_yes import asked_to_delete, yes_to
from tests.desk import UNDOABLE, move
from tests.scripted_turns import calls
from tests.settling import settle_unknown

LOST = ToolResult(success=False, error="no answer", error_code=ToolErrorCode.TIMEOUT_ERROR)
FAILED = ToolResult(success=False, error="it is locked", error_code=ToolErrorCode.TOOL_EXECUTION_ERROR)
EVERYTHING = Stop(number=0, scope=StopScope.EVERYTHING, reason="wrong deletions")


@pytest.fixture
def environment(each_environment: Environment) -> Environment:
    return each_environment


async def last_card(environment: Environment, asked: ChatAnswer) -> Card:
    """Return the last card of a conversation."""
    page = await environment.chat().conversation("ann", asked.conversation_id)
    card = [message.card for message in page.messages if message.card is not None][-1]
    assert card.heading
    return card


async def operations(environment: Environment, card: Card) -> list[str]:
    """Return the states of the changes of the decision that has followed the yes."""
    query = f"SELECT state FROM call_operations WHERE decision_id = '{card.answered_in}' ORDER BY sequence"
    return await environment.database.read(lambda connection: list(connection.exec_driver_sql(query).scalars()))


@pytest.mark.parametrize("performed", [True, False])
async def test_an_outcome_that_is_not_known_is_said_so_until_it_is_settled(
    environment: Environment, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, performed: bool
) -> None:
    asked, execute = await asked_to_delete(environment), environment.tools.execute

    async def lose(*arguments: Any, **named: Any) -> ToolResult:
        if performed:
            await execute(*arguments, **named)
        return LOST

    async def not_learned(*_: Any, **__: Any) -> ToolResult:
        return LOST

    with monkeypatch.context() as server:
        # No fault of the shipped server loses a reply, or the answer of the ledger.
        server.setattr(environment.tools, "execute", lose)
        # As above.
        server.setattr(environment.tools, "settle", not_learned)
        await environment.chat().send("ann", answers=yes_to(asked))
    card = await last_card(environment, asked)
    assert (card.state, card.note) == (CardState.UNKNOWN, "Please check before you ask for it again.")
    assert await settle_unknown(environment.tools, environment.database, clock=clock) == 1
    card = await last_card(environment, asked)
    assert card.state is (CardState.DONE if performed else CardState.NOT_DONE)
    assert await operations(environment, card) == ["done" if performed else "void"]


async def test_a_card_of_which_one_call_failed_is_partly_done(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asked_to_delete(environment)
    asked, execute, sent = await ask_about_both(environment), environment.tools.execute, []

    async def fail_second(call: Any, **named: Any) -> ToolResult:
        sent.append(call)
        return FAILED if len(sent) == 2 else await execute(call, **named)

    # No fault of the shipped server refuses one of two deletions.
    monkeypatch.setattr(environment.tools, "execute", fail_second)
    await environment.chat(ScriptedAdapter([says("Hm.")])).send("ann", answers=yes_to(asked))
    card = await last_card(environment, asked)
    assert [card.state, *(one.state for one in card.calls)] == [CardState.PARTLY, CardState.DONE, CardState.NOT_DONE]
    assert await operations(environment, card) == ["done", "void"]


async def test_a_confirmed_change_is_undone_on_its_card_once_the_undo_was_confirmed(environment: Environment) -> None:
    desk = OrderDesk()
    asks = UNDOABLE.replace("Change the address (without confirmation)", "Change the address (requires confirmation)")
    chat = environment.chat(ScriptedAdapter([calls(move("W1", "Birch 9"))]), tools=desk, constitution=asks)
    asked = await chat.send("ann", "please")
    made = await chat.send("ann", answers=yes_to(asked))
    assert (await last_card(environment, asked)).state is CardState.DONE
    undo = await chat.undo("ann", made.decision_id)

    async def states() -> list[CardState]:
        page = await chat.conversation("ann", asked.conversation_id)
        return [message.card.state for message in page.messages if message.card is not None]

    assert await states() == [CardState.DONE, CardState.WAITING]
    await chat.send("ann", answers=yes_to(undo))
    assert await states() == [CardState.UNDONE, CardState.DONE]


@pytest.mark.parametrize(
    ("how", "state"),
    [
        ("another message", CardState.SET_ASIDE),
        ("time", CardState.EXPIRED),
        ("withdrawal", CardState.CANCELLED),
        ("stop", CardState.WAITING),
    ],
)
async def test_a_question_without_a_yes_says_how_it_ended_and_nothing_was_done(
    environment: Environment, how: str, state: CardState
) -> None:
    asked = await asked_to_delete(environment)
    before = await environment.descriptions()
    pending = asked.decision.pending_action
    assert pending is not None
    match how:
        case "another message":
            await environment.chat(ScriptedAdapter([says("Hello.")])).send("ann", "hi", conversation_id=asked.conversation_id)
        case "time":
            assert isinstance(environment.clock, ManualClock)
            environment.clock.advance(minutes=5)
        case "withdrawal":
            await environment.chat().questions.cancel(pending.id, Person("ann"))
        case _:
            await place_stop(environment.database, EVERYTHING)
            with pytest.raises(ServiceError):
                await environment.chat().send("ann", answers=yes_to(asked))
    card = await last_card(environment, asked)
    assert (card.state, [one.state for one in card.calls]) == (state, [None])
    assert ("Nothing was changed." in card.note) is (state is not CardState.WAITING)
    assert await environment.descriptions() == before


@pytest.mark.parametrize("by", ["stop", "rules"])
async def test_a_request_that_operators_have_ended_is_void_on_its_card(environment: Environment, by: str) -> None:
    then, now = (RuleSet({"constitution": Constitution.load(None).text, "settings": name}) for name in ("then", "now"))
    chat = environment.chat(ScriptedAdapter([ADD]), conditions=rules(), rule_set=then)
    asked = await chat.send("ann", "add bread")
    if by == "stop":
        approvals = environment.engine().ports.approvals
        assert isinstance(approvals, ApprovalStore)
        assert await approvals.void_covered(EVERYTHING.replace(number=1)) == 1
        await other(environment, conditions=None).serve_due()
    else:
        sealer = Sealer(environment.record_key)
        await activate_rules(environment.database, now, sealer, expected=1, by="bob", reason="additions are closed")
        await respond(other(environment, conditions=rules(approved="false"), rule_set=now), request_of(asked))
    card = await last_card(environment, asked)
    why = {
        "stop": "The operator has ended what waited during a stop.",
        "rules": "The rules were changed, and they do not permit it: additions need a manager.",
    }
    assert (card.state, card.note, card.withdraw) == (CardState.VOID, f"{why[by]} Nothing was changed.", "")
    assert await environment.descriptions() == []


@pytest.mark.parametrize("end", MandateState)
async def test_the_card_of_a_plan_says_if_the_plan_is_in_force(environment: Environment, end: MandateState) -> None:
    asked = await chat_of(environment, PLAN).send("ann", "add bread and milk")
    assert (await last_card(environment, asked)).state is CardState.WAITING
    chat = chat_of(environment, adds("bread"), says("Added."), adds("milk"), says("Added."))
    await chat.send("ann", answers=yes_to(asked))
    card = await last_card(environment, asked)
    assert (card.state, card.heading) == (CardState.AGREED, "You agreed to the plan")
    await _end(environment, chat, asked, end)
    card = await last_card(environment, asked)
    notes = {
        MandateState.OPEN: "What it permits runs without asking you again until it ends.",
        MandateState.USED: "All that it permits was used. Everything is asked about as before.",
        MandateState.REVOKED: "It was revoked. Everything is asked about as before.",
        MandateState.EXPIRED: "Its time is over. Everything is asked about as before.",
        MandateState.VOID: "The rules are no longer those under which you agreed. Everything is asked about as before.",
    }
    assert (card.state, card.note) == (CardState.AGREED if end is MandateState.OPEN else CardState.ENDED, notes[end])
    assert await environment.descriptions() == (["bread", "milk"] if end is MandateState.USED else ["bread"])
    view = await environment.database.read(lambda connection: find_mandate(connection, card.id, environment.clock.now()))
    assert view is not None
    assert view.state is end


async def _end(environment: Environment, chat: Any, asked: ChatAnswer, end: MandateState) -> None:
    match end:
        case MandateState.USED:
            await chat.send("ann", "and the milk", conversation_id=asked.conversation_id)
        case MandateState.REVOKED:
            await chat.mandates.revoke(asked.decision.pending_action.id, "ann")  # type: ignore[union-attr]  # it asked
        case MandateState.EXPIRED:
            assert isinstance(environment.clock, ManualClock)
            environment.clock.advance(hours=2)
        case MandateState.VOID:
            await environment.database.write(lambda connection: void(connection, environment.clock.now()))
        case MandateState.OPEN:
            pass


async def test_a_plan_that_a_stop_has_revoked_is_in_force_no_more(environment: Environment) -> None:
    asked = await chat_of(environment, PLAN).send("ann", "add bread and milk")
    await chat_of(environment, adds("bread"), says("Added.")).send("ann", answers=yes_to(asked))
    await place_stop(environment.database, EVERYTHING)
    card = await last_card(environment, asked)
    assert (card.state, card.note) == (CardState.ENDED, "It was revoked. Everything is asked about as before.")


async def test_a_plan_that_was_declined_has_no_calls_and_nothing_was_changed(environment: Environment) -> None:
    asked = await chat_of(environment, PLAN).send("ann", "add bread and milk")
    await chat_of(environment).send("ann", answers=yes_to(asked).replace(yes=False))
    card = await last_card(environment, asked)
    assert (card.state, card.note) == (CardState.DECLINED, "Nothing was changed.")
    assert await environment.descriptions() == []
