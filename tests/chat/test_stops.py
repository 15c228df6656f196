"""Users and approvers of a chat while an operator has stopped something."""

from __future__ import annotations

import asyncio

import pytest

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import DecisionType
from graph_agent.models.record import RecordStatus
from graph_agent.models.stop import Stop, StopScope
from graph_agent.record.stops import end_stop, place_stop
from graph_agent.record.tree.leaves import Sealer
from graph_agent.replays.replayer import Replayer
from graph_agent.replays.sources import load_from_log
from graph_agent.testing import says
from tests.chat.environment import Environment, GatedModel

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
