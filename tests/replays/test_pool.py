"""The worker processes of replays."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from typing import Any, cast

import pytest

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.graph.build import build_graph
from graph_agent.models.record import DecisionRecord
from graph_agent.replays.pool import WORKERS, ReplayPool, _replay_in_worker
from graph_agent.replays.sources import LoadedRecord
from tests.audit.builders import make_record

pytestmark = pytest.mark.usefixtures("quick_processes")


@pytest.fixture
def pool() -> Iterator[ReplayPool]:
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


class StuckExecutor:
    """An executor whose work ends when a test says so."""

    def __init__(self) -> None:
        self.submitted: list[Future[Any]] = []

    def submit(self, *_: Any) -> Future[Any]:
        self.submitted.append(Future())
        return self.submitted[-1]

    def shutdown(self, **_: Any) -> None:
        pass


async def test_replays_that_are_abandoned_keep_their_workers_until_they_end(pool: ReplayPool) -> None:
    executor = StuckExecutor()
    pool._executor = cast("Any", executor)
    for _ in range(3):
        reports = pool.replay_all(records(*(make_record(number) for number in range(10))), None)
        waiting = asyncio.ensure_future(anext(reports))
        await _run_ready_tasks()
        waiting.cancel()
        await asyncio.wait({waiting})
        await _run_ready_tasks()
    assert len(executor.submitted) == WORKERS
    for future in executor.submitted:
        future.set_result({})
    waiting = asyncio.ensure_future(anext(pool.replay_all(records(make_record(1)), None)))
    await _run_ready_tasks()
    assert len(executor.submitted) == WORKERS + 1
    executor.submitted[-1].set_result({"identical": True})
    assert (await waiting)[1] == {"identical": True}


async def _run_ready_tasks() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def test_an_exception_of_a_worker_can_be_unpickled() -> None:
    with pytest.raises(RuntimeError) as failed:
        _replay_in_worker(build_graph, make_record(1), {}, "no constitution")
    assert "ConstitutionError" in str(pickle.loads(pickle.dumps(failed.value)))
