"""Replays in slices of time: in other processes, on a Dask cluster, and continued from a checkpoint."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import stat
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from graph_agent.audit import export
from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.time_slices import TimeSlice, split_log
from graph_agent.db import Database, migrate
from graph_agent.errors import ConfigurationError
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.replays.parallel import Checkpoint, run_in_order, run_part, start_worker
from graph_agent.replays.pool import ReplayJob, replay_slice
from graph_agent.replays.replayer import Replayer
from graph_agent.replays.sources import read_log
from graph_agent.task_server.server import build_task_server
from graph_agent.tools.executor import McpToolExecutor
from tests.audit.builders import NOON, make_record, store_records
from tests.dask_cluster import client_of, dask_cluster
from tests.replays.random_turns import RandomTurns, run_all_kinds

SIZE = 7


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a log with turns of all kinds, and one record that was edited and no longer replays."""
    url = f"sqlite:///{tmp_path_factory.mktemp('log') / 'log.db'}"
    log, tasks = Database.open(url), Database.open("sqlite://")
    migrate(log, "graph_agent.record")
    migrate(tasks, "graph_agent.task_server")

    async def fill() -> None:
        async with McpToolExecutor(build_task_server(tasks)) as tools:
            async for _ in run_all_kinds(RandomTurns(DatabaseAuditWriter(log), seed=1, real_tools=tools), rounds=1):
                pass

    asyncio.run(fill())
    edit = "UPDATE decision_logs SET record = replace(record, 'SUCCESS', 'ERROR') WHERE decision_id = (%s)"
    log.write_now(
        lambda connection: connection.exec_driver_sql(
            edit % "SELECT min(decision_id) FROM decision_logs WHERE outcome_category LIKE 'SUCCESS%%'"
        ).close()
    )
    log.close_now()
    tasks.close_now()
    return url


def split(url: str, filters: DecisionFilter | None = None) -> list[TimeSlice]:
    log = Database.open(url)
    try:
        return asyncio.run(split_log(log, filters or DecisionFilter(), SIZE))
    finally:
        log.close_now()


def replay_one_by_one(url: str, filters: DecisionFilter) -> list[dict[str, Any]]:
    async def replay_all() -> list[dict[str, Any]]:
        replayer = Replayer()
        return [(await one.replay(replayer)).to_json() async for one in read_log(log, filters)]

    log = Database.open(url)
    try:
        return asyncio.run(replay_all())
    finally:
        log.close_now()


def replay_with(executor: Executor, url: str, filters: DecisionFilter, checkpoint: Path | None = None) -> list[dict[str, Any]]:
    job = ReplayJob(url, filters)
    stored = None if checkpoint is None else Checkpoint(checkpoint, job.to_json())
    with closing(run_in_order(executor, replay_slice, job, split(url, filters), ahead=3, checkpoint=stored)) as finished:
        return [report for reports in finished for report in reports]


class CountingExecutor(ThreadPoolExecutor):
    """An executor of threads that counts what is submitted."""

    submitted = 0

    def submit(self, *arguments: Any, **named: Any) -> Any:
        self.submitted += 1
        return super().submit(*arguments, **named)


@pytest.fixture
def threads() -> Iterator[CountingExecutor]:
    with CountingExecutor(2) as executor:
        yield executor


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with dask_cluster(2) as cluster:
        yield cluster


async def test_the_slices_contain_every_matching_decision_once_and_keep_equal_times_together(log: Database) -> None:
    moments = [1, 1, 1, 1, 2, 3, 3, 4, 5, 5, 5]
    records = [make_record(n, at=NOON + timedelta(minutes=minute)) for n, minute in enumerate(moments)]
    store_records(log, *records, make_record(99, user="bob"))
    slices = await split_log(log, DecisionFilter(user_id="ann"), 3)

    assert [one.decisions for one in slices] == [5, 3, 3]
    for before, after in pairwise(slices):
        assert before.until == after.since
    found = [
        [one.name async for one in read_log(log, DecisionFilter(user_id="ann").in_range(part.since, part.until))]
        for part in slices
    ]
    assert sorted(name for names in found for name in names) == sorted(record.header.decision_id for record in records)
    assert [len(names) for names in found] == [5, 3, 3]


async def test_the_texts_of_a_read_record_do_not_change_while_the_next_ones_are_read(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a log of more records than one batch has.
    monkeypatch.setattr(export, "BATCH", 1)
    log = Database.open(url)
    read = [(found, dict(found.texts)) async for found in read_log(log, DecisionFilter())]
    await log.close()
    assert len(read[0][1]) < len(read[-1][1])
    assert all(found.texts == texts for found, texts in read)


async def test_an_empty_log_has_no_slices(log: Database) -> None:
    assert await split_log(log, DecisionFilter()) == []


@pytest.mark.parametrize("filters", [DecisionFilter(), DecisionFilter(outcome="SUCCESS")], ids=["all", "successful"])
def test_slices_report_what_one_replay_of_all_reports(url: str, threads: CountingExecutor, filters: DecisionFilter) -> None:
    expected = replay_one_by_one(url, filters)
    assert replay_with(threads, url, filters) == expected
    assert len(expected) > 3 * SIZE


@pytest.mark.usefixtures("quick_processes")
def test_two_processes_report_what_one_process_reports(url: str) -> None:
    expected = replay_one_by_one(url, DecisionFilter())
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), initializer=start_worker) as executor:
        assert replay_with(executor, url, DecisionFilter()) == expected
    assert {report["identical"] for report in expected} == {True, False}


@pytest.mark.slow
def test_a_dask_cluster_reports_what_one_process_reports_although_a_worker_is_killed(url: str, cluster: Any) -> None:
    job = ReplayJob(url, DecisionFilter())
    with client_of(cluster) as client:
        executor = client.get_executor()
        finished = run_in_order(executor, replay_slice, job, split(url), ahead=100)
        reports = next(finished)
        os.kill(next(iter(cluster.workers.values())).process.pid, signal.SIGKILL)
        for more in finished:
            reports = reports + more
    assert reports == replay_one_by_one(url, DecisionFilter())


class LosingExecutor(CountingExecutor):
    """An executor that loses the first result, as Dask's does if a worker dies while it is read."""

    def submit(self, *arguments: Any, **named: Any) -> Any:
        if self.submitted:
            return super().submit(*arguments, **named)
        self.submitted += 1
        lost: Future[str] = Future()
        lost.set_exception(ValueError("too many values to unpack (expected 3)"))
        return lost


def test_a_slice_whose_result_is_lost_is_replayed_again(url: str) -> None:
    with LosingExecutor(1) as executor:
        assert replay_with(executor, url, DecisionFilter()) == replay_one_by_one(url, DecisionFilter())
        assert executor.submitted == len(split(url)) + 1


def test_a_replay_continues_from_its_checkpoint(url: str, threads: CountingExecutor, tmp_path: Path) -> None:
    directory = tmp_path / "checkpoint"
    job = ReplayJob(url, DecisionFilter())
    slices = split(url)
    with closing(
        run_in_order(threads, replay_slice, job, slices, ahead=0, checkpoint=Checkpoint(directory, job.to_json()))
    ) as finished:
        next(finished)
        next(finished)

    before = threads.submitted
    assert replay_with(threads, url, DecisionFilter(), directory) == replay_one_by_one(url, DecisionFilter())
    assert threads.submitted - before == len(slices) - 2
    files = list(directory.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert len(files) == len(slices) + 1


def test_a_slice_that_has_gained_a_decision_is_replayed_again(url: str, tmp_path: Path) -> None:
    job = ReplayJob(url, DecisionFilter())
    checkpoint = Checkpoint(tmp_path, job.to_json())
    time_slice = split(url)[0]
    checkpoint.store(time_slice, run_part(replay_slice, job, time_slice))
    assert checkpoint.load(time_slice) is not None
    assert checkpoint.load(time_slice._replace(decisions=time_slice.decisions + 1)) is None


def test_a_checkpoint_of_another_filter_is_refused(url: str, tmp_path: Path) -> None:
    Checkpoint(tmp_path, ReplayJob(url, DecisionFilter()).to_json())
    with pytest.raises(ConfigurationError, match="results of another job"):
        Checkpoint(tmp_path, ReplayJob(url, DecisionFilter(user_id="ann")).to_json())


def test_a_replay_that_is_closed_cancels_what_waits(url: str) -> None:
    class Waiting(CountingExecutor):
        def submit(self, *arguments: Any, **named: Any) -> Any:
            waiting.append(super().submit(*arguments, **named))
            return waiting[-1]

    waiting: list[Any] = []
    with (
        Waiting(1) as executor,
        closing(run_in_order(executor, replay_slice, ReplayJob(url, DecisionFilter()), split(url), ahead=50)) as reports,
    ):
        next(reports)
    assert any(future.cancelled() for future in waiting)


def test_a_log_that_a_worker_cannot_open_ends_the_replay_with_one_sentence(url: str, tmp_path: Path) -> None:
    job = ReplayJob(f"sqlite:///{tmp_path / 'missing' / 'log.db'}", DecisionFilter())
    with pytest.raises(ConfigurationError, match="failed in its process") as failed:
        run_part(replay_slice, job, split(url)[0])
    assert str(pickle.loads(pickle.dumps(failed.value))) == str(failed.value)
