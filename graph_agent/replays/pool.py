"""Replays in other processes: in the workers of a server, which answers other requests meanwhile, and by slices of the log."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.time_slices import TimeSlice
from graph_agent.clock import ignore_result
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.graph.build import CompiledGraph, shipped_graph
from graph_agent.graph.step_summary import refused_in, summarize
from graph_agent.replays.flow import Flow
from graph_agent.replays.parallel import Results, start_worker
from graph_agent.replays.replayer import AS_RECORDED, REPLAY_SECONDS, Replayer, WhatIf
from graph_agent.replays.sources import LoadedRecord, read_log

WORKERS = 2
_QUEUED = 2 * WORKERS
"""The number of replays that are prepared before their results are needed: enough to keep the workers busy."""
_EXIT_SECONDS = 5.0
"""The time that an idle worker has to end by itself."""


_Job = tuple[LoadedRecord, WhatIf, bool]
"""A record with the texts that it references, what is asked, and True if only its flow is."""


class ReplayPool:
    """Worker processes for replays, which `prepare` or the first replays start. They end with `close` or with this process.

    Each replay is handed to its process by a thread that waits for the report. Not a `ProcessPoolExecutor`: what is submitted
    while it notices the death of a process may be lost, and a process that it then starts waits for work for ever.
    """

    def __init__(self, seconds: float = 10 * REPLAY_SECONDS, build: Callable[[], CompiledGraph] = shipped_graph) -> None:
        """After `seconds` the process of a replay is killed; a replay ends by itself after `REPLAY_SECONDS` of CPU time.

        `build` is a function of a module that returns the engine's graph; each worker process calls it once.
        """
        self.seconds = seconds
        self._build = build
        self._threads = ThreadPoolExecutor(WORKERS, thread_name_prefix="replays")
        self._workers: set[_Worker] = set()
        self._idle: deque[_Worker] = deque()
        # The threads of two preparations would both find too few processes, and start too many.
        self._preparing = Lock()

    def prepare(self) -> None:
        """Start the worker processes in the background, so that the first replays need not wait for their imports."""
        self._threads.submit(self._start_idle)

    async def replay(self, source: LoadedRecord, what_if: WhatIf) -> dict[str, Any]:
        """Return the JSON of the report of one replay. Raises as `replay_all`."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._replay, (source, what_if, False))

    async def replay_all(
        self, sources: AsyncIterator[LoadedRecord], what_if: WhatIf = AS_RECORDED, *, flow_only: bool = False
    ) -> AsyncGenerator[tuple[LoadedRecord, dict[str, Any]]]:
        """Yield each record with the JSON of its report, or only of its flow, in order.

        Closing the iterator drops the replays that are queued.

        Raises `ServiceError` SERVICE_UNAVAILABLE if a worker process dies, and QUERY_TIMEOUT if a replay takes too long.
        """
        queued: deque[tuple[LoadedRecord, asyncio.Future[dict[str, Any]]]] = deque()
        loop = asyncio.get_running_loop()
        try:
            async for found in sources:
                queued.append((found, loop.run_in_executor(self._threads, self._replay, (found, what_if, flow_only))))
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

    def _replay(self, job: _Job) -> dict[str, Any]:
        worker: _Worker | None = None
        try:
            worker = self._take()
            report = worker.replay(job, self.seconds)
        except TimeoutError:
            # Not even its own limit has ended it.
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
        return self._start()

    def _start(self) -> _Worker:
        worker = _Worker(self._build)
        self._workers.add(worker)
        return worker

    def _start_idle(self) -> None:
        with self._preparing:
            while len(self._workers) < WORKERS:
                self._idle.append(self._start())

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
            job = jobs.recv()
            try:
                jobs.send(_report(replayer, *job))
            except Exception as exc:
                # Its text, because not every exception can be pickled.
                jobs.send(f"a replay failed: {type(exc).__name__}: {exc}")


def _report(replayer: Replayer, found: LoadedRecord, what_if: WhatIf, flow_only: bool) -> dict[str, Any]:
    report = asyncio.run(found.replay(replayer, what_if))
    flow = Flow.of(found.record, report).to_json()
    if flow_only:
        # A record that is not replayed as it was made is not tried under other rules.
        is_judged = report.identical or report.is_what_if
        ended_early = report.departure if is_judged else flow["why"]
        return {**flow, "ended_early": ended_early, "shadow": [one._asdict() for one in report.shadowed if is_judged]}
    steps = [
        {"state": step.state, "outcome": step.outcome, "refused": refused_in(step), "changes": summarize(step)}
        for step in report.steps
    ]
    return {**report.to_json(), "steps": steps, "flow": flow}


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """The replay of all decisions that match `filters`, by another policy if `what_if` has one."""

    database_url: str = field(repr=False)
    filters: DecisionFilter
    what_if: WhatIf = AS_RECORDED

    def to_json(self) -> list[Any]:
        """Return what the reports depend on, besides the log."""
        return [self.filters.to_json(), self.what_if.constitution, repr(self.what_if.conditions)]


async def replay_slice(job: ReplayJob, time_slice: TimeSlice) -> Results:
    """Return the JSON of the reports of one slice, oldest decision first."""
    database, replayer = Database.open(job.database_url), Replayer()
    try:
        found = read_log(database, job.filters.in_range(time_slice.since, time_slice.until))
        return [(await one.replay(replayer, job.what_if)).to_json() async for one in found]
    finally:
        await database.close()
