"""The looks at a waiting call: its reads in the name of the requester are recorded, bounded and counted."""

from __future__ import annotations

import asyncio

from graph_agent.chat.approval_looks import MAX_LOOKS
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.record import DecisionRecord, EntryKind
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.replays.replayer import Replayer
from graph_agent.replays.sources import load_from_log
from graph_agent.testing import OrderDesk
from tests.chat.environment import Environment
from tests.chat.test_approval_grounds import CANCEL, UNSENT, chat_of, view_of
from tests.chat.test_approvals import own, rename, request_of, respond, rules
from tests.desk import CONSTITUTION, ORDER, forbid, policy
from tests.scripted_turns import calls


async def looks(environment: Environment) -> list[DecisionRecord]:
    return [one for one in await environment.records() if one.header.context.look is not None]


def kinds(record: DecisionRecord) -> list[EntryKind]:
    return [one.kind for one in record.entries]


async def test_each_look_is_a_decision_of_the_requester_that_names_who_looked(environment: Environment) -> None:
    desk = OrderDesk()
    chat = chat_of(environment, desk, calls(CANCEL))
    request = request_of(await chat.send("ann", "cancel W2"))
    await view_of(chat, request)
    (look,) = await looks(environment)
    context = look.header.context
    assert (context.user_id, context.look is not None and context.look.viewer) == ("ann", "bob")
    assert context.conversation_id == request.conversation_id
    assert EntryKind.READ in kinds(look)
    assert [one.success for one in look.invocations] == [False]
    loaded = await load_from_log(environment.database, look.header.decision_id)
    assert (await loaded.replay(Replayer())).identical


async def test_a_page_that_asks_all_the_time_reads_once_a_minute_and_not_without_end(
    environment: Environment, clock: ManualClock
) -> None:
    desk = OrderDesk()
    chat = chat_of(environment, desk, calls(CANCEL))
    request = request_of(await chat.send("ann", "cancel W2"))
    before = len(desk.sent)
    for _ in range(12):
        await view_of(chat, request)
        clock.advance(seconds=5)
    assert len(desk.sent) - before == 1
    for _ in range(2 * MAX_LOOKS):
        shown = await view_of(chat, request)
        clock.advance(minutes=1)
    assert len(desk.sent) - before == MAX_LOOKS
    # The answers of the last look are shown with their time, and it can still be approved.
    assert shown.looked_at is not None
    assert shown.looked_at < clock.now()
    assert shown.yours is not None
    assert shown.yours.effect == "runs"
    # Another approver has looks of their own; the requester and those who may not answer have none.
    await view_of(chat, request, "eve")
    await view_of(chat, request, "ann")
    assert len(desk.sent) - before == MAX_LOOKS + 1


async def test_two_looks_at_once_are_one(environment: Environment) -> None:
    desk = OrderDesk()
    chat = chat_of(environment, desk, calls(CANCEL))
    request = request_of(await chat.send("ann", "cancel W2"))
    shown = await asyncio.gather(*(view_of(chat, request) for _ in range(4)))
    assert len(await looks(environment)) == 1
    assert any(one.facts_now for one in shown)


async def test_the_reads_of_looks_count_as_those_of_the_requester(environment: Environment) -> None:
    desk = OrderDesk()
    budget = forbid("two reads a day", "get_order", "context.used.day.calls <= 2")
    text = policy(ORDER, forbid("a manager cancels", "cancel_order", UNSENT)) + budget
    file = ConditionsFile(text, roles=("finance", "manager"))
    chat = environment.chat(ScriptedAdapter([calls(CANCEL)]), conditions=file, tools=desk, constitution=CONSTITUTION)
    request = request_of(await chat.send("ann", "cancel W2"))
    assert (await view_of(chat, request)).facts_now
    # The third read of the day is refused.
    missing = (await view_of(chat, request, "eve")).facts_now
    assert missing is not None
    assert [one.missing for one in missing] == ["not known: the read is not permitted: two reads a day"]
    assert len(desk.sent) == 2


async def test_a_preview_of_a_look_is_recorded(environment: Environment) -> None:
    task = calls(("add_task", {"description": "bread"}))
    chat: ChatService = environment.chat(ScriptedAdapter([task]))
    await chat.send("ann", "add bread")
    delete = calls(("delete_task", {"task_id": await environment.task_id("bread")}))
    demanding = environment.chat(ScriptedAdapter([delete]), conditions=rules("delete_task"))
    asked = await demanding.send("ann", "delete it")
    said = await demanding.send("ann", "yes", conversation_id=asked.conversation_id)
    request = request_of(said)
    await rename(environment, await environment.task_id("bread"), "rye bread")
    shown = await view_of(demanding, request)
    assert shown.object_now == "Delete task 'rye bread'"
    (look,) = await looks(environment)
    assert EntryKind.PREVIEW in kinds(look)


async def test_a_request_that_waits_for_its_facts_is_read_ever_more_seldom(
    environment: Environment, clock: ManualClock
) -> None:
    desk = OrderDesk()
    chat = chat_of(environment, desk, calls(CANCEL))
    request = request_of(await chat.send("ann", "cancel W2"))
    desk.orders["W2"]["status"] = "sent"
    await respond(chat, request)
    read = len(desk.sent)
    for _ in range(120):
        clock.advance(minutes=1)
        await chat.serve_due()
    assert len(desk.sent) - read <= 7
    desk.orders["W2"]["status"] = "delivered"
    clock.advance(hours=3)
    await chat.serve_due()
    (closed,) = await own(chat, "ann")
    assert closed.state == "approved"
