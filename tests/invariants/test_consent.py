"""The user's consent to a call that needs confirmation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graph_agent.clock import ManualClock
from graph_agent.errors import RecordUnavailableError
from graph_agent.models.record import RecordStatus
from graph_agent.policy.signature import Signer
from graph_agent.testing import says
from tests.invariants.checks import confirmed_action
from tests.invariants.installation import Fault
from tests.scripted_turns import SECRET, TableServer, asks, engine_of


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
