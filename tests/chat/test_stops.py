"""Users and approvers of a chat while an operator has stopped something."""

from __future__ import annotations

import asyncio

import pytest

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import DecisionType
from graph_agent.models.record import RecordStatus
from graph_agent.models.stop import Stop, StopScope
from graph_agent.question.approvals import ApprovalStore
from graph_agent.record.stops import end_stop, place_stop
from graph_agent.record.tree.leaves import Sealer
from graph_agent.replays.replayer import Replayer
from graph_agent.replays.sources import load_from_log
from graph_agent.testing import says
from tests.chat.environment import Environment, GatedModel
from tests.chat.test_approval_rules import TWO, other, wait_for_its_rules
from tests.chat.test_approvals import ADD, chat_of, messages, own, request_of, requests_of, respond, rules

EVERYTHING = Stop(number=0, scope=StopScope.EVERYTHING, reason="wrong deletions", say="We look into it.")


async def test_a_yes_is_not_used_up_while_everything_is_stopped(environment: Environment) -> None:
    chat = environment.chat()
    conversation = (await chat.send("ann", "add a task to call mom")).conversation_id
    asked = await chat.send("ann", "delete the call mom task", conversation_id=conversation)
    assert asked.decision.decision_type is DecisionType.REQUEST_CONFIRMATION

    placed = await place_stop(environment.database, EVERYTHING)
    with pytest.raises(ServiceError, match=r"We look into it\. Nothing was done\.") as refused:
        await environment.chat().send("ann", "yes", conversation_id=conversation)
    assert refused.value.code is ServiceErrorCode.STOPPED
    assert await chat.pending_action("ann", conversation) is not None
    assert await environment.descriptions() == ["call mom"]

    await end_stop(environment.database, placed.number, Sealer(environment.record_key), by="bob", reason="fixed")
    done = await environment.chat().send("ann", "yes", conversation_id=conversation)
    assert (done.decision.decision_type, await environment.descriptions()) == (DecisionType.EXECUTE_PENDING, [])


async def test_a_request_that_was_answered_gets_its_answer_while_everything_is_stopped(environment: Environment) -> None:
    chat = environment.chat()
    first = await chat.send("ann", "add milk", idem_key="k")
    await place_stop(environment.database, EVERYTHING)
    assert await chat.send("ann", "add milk", idem_key="k") == first


async def test_a_turn_that_waits_for_the_model_ends_and_says_so(environment: Environment) -> None:
    model = GatedModel([says("Never said.")])
    chat = environment.chat(model)
    sent = asyncio.create_task(chat.send("ann", "hello"))
    await model.asked.acquire()
    await place_stop(environment.database, EVERYTHING)
    answer = await sent
    assert answer.decision.reply == "The operator has stopped this, so I did nothing further."
    assert [record.status for record in await environment.records()] == [RecordStatus.INTERRUPTED]
    loaded = await load_from_log(environment.database, answer.decision_id)
    assert (await loaded.replay(Replayer())).identical


async def test_an_approval_while_everything_is_stopped_is_judged_by_both_rules_after_it(each_environment: Environment) -> None:
    environment = each_environment
    chat = chat_of(environment, ADD, conditions=rules(approved=TWO))
    request = request_of(await chat.send("ann", "add bread"))
    weaker = other(environment, conditions=None)
    placed = await place_stop(environment.database, EVERYTHING)
    await respond(weaker, request)
    await respond(weaker, request, "eve", roles=["finance"])
    await weaker.serve_due()
    assert (await requests_of(weaker).state(request.id, "ann")).state == "open"
    await end_stop(environment.database, placed.number, Sealer(environment.record_key), by="bob", reason="fixed")
    await wait_for_its_rules(environment)
    await weaker.serve_due()
    assert await environment.descriptions() == ["bread"]


@pytest.mark.parametrize(
    ("scope", "name", "ended"),
    [
        (StopScope.EVERYTHING, "", ["ann", "eve"]),
        (StopScope.TOOL, "add_task", ["ann", "eve"]),
        (StopScope.TOOL, "delete_task", []),
        (StopScope.USER, "ann", ["ann"]),
    ],
)
async def test_what_waits_and_was_stopped_can_be_ended(
    each_environment: Environment, scope: StopScope, name: str, ended: list[str]
) -> None:
    environment = each_environment
    chat = chat_of(environment, ADD, ADD)
    asked = {user: await chat.send(user, "add bread") for user in ("ann", "eve")}
    engine = environment.engine()
    assert isinstance(engine.ports.approvals, ApprovalStore)
    voided = await engine.ports.approvals.void_covered(Stop(number=1, scope=scope, name=name))
    assert voided == len(ended)
    await other(environment, conditions=None).serve_due()
    for user, answer in asked.items():
        (mine,) = await own(chat, user)
        assert mine.state == ("void" if user in ended else "open")
        assert (len(await messages(chat, answer, user)) > 2) is (user in ended)
    if "ann" in ended:
        said = (await messages(chat, asked["ann"]))[-1]
        assert said.startswith("The request is void (the operator has ended what waited during a stop)")
