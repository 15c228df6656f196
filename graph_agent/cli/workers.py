"""The parent of the worker processes: it starts them on one listening socket, restarts dead ones, and forwards signals."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Any

from graph_agent.cli.running import DONE, FAILED, print_error

MAX_FAILED_STARTS = 5
"""The parent ends if this many workers in a row, in whichever place, end before they serve."""
FIRST_RESTART_SECONDS = 0.5
MAX_RESTART_SECONDS = 8.0
_STABLE_SECONDS = 10.0
"""A worker that has served for this long is restarted after the shortest wait."""


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    report: Connection[None, str]
    """Has one message once the worker serves."""
    started_at: float
    serves: bool = False


class WorkerGroup:
    """A number of worker processes that share a listening socket."""

    def __init__(
        self,
        count: int,
        target: Callable[..., object],
        arguments: tuple[Any, ...],
        listener: socket.socket,
        on_started: Callable[[str], None],
    ) -> None:
        """Each worker runs `target(*arguments, number, listener, report)` and sends one text to `report` once it serves.

        `on_started` is called with the text of the first one.
        """
        # Not forked: the parent may have threads, whose locks a fork would copy in any state.
        self._context = get_context("spawn")
        self._count = count
        self._target = target
        self._arguments = arguments
        self._listener = listener
        self._on_started = on_started
        self._workers: dict[int, _Worker] = {}
        self._due: dict[int, float] = {}
        """The number of each worker that is to be started -> when."""
        self._quick_ends: dict[int, int] = {}
        self._failed_starts = 0
        self._ever_served = False
        self._stopping = False
        self._exit_code = DONE

    def run(self) -> int:
        """Run the workers until SIGINT or SIGTERM, and return the exit code: failed if a worker has left a turn open."""
        with _queued_signals() as (wakeup, received):
            # The first worker starts alone: it migrates the databases, and reports once what is wrong with the settings.
            self._due[0] = time.monotonic()
            while self._workers or self._due:
                self._start_due()
                self._wait(wakeup)
                while received:
                    received.pop()
                    self._stop()
                self._read_reports()
                self._reap()
        return self._exit_code

    def _start_due(self) -> None:
        now = time.monotonic()
        for number in [number for number, at in self._due.items() if at <= now]:
            del self._due[number]
            ours, theirs = self._context.Pipe(duplex=False)
            arguments = (*self._arguments, number, self._listener, theirs)
            process = self._context.Process(target=self._target, args=arguments, name=f"graph-agent-worker-{number}")
            process.start()
            # Only the worker holds its end now, so its death closes the pipe.
            theirs.close()
            self._workers[number] = _Worker(process, ours, now)

    def _wait(self, wakeup: int) -> None:
        """Wait until a worker serves or ends, a signal arrives, or the next worker is due."""
        reports = [worker.report for worker in self._workers.values() if not worker.serves]
        sentinels = [worker.process.sentinel for worker in self._workers.values()]
        timeout = max(0.0, min(self._due.values()) - time.monotonic()) if self._due else None
        if wakeup in wait([wakeup, *reports, *sentinels], timeout):
            os.read(wakeup, 512)

    def _stop(self) -> None:
        """End all workers; on a second signal, without waiting for requests."""
        # A worker takes a second SIGINT, but no second SIGTERM, as the wish to end at once.
        sent = signal.SIGINT if self._stopping else signal.SIGTERM
        self._stopping = True
        self._due.clear()
        # A connection that no worker has accepted is reset, so the client or its proxy can go elsewhere.
        self._listener.close()
        for worker in self._workers.values():
            with suppress(ProcessLookupError):
                os.kill(worker.process.pid or 0, sent)

    def _read_reports(self) -> None:
        for worker in self._workers.values():
            model = self._read_report(worker)
            if model is None:
                continue
            worker.serves = True
            self._failed_starts = 0
            if not self._ever_served:
                self._ever_served = True
                self._on_started(model)
            if len(self._workers) < self._count and not self._stopping:
                now = time.monotonic()
                self._due = {number: now for number in range(self._count) if number not in self._workers} | self._due

    def _read_report(self, worker: _Worker) -> str | None:
        """Return what the worker has sent; None if there is nothing, or it was read before."""
        if worker.serves or not worker.report.poll():
            return None
        try:
            return worker.report.recv()
        except EOFError:
            return None

    def _reap(self) -> None:
        for number, worker in list(self._workers.items()):
            if worker.process.is_alive():
                continue
            worker.process.join()
            # It may have begun to serve after the reports were read.
            self._read_reports()
            worker.report.close()
            del self._workers[number]
            self._note_end(number, worker, worker.process.exitcode or DONE)

    def _note_end(self, number: int, worker: _Worker, code: int) -> None:
        if self._stopping:
            # One that had not served yet is ended by the signal itself, and has no turn.
            if worker.serves and code != DONE:
                self._exit_code = FAILED
            return
        if not worker.serves:
            self._failed_starts += 1
            if not self._ever_served and code > 0:
                # It has reported what is wrong, and another one would report the same.
                self._exit_code = code
                self._stop()
                return
            if self._failed_starts >= MAX_FAILED_STARTS:
                print_error(f"{MAX_FAILED_STARTS} workers in a row have {_end(code)} before they could serve")
                self._exit_code = FAILED
                self._stop()
                return
        quick = not worker.serves or time.monotonic() - worker.started_at < _STABLE_SECONDS
        self._quick_ends[number] = self._quick_ends.get(number, 0) + 1 if quick else 0
        delay = min(MAX_RESTART_SECONDS, FIRST_RESTART_SECONDS * 2 ** self._quick_ends[number])
        print_error(f"worker {number} has {_end(code)} and is restarted in {delay:g} s")
        self._due[number] = time.monotonic() + delay


def _end(code: int) -> str:
    return f"been ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


@contextmanager
def _queued_signals() -> Iterator[tuple[int, list[int]]]:
    """Append SIGINT and SIGTERM to a list instead of ending the process, and write to a pipe that wakes the waiting loop."""
    received: list[int] = []
    reading, writing = os.pipe()

    def queue(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        os.write(writing, b"\0")

    before = {number: signal.signal(number, queue) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield reading, received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
