"""An opening row that is committed after its turn has given up is closed by the attempt that wrote it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graph_agent.db import DatabaseUnavailableError
from graph_agent.errors import RecordUnavailableError, ServiceError, ServiceErrorCode
from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.record import DecisionOpening, RecordStatus
from graph_agent.record.memory import MemoryAuditWriter
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.refused import write_refused
from tests.scripted_turns import asks, engine_of, says


class LateWriter(MemoryAuditWriter):
    """A writer whose opening row is committed when `may_commit` is set; then it reports `failure`, if there is one."""

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.may_commit = asyncio.Event()
        self._failure = failure

    async def write_opening(self, opening: DecisionOpening) -> None:
        self.begun.set()
        await self.may_commit.wait()
        await super().write_opening(opening)
        if self._failure is not None:
            raise self._failure


async def _closed(audit: MemoryAuditWriter) -> None:
    while not audit.records:  # noqa: ASYNC110 (the writer has no event for it)
        await asyncio.sleep(0)


async def _stepped(engine: LLMAgentEngine) -> None:
    async for _ in engine.step(asks()):
        pass


@pytest.mark.parametrize("run", [LLMAgentEngine.process_message, lambda engine, _: _stepped(engine)], ids=["run", "step"])
async def test_a_row_that_is_committed_after_its_caller_was_cancelled_is_closed(run: Any) -> None:
    audit = LateWriter()
    engine = engine_of(audit=audit)
    turn = asyncio.create_task(run(engine, asks()))
    await audit.begun.wait()
    turn.cancel()
    await asyncio.wait({turn})
    assert (audit.open, audit.records) == ({}, {})
    audit.may_commit.set()
    await _closed(audit)
    assert audit.open == {}
    assert [record.status for record in audit.records.values()] == [RecordStatus.INTERRUPTED]


async def test_a_row_whose_commit_was_not_confirmed_is_closed() -> None:
    lost = RecordUnavailableError("the log database did not take the row")
    lost.__cause__ = DatabaseUnavailableError(unknown=True)
    audit = LateWriter(lost)
    audit.may_commit.set()
    engine = engine_of(audit=audit)
    with pytest.raises(ServiceError) as refused:
        await engine.process_message(asks())
    assert refused.value.code is ServiceErrorCode.SERVICE_UNAVAILABLE
    await _closed(audit)
    assert audit.open == {}
    assert [record.status for record in audit.records.values()] == [RecordStatus.INTERRUPTED]


async def test_a_refused_message_whose_caller_is_cancelled_leaves_no_open_row() -> None:
    audit = LateWriter()
    engine = engine_of(says("never asked"), audit=audit)
    refusal = asyncio.create_task(write_refused(engine, "ann", "none", "hello", OutcomeCategory.RATE_LIMITED, "Please wait."))
    await audit.begun.wait()
    refusal.cancel()
    audit.may_commit.set()
    await asyncio.wait({refusal})
    assert audit.open == {}
    assert [record.decision.reply for record in audit.records.values()] == ["Please wait."]
