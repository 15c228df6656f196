"""The user's consent to a call that needs confirmation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from graph_agent.clock import ManualClock
from graph_agent.errors import RecordUnavailableError
from graph_agent.models.decision import DecisionType, PendingAction
from graph_agent.models.record import RecordStatus
from graph_agent.policy.signature import Signer
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.invariants.adversary import Adversary
from tests.invariants.checks import CONFIRMED_TOOL, confirmed_action
from tests.invariants.installation import Fault, open_installation
from tests.scripted_turns import SECRET, TableServer, asks, calls, engine_of


async def test_consent_works_once_within_five_minutes_for_its_user_and_conversation(tmp_path: Path) -> None:
    async with open_installation(tmp_path) as installation:
        task = await installation.add("ann", "water the plants")
        engine = installation.engine(Adversary([calls((CONFIRMED_TOOL, {"task_id": task}))]))
        asked = await engine.process_message(asks("delete it"))
        other = installation.engine(Adversary([says("Nothing is waiting for an answer.")]))
        pending = asked.pending_action
        for context in (
            asks("yes", user_id="bob", pending_confirmation=pending),
            asks("yes", conversation_id="c2", pending_confirmation=pending),
            asks("show my list", pending_confirmation=await _another_deletion(engine)),
        ):
            assert (await other.process_message(context)).decision_type is DecisionType.RESPOND_ONLY
        unclear = asks("yes!? no", pending_confirmation=await _another_deletion(engine))
        assert (await other.process_message(unclear)).decision_type is DecisionType.REQUEST_CONFIRMATION
        late = await _another_deletion(engine)
        both = await asyncio.gather(*(other.process_message(asks("yes", pending_confirmation=pending)) for _ in range(2)))
        assert sorted(decision.decision_type for decision in both) == [DecisionType.EXECUTE_PENDING, DecisionType.RESPOND_ONLY]
        installation.clock.advance(minutes=5)
        assert (await other.process_message(asks("yes", pending_confirmation=late))).decision_type is DecisionType.RESPOND_ONLY
        deletions = await installation.rows(installation.tasks, "SELECT key FROM operations WHERE tool_name = 'delete_task'")
        assert deletions == [(pending.id,)] if pending else False
        await installation.check()


async def _another_deletion(engine: LLMAgentEngine) -> PendingAction | None:
    return (await engine.process_message(asks("delete it"))).pending_action


@pytest.mark.parametrize("failure", [RecordUnavailableError("gone"), Fault(), asyncio.CancelledError()])
async def test_consent_is_refused_when_its_database_fails(failure: BaseException) -> None:
    class FailingConfirmations:
        async def consume(self, *_: Any) -> bool:
            raise failure

    clock, server = ManualClock(), TableServer()
    pending = confirmed_action(Signer(SECRET), clock.now())
    engine = engine_of(says("Nothing is waiting."), server=server, clock=clock, confirmations=FailingConfirmations())
    finished = await engine.run(asks("yes", pending_confirmation=pending))
    assert server.sent == []
    assert finished.record.status is RecordStatus.COMPLETED
    assert finished.decision.reply == "Nothing is waiting."
