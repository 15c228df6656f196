"""Between a question and its yes the values of a call are compared, and not its words."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.models.decision import ConfirmationAnswer, DecisionType
from graph_agent.testing import OrderDesk, says
from tests.desk import CONSTITUTION, NOT_SENT, ORDER, Conversation, cancel, conversation, policy
from tests.scripted_turns import asks, calls

SENTENCE = CONSTITUTION.replace(
    "- cancel_order: Cancel order (without confirmation)",
    '- cancel_order: "Cancel order[ due {order.due}]" (requires confirmation)',
)
DUE = "2027-01-15T10:00Z"
SAME_WORDS = "2027-01-15T10:00:00Z"


def change(run: Conversation, **values: Any) -> None:
    run.desk.orders["W1"] |= values


def asking(rules: str, desk: OrderDesk | None = None) -> Conversation:
    run = conversation(rules, calls(cancel("W1")), says("."), constitution=SENTENCE, desk=desk)
    change(run, due=DUE)
    return run


def is_asked_again(run: Conversation) -> bool:
    last = run.turns[-1].decision
    assert (last.decision_type is DecisionType.REQUEST_CONFIRMATION) == (not run.desk.changes)
    return last.decision_type is DecisionType.REQUEST_CONFIRMATION and "has changed since I asked" in last.reply


@pytest.mark.parametrize(
    ("changed", "asked_again"), [({"due": SAME_WORDS}, True), ({"status": "packed"}, True), ({"total": 1}, False)]
)
async def test_what_was_read_for_the_sentence_and_for_the_conditions_is_compared(
    changed: dict[str, Any], asked_again: bool
) -> None:
    run = asking(NOT_SENT)
    asked = await run.say()
    assert asked.decision.reply.startswith("Cancel order due 15 January 2027, 10:00 UTC\n  Order: 'W1'")
    change(run, **changed)
    again = await run.say("yes")
    assert is_asked_again(run) is asked_again
    if "due" in changed:
        assert "due 15 January 2027, 10:00 UTC" in again.decision.reply


async def test_what_the_server_describes_is_compared() -> None:
    desk = OrderDesk(previewed={"cancel_order"})
    run = asking(policy(ORDER), desk)
    await run.say()
    change(run, status="packed")
    await run.say("yes")
    assert is_asked_again(run)


@pytest.mark.parametrize("by_button", [True, False])
async def test_the_arguments_are_those_that_were_asked_about(by_button: bool) -> None:
    run = asking(NOT_SENT)
    pending = (await run.say()).decision.pending_action
    assert pending is not None
    answer = ConfirmationAnswer(pending_action=pending.id, yes=True) if by_button else None
    forged = pending.replace(arguments={"order_id": "W2"})
    await run.engine.run(asks("yes", pending_confirmation=forged, answers=answer))
    assert run.desk.changes == []
