"""The worker processes of replays."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.graph.added import AddedRuntime
from graph_agent.graph.build import CompiledGraph, build_graph
from graph_agent.graph.state import Turn
from graph_agent.graph.topology import TOPOLOGY
from graph_agent.models.record import DecisionRecord
from graph_agent.replays.pool import WORKERS, ReplayPool
from graph_agent.replays.replayer import WhatIf
from graph_agent.replays.sources import LoadedRecord
from tests.audit.builders import make_record

pytestmark = pytest.mark.usefixtures("quick_processes")


OPEN = "open"
WAITS = {**TOPOLOGY, "BUILD_REQUEST": {**TOPOLOGY["BUILD_REQUEST"], "request_built": "WAIT"}, "WAIT": {"open": "INVOKE_LLM"}}


@pytest.fixture
def pool() -> Iterator[ReplayPool]:
    pool = ReplayPool()
    yield pool
    pool.close()


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file for each replay that has begun; they wait for the file `OPEN`."""
    folder = tmp_path / "gate"
    folder.mkdir()
    monkeypatch.setenv("GATE", str(folder))
    return folder


@pytest.fixture
def gated(gate: Path) -> Iterator[ReplayPool]:
    """A pool whose replays wait for the gate."""
    pool = ReplayPool(build=gated_graph)
    yield pool
    (gate / OPEN).touch()
    pool.close()


async def wait_for_gate(turn: Turn, _runtime: AddedRuntime) -> Turn:
    gate = Path(os.environ["GATE"])
    (gate / uuid.uuid4().hex).touch()
    while not (gate / OPEN).exists():  # noqa: ASYNC110 (the test is another process)
        await asyncio.sleep(0.01)
    return turn.to("open")


def gated_graph() -> CompiledGraph:
    return build_graph(WAITS, {"WAIT": wait_for_gate})


async def records(*found: DecisionRecord | None) -> AsyncIterator[LoadedRecord]:
    for record in found:
        yield LoadedRecord("the record", record, {})


async def times(count: int, found: LoadedRecord) -> AsyncIterator[LoadedRecord]:
    for _ in range(count):
        yield found


async def test_a_record_that_cannot_be_read_is_reported(pool: ReplayPool) -> None:
    [(_, report)] = [reported async for reported in pool.replay_all(records(None))]
    assert (report["identical"], report["departure"]) == (False, "the record cannot be read")


async def test_reports_come_in_order_from_other_processes(pool: ReplayPool) -> None:
    wanted = [make_record(number) for number in range(20)]
    async with aclosing(pool.replay_all(records(*wanted))) as reports:
        found = [report["decision_id"] async for _, report in reports]
    assert found == [record.header.decision_id for record in wanted]
    assert os.getpid() not in pool.workers
    assert pool.workers


async def test_prepared_workers_serve_the_first_replays(pool: ReplayPool) -> None:
    pool.prepare()
    pool.prepare()
    while len(pool.workers) < WORKERS:  # noqa: ASYNC110 (they start in another thread)
        await asyncio.sleep(0.01)
    prepared = pool.workers
    assert [report async for report in pool.replay_all(records(*map(make_record, range(10))))]
    assert {*pool.workers} == {*prepared}


def begun(gate: Path) -> int:
    """Return the number of replays that have begun."""
    return len([file for file in gate.iterdir() if file.name != OPEN])


async def begin(pool: ReplayPool, gate: Path, recorded: LoadedRecord) -> asyncio.Future[Any]:
    """Start ten replays, and return the first report when each worker waits for the gate."""
    first = asyncio.ensure_future(anext(pool.replay_all(times(10, recorded))))
    while begun(gate) < WORKERS and not first.done():  # noqa: ASYNC110 (the replays run in other processes)
        await asyncio.sleep(0.01)
    return first


async def test_a_worker_that_dies_ends_its_replay_and_the_next_one_has_another(
    gated: ReplayPool, gate: Path, recorded: LoadedRecord
) -> None:
    first = await begin(gated, gate, recorded)
    killed = gated.workers
    for process in killed:
        os.kill(process, signal.SIGKILL)
    with pytest.raises(ServiceError) as failed:
        await first
    assert failed.value.code is ServiceErrorCode.SERVICE_UNAVAILABLE
    (gate / OPEN).touch()
    assert [report async for report in gated.replay_all(times(1, recorded))]
    # A killed worker without a replay is replaced when it would get the next one.
    assert {*gated.workers} - {*killed}


async def test_a_worker_that_has_died_without_a_replay_is_replaced(pool: ReplayPool) -> None:
    assert [report async for report in pool.replay_all(records(make_record(1)))]
    (killed,) = pool.workers
    os.kill(killed, signal.SIGKILL)
    os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 (it has been killed)
    assert [report async for report in pool.replay_all(records(make_record(1)))]
    assert killed not in pool.workers


async def test_replays_that_are_abandoned_keep_their_workers_until_they_end(
    gated: ReplayPool, gate: Path, recorded: LoadedRecord
) -> None:
    for _ in range(3):
        first = await begin(gated, gate, recorded)
        first.cancel()
        await asyncio.wait({first})
    assert len(gated.workers) == begun(gate) == WORKERS
    (gate / OPEN).touch()
    assert [report async for report in gated.replay_all(times(1, recorded))]
    # Those that waited for a worker were dropped.
    assert begun(gate) == WORKERS + 1


async def test_a_replay_that_fails_says_why_and_leaves_its_worker(pool: ReplayPool) -> None:
    with pytest.raises(RuntimeError, match="ConstitutionError"):
        _ = [report async for report in pool.replay_all(records(make_record(1)), WhatIf("no constitution"))]
    before = pool.workers
    assert [report async for report in pool.replay_all(records(make_record(1)))]
    assert pool.workers == before
