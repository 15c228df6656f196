"""Replays in other processes: in the workers of a server, which answers other requests meanwhile, and by slices of the log."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.parallel import Results, start_worker
from graph_agent.audit.time_slices import TimeSlice
from graph_agent.clock import ignore_result
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.graph.build import CompiledGraph, build_graph
from graph_agent.graph.step_summary import refused_in, summarize
from graph_agent.models.record import DecisionRecord
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.replays.flow import Fate, Flow
from graph_agent.replays.replayer import REPLAY_SECONDS, Replayer
from graph_agent.replays.report import unreadable_report
from graph_agent.replays.sources import LoadedRecord, read_log

WORKERS = 2
_QUEUED = 2 * WORKERS
"""The number of replays that are prepared before their results are needed: enough to keep the workers busy."""
_EXIT_SECONDS = 5.0
"""The time that an idle worker has to end by itself."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The question about each decision."""

    policy: str | None = None
    """The text of another constitution to decide by."""
    conditions: ConditionsFile | None = None
    """Other conditions to decide by."""
    flow_only: bool = False
    """True for the flow of the decision instead of the whole report."""


_Job = tuple[DecisionRecord, dict[str, str], WhatIf]
"""A record, the texts that it references, and what is asked."""


class ReplayPool:
    """Worker processes for replays. They are started by the first replays and end with `close` or with this process.

    Each replay is handed to its process by a thread that waits for the report. Not a `ProcessPoolExecutor`: what is submitted
    while it notices the death of a process may be lost, and a process that it then starts waits for work for ever.
    """

    def __init__(self, seconds: float = 2 * REPLAY_SECONDS, build: Callable[[], CompiledGraph] = build_graph) -> None:
        """After `seconds` the process of a replay is killed; a replay ends by itself after `REPLAY_SECONDS`.

        `build` is a function of a module that returns the engine's graph; each worker process calls it once.
        """
        self.seconds = seconds
        self._build = build
        self._threads = ThreadPoolExecutor(WORKERS, thread_name_prefix="replays")
        self._workers: set[_Worker] = set()
        self._idle: deque[_Worker] = deque()

    async def replay_all(
        self, sources: AsyncIterator[LoadedRecord], asked: WhatIf = WhatIf()
    ) -> AsyncGenerator[tuple[LoadedRecord, dict[str, Any]]]:
        """Yield each record with the JSON of its report, in order. Closing the iterator drops the replays that are queued.

        Raises `ServiceError` SERVICE_UNAVAILABLE if a worker process dies, and QUERY_TIMEOUT if a replay takes too long.
        """
        queued: deque[tuple[LoadedRecord, asyncio.Future[dict[str, Any]]]] = deque()
        try:
            async for found in sources:
                queued.append((found, self._submit(found, asked)))
                if len(queued) > _QUEUED:
                    first, report = queued.popleft()
                    yield first, await report
            while queued:
                first, report = queued.popleft()
                yield first, await report
        finally:
            # One that has begun keeps its process until it ends, so that clients that disconnect leave no queue behind.
            for _, report in queued:
                if not report.cancel():
                    ignore_result(report)

    def _submit(self, found: LoadedRecord, asked: WhatIf) -> asyncio.Future[dict[str, Any]]:
        loop = asyncio.get_running_loop()
        if found.record is None:
            unreadable: asyncio.Future[dict[str, Any]] = loop.create_future()
            report = unreadable_report(found.name)
            flow = Flow(Fate.UNKNOWN, Fate.UNKNOWN, why=report["departure"]).to_json()
            unreadable.set_result(flow if asked.flow_only else {**report, "steps": [], "flow": flow})
            return unreadable
        return loop.run_in_executor(self._threads, self._replay, (found.record, dict(found.texts), asked))

    def _replay(self, job: _Job) -> dict[str, Any]:
        worker: _Worker | None = None
        try:
            worker = self._take()
            report = worker.replay(job, self.seconds)
        except TimeoutError:
            # Not even its alarm has ended it.
            self._kill(worker)
            text = f"A replay took longer than {self.seconds:g} s, and its process was ended."
            raise ServiceError(ServiceErrorCode.QUERY_TIMEOUT, text) from None
        except (EOFError, OSError) as exc:
            self._kill(worker)
            text = "The process that replays decisions has ended. Please try again."
            raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text) from exc
        self._idle.append(worker)
        if isinstance(report, str):
            raise RuntimeError(report)
        return report

    def _take(self) -> _Worker:
        """Return an idle process, or a new one."""
        with suppress(IndexError):
            while not (worker := self._idle.pop()).is_alive():
                self._workers.discard(worker)
            return worker
        worker = _Worker(self._build)
        self._workers.add(worker)
        return worker

    def _kill(self, worker: _Worker | None) -> None:
        if worker is not None:
            self._workers.discard(worker)
            worker.kill()

    @property
    def workers(self) -> list[int]:
        """The ids of the running worker processes."""
        return [worker.pid for worker in tuple(self._workers)]

    def close(self) -> None:
        """End the worker processes, after the replays that are running."""
        self._threads.shutdown(cancel_futures=True)
        while self._workers:
            self._workers.pop().close()


class _Worker:
    """A process that runs one replay after another."""

    def __init__(self, build: Callable[[], CompiledGraph]) -> None:
        # Spawned, not forked: the server has threads.
        context = get_context("spawn")
        self._jobs, other_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(other_end, build), daemon=True)
        self._process.start()
        # Only the process has it now, so its death ends the wait for a report.
        other_end.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def replay(self, job: _Job, seconds: float) -> dict[str, Any] | str:
        """Return the report, or the text of an exception.

        Raises `TimeoutError`, and `EOFError` or `OSError` if the process has died.
        """
        self._jobs.send(job)
        if not self._jobs.poll(seconds):
            raise TimeoutError
        report: dict[str, Any] | str = self._jobs.recv()
        return report

    def close(self) -> None:
        """End the process, which runs no replay and notices that there are no more."""
        self._jobs.close()
        self._process.join(_EXIT_SECONDS)
        self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._jobs.close()


def _serve(jobs: Connection[dict[str, Any] | str, _Job], build: Callable[[], CompiledGraph]) -> None:
    start_worker()
    replayer = Replayer(graph=build())
    with suppress(EOFError):
        while True:
            record, texts, asked = jobs.recv()
            try:
                jobs.send(_report(replayer, record, texts, asked))
            except Exception as exc:
                # Its text, because not every exception can be pickled.
                jobs.send(f"a replay failed: {type(exc).__name__}: {exc}")


def _report(replayer: Replayer, record: DecisionRecord, texts: Mapping[str, str], asked: WhatIf) -> dict[str, Any]:
    what_if: dict[str, Any] = {"policy": asked.policy, "conditions": asked.conditions}
    report = asyncio.run(replayer.replay(record, texts, **what_if, interruptible=True))
    flow = Flow.of(report).to_json()
    if asked.flow_only:
        return flow
    steps = [
        {"state": step.state, "outcome": step.outcome, "refused": refused_in(step), "changes": summarize(step)}
        for step in report.steps
    ]
    return {**report.to_json(), "steps": steps, "flow": flow}


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
