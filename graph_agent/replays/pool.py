"""Replays in other processes: in the workers of a server, which answers other requests meanwhile, and by slices of the log."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context, parent_process
from typing import Any

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.parallel import Results
from graph_agent.audit.time_slices import TimeSlice
from graph_agent.clock import ignore_result
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.graph.build import CompiledGraph, build_graph
from graph_agent.graph.step_summary import refused_in, summarize
from graph_agent.models.record import DecisionRecord
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.replays.replayer import REPLAY_SECONDS, Replayer
from graph_agent.replays.report import unreadable_report
from graph_agent.replays.sources import LoadedRecord, read_log

WORKERS = 2
_QUEUED = 2 * WORKERS
"""The number of replays that are prepared before their results are needed: enough to keep the workers busy."""
_NICENESS = 10
"""Added to the niceness of a worker, so that a server's own process comes first."""


class ReplayPool:
    """Worker processes for replays. They are started by the first replay and end with `close` or with this process."""

    def __init__(self, seconds: float = 2 * REPLAY_SECONDS, build: Callable[[], CompiledGraph] = build_graph) -> None:
        """After `seconds` the process of a replay is killed; a replay ends by itself after `REPLAY_SECONDS`.

        `build` is a function of a module that returns the engine's graph; each worker process calls it once.
        """
        self._build = build
        self._seconds = seconds
        self._executor: ProcessPoolExecutor | None = None
        self._free = asyncio.Semaphore(WORKERS)

    async def replay_all(
        self, sources: AsyncIterator[LoadedRecord], policy: str | None
    ) -> AsyncGenerator[tuple[LoadedRecord, dict[str, Any]]]:
        """Yield each record with the JSON of its report, in order. Closing the iterator drops the replays that are queued.

        `policy` is the text of another constitution. Raises `ServiceError` SERVICE_UNAVAILABLE if a worker process dies.
        """
        queued: deque[tuple[LoadedRecord, asyncio.Future[dict[str, Any]]]] = deque()
        try:
            async for found in sources:
                queued.append((found, asyncio.ensure_future(self._replay(found, policy))))
                if len(queued) > _QUEUED:
                    first, report = queued.popleft()
                    yield first, await report
            while queued:
                first, report = queued.popleft()
                yield first, await report
        finally:
            for _, report in queued:
                report.cancel()

    async def _replay(self, found: LoadedRecord, policy: str | None) -> dict[str, Any]:
        if found.record is None:
            return {**unreadable_report(found.name), "steps": []}
        if self._executor is None:
            # Spawned, not forked: the server has threads.
            self._executor = ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn"), initializer=start_worker)
        executor = self._executor
        try:
            await self._free.acquire()
            try:
                report = asyncio.wrap_future(
                    executor.submit(_replay_in_worker, self._build, found.record, dict(found.texts), policy)
                )
            except BaseException:
                self._free.release()
                raise
            # A replay that has begun is never cancelled: if its worker dies, the executor fails on a cancelled future. The
            # replay keeps its place until it ends, so that clients that disconnect leave no queue behind.
            report.add_done_callback(self._release)
            if not (await asyncio.wait({report}, timeout=self._seconds))[0]:
                # Not even its alarm has ended it. The other replays in these processes end too.
                if self._executor is executor:
                    self._executor = None
                for process in list(executor._processes):
                    os.kill(process, signal.SIGKILL)
                text = f"A replay took longer than {self._seconds:g} s, and its process was ended."
                raise ServiceError(ServiceErrorCode.QUERY_TIMEOUT, text)
            return report.result()
        except BrokenProcessPool as exc:
            if self._executor is executor:
                self._executor = None
            text = "The process that replays decisions has ended. Please try again."
            raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text) from exc

    def _release(self, report: asyncio.Future[dict[str, Any]]) -> None:
        self._free.release()
        ignore_result(report)

    @property
    def workers(self) -> list[int]:
        """The ids of the running worker processes."""
        return [] if self._executor is None else list(self._executor._processes)

    def close(self) -> None:
        """End the worker processes, after the replays that are running."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None


def start_worker() -> None:
    """Prepare a worker process: it ends with its parent, and lets other processes come first."""
    # Ctrl-C reaches every process of the terminal; the parent ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


@cache
def _replayer(build: Callable[[], CompiledGraph]) -> Replayer:
    return Replayer(graph=build())


def _replay_in_worker(
    build: Callable[[], CompiledGraph], record: DecisionRecord, texts: Mapping[str, str], policy: str | None
) -> dict[str, Any]:
    replayer = _replayer(build)
    try:
        report = asyncio.run(replayer.replay(record, texts, policy=policy, interruptible=True))
    except Exception as exc:
        # An exception that cannot be unpickled would break the pool, and with it the replays of the other users.
        raise RuntimeError(f"a replay failed: {type(exc).__name__}: {exc}") from None
    steps = [
        {"state": step.state, "outcome": step.outcome, "refused": refused_in(step), "changes": summarize(step)}
        for step in report.steps
    ]
    return {**report.to_json(), "steps": steps}


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """The replay of all decisions that match `filters`, by another constitution (`policy`) or other conditions, if any."""

    database_url: str = field(repr=False)
    filters: DecisionFilter
    policy: str | None
    conditions: ConditionsFile | None = None

    def to_json(self) -> list[Any]:
        """Return what the reports depend on, besides the log."""
        return [self.filters.to_json(), self.policy, repr(self.conditions)]


async def replay_slice(job: ReplayJob, time_slice: TimeSlice) -> Results:
    """Return the JSON of the reports of one slice, oldest decision first."""
    database, replayer = Database.open(job.database_url), Replayer()
    try:
        reports: Results = []
        async for found in read_log(database, job.filters.in_range(time_slice.since, time_slice.until)):
            if found.record is None:
                reports.append(unreadable_report(found.name))
            else:
                what_if: dict[str, Any] = {"policy": job.policy, "conditions": job.conditions}
                report = await replayer.replay(found.record, found.texts, **what_if, interruptible=True)
                reports.append(report.to_json())
        return reports
    finally:
        await database.close()
