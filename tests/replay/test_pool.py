"""The worker processes of replays."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.record import DecisionRecord
from graph_agent.replay.pool import ReplayPool
from graph_agent.replay.sources import LoadedRecord
from tests.audit.builders import make_record


@pytest.fixture
def pool() -> AsyncIterator[ReplayPool]:
    pool = ReplayPool()
    yield pool
    pool.close()


async def records(*found: DecisionRecord | None) -> AsyncIterator[LoadedRecord]:
    for record in found:
        yield LoadedRecord("the record", record, {})


async def test_a_record_that_cannot_be_read_is_reported(pool: ReplayPool) -> None:
    [(_, report)] = [reported async for reported in pool.replay_all(records(None), None)]
    assert (report["identical"], report["departure"]) == (False, "the record cannot be read")


async def test_reports_come_in_order_from_other_processes(pool: ReplayPool) -> None:
    wanted = [make_record(number) for number in range(20)]
    async with aclosing(pool.replay_all(records(*wanted), None)) as reports:
        found = [report["decision_id"] async for _, report in reports]
    assert found == [record.header.decision_id for record in wanted]
    assert os.getpid() not in pool.workers
    assert pool.workers


async def test_a_worker_that_dies_ends_one_replay_and_the_next_one_has_another(pool: ReplayPool) -> None:
    assert [report async for report in pool.replay_all(records(make_record(1)), None)]
    for process in pool.workers:
        os.kill(process, signal.SIGKILL)
    with pytest.raises(ServiceError) as failed:
        # More records than can be lost between the signal and the end of the process.
        _ = [report async for report in pool.replay_all(records(*(make_record(number) for number in range(100))), None)]
    assert failed.value.code is ServiceErrorCode.SERVICE_UNAVAILABLE
    assert [report async for report in pool.replay_all(records(make_record(1)), None)]
