"""The facts that only the rules read under which a call was asked: they are read where other rules decide it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from graph_agent.chat.approval_looks import MAX_LOOKS
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import ApprovalRequest
from graph_agent.models.record import DecisionRecord
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.replays.replayer import Replayer
from graph_agent.replays.sources import load_from_log
from graph_agent.testing import OrderDesk
from tests.chat.environment import Environment
from tests.chat.test_approval_grounds import CANCEL, chat_of, view_of
from tests.chat.test_approval_rules import wait_for_its_rules
from tests.chat.test_approvals import request_of, requests_of, respond, waiting
from tests.desk import CONSTITUTION, forbid, policy
from tests.scripted_turns import calls

A_MANAGER = forbid("a manager cancels", "cancel_order", "context.approvals.manager >= 1")


def other(environment: Environment, desk: OrderDesk, *rules: str, declared: str = "", **choices: Any) -> ChatService:
    """Return another process with these rules."""
    file = ConditionsFile(policy(declared, *rules), roles=("finance", "manager"))
    named = {"conditions": file, "tools": desk, "constitution": CONSTITUTION, **choices}
    return environment.chat(ScriptedAdapter([]), **named)


async def reads_of(environment: Environment) -> list[DecisionRecord]:
    """Return the decisions that read for the earlier rules."""
    return [one for one in await environment.records() if one.header.context.message.endswith("under the earlier rules")]


async def renewal_of(chat: ChatService, request: ApprovalRequest) -> ApprovalRequest:
    """Return the request that has opened another one anew."""
    (one,) = await waiting(chat, "bob", ["manager"])
    assert one.id != request.id
    return (await requests_of(chat).state(one.id, "ann")).request


async def test_what_only_the_earlier_rules_read_is_read_and_decides(each_environment: Environment, clock: ManualClock) -> None:
    environment, desk = each_environment, OrderDesk()
    request = request_of(await chat_of(environment, desk, calls(CANCEL)).send("ann", "cancel W2"))
    weaker = other(environment, desk, A_MANAGER)
    desk.orders["W2"]["status"] = "sent"
    seen = await view_of(weaker, request)
    assert seen.yours is not None
    why = "a manager cancels (order 'W2': status = 'sent')"
    assert (seen.yours.effect, seen.yours.why, seen.decided_elsewhere) == ("refused", why, "")
    await respond(weaker, request)
    assert desk.changes == []
    desk.orders["W2"]["status"] = "delivered"
    clock.advance(minutes=2)
    await weaker.serve_due()
    # The question had shown what the earlier rules read, and those of now read nothing: people are asked once more.
    assert desk.changes == []
    renewed = await renewal_of(weaker, request)
    desk.orders["W2"]["status"] = "sent"
    await respond(weaker, renewed)
    assert desk.changes == []
    desk.orders["W2"]["status"] = "delivered"
    clock.advance(minutes=2)
    await weaker.serve_due()
    assert desk.changes == ["cancel_order W2 card_1"]
    made = await reads_of(environment)
    # Some are of the same moment, so that their order is not known.
    viewers = sorted(one.header.context.look.viewer for one in made if one.header.context.look is not None)
    assert viewers == ["", "", "", "", "bob"]
    assert {one.header.context.user_id for one in made} == {"ann"}
    for one in made:
        loaded = await load_from_log(environment.database, one.header.decision_id)
        assert (await loaded.replay(Replayer())).identical


async def test_a_read_that_the_rules_of_now_forbid_is_not_made(environment: Environment, clock: ManualClock) -> None:
    desk = OrderDesk()
    request = request_of(await chat_of(environment, desk, calls(CANCEL)).send("ann", "cancel W2"))
    before = len(desk.sent)
    closed = other(environment, desk, A_MANAGER, forbid("nobody reads orders", "get_order", "false"))
    await respond(closed, request)
    clock.advance(minutes=2)
    await closed.serve_due()
    assert desk.sent[before:] == []
    assert (await requests_of(closed).view(request.id, "ann", [])).state == "open"


async def test_a_fact_of_the_same_name_means_what_each_set_of_rules_declares(environment: Environment) -> None:
    desk = OrderDesk()
    request = request_of(await chat_of(environment, desk, calls(CANCEL)).send("ann", "cancel W2"))
    desk.orders["W2"]["status"] = "sent"
    desk.customers["W2"] = {"status": "delivered"}
    renamed = "- order: get_customer(customer_id = arguments.order_id)\n"
    needs = 'context.result has order && context.result.order.status != "sent" && context.approvals.manager >= 1'
    changed = other(environment, desk, forbid("a manager cancels", "cancel_order", needs), declared=renamed)
    await respond(changed, request)
    assert desk.changes == []
    # The reverse: the earlier rules permit it, and those of now do not.
    desk.orders["W2"]["status"], desk.customers["W2"]["status"] = "delivered", "sent"
    await wait_for_its_rules(environment)
    environment.clock.advance(minutes=2)  # type: ignore[attr-defined]  # it is a manual clock
    await changed.serve_due()
    assert desk.changes == []


async def test_looks_under_the_earlier_rules_become_ever_more_seldom(environment: Environment, clock: ManualClock) -> None:
    desk = OrderDesk()
    request = request_of(await chat_of(environment, desk, calls(CANCEL)).send("ann", "cancel W2"))
    desk.orders["W2"]["status"] = "sent"
    weaker = other(environment, desk, A_MANAGER)
    await respond(weaker, request)
    for _ in range(60):
        clock.advance(minutes=1)
        await weaker.serve_due()
    # After 1, 3, 7, 15 and 31 minutes.
    assert len(await reads_of(environment)) == 6
    assert desk.changes == []
    for _ in range(MAX_LOOKS + 2):
        clock.advance(seconds=timedelta(minutes=1).total_seconds() + 1)
        await view_of(weaker, request, "eve")
    of_eve = [one for one in await reads_of(environment) if one.header.context.look.viewer == "eve"]  # type: ignore[union-attr]
    assert len(of_eve) == MAX_LOOKS


@pytest.mark.parametrize("bound", [False, True])
async def test_an_argument_that_the_runtime_fills_is_filled_by_the_rules_of_now(environment: Environment, bound: bool) -> None:
    desk = OrderDesk()
    desk.customers["ann"] = {"name": "Ann", "status": "active"}
    text = CONSTITUTION.replace("(reads)", "(customer_id is the signed-in user) (reads)", 2).replace(
        "get_order: Get order (customer_id is the signed-in user) (reads)", "get_order: Get order (reads)"
    )
    declared = "- customer: get_customer(customer_id = principal)\n"
    needs = 'context.result has customer && context.result.customer.status == "active" && context.approvals.manager >= 1'
    file = ConditionsFile(policy(declared, forbid("an active one", "cancel_order", needs)), roles=("finance", "manager"))
    chat = environment.chat(ScriptedAdapter([calls(CANCEL)]), conditions=file, tools=desk, constitution=text)
    request = request_of(await chat.send("ann", "cancel W2"))
    changed = other(environment, desk, A_MANAGER, constitution=text if bound else CONSTITUTION)
    await respond(changed, request)
    # Without the binding the earlier read lacks its argument now.
    assert (await requests_of(changed).state(request.id, "ann")).state == ("approved" if bound else "open")
    sent = [arguments for tool, arguments in desk.sent if tool == "get_customer"]
    assert sent == [{"customer_id": "ann"}] * (2 if bound else 1)
