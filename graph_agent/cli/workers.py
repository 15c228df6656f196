"""The parent of the worker processes: it starts them on one listening socket, restarts dead ones, and forwards signals."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
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


@dataclass(slots=True)
class WorkerGroup:
    """A number of worker processes that share a listening socket.

    Each worker runs `target(*arguments, number, listener, report)` and sends one text to `report` once it serves.
    """

    count: int
    target: Callable[..., object]
    arguments: tuple[Any, ...]
    listener: socket.socket
    on_started: Callable[[str], None]
    """Called with the text of the first one."""
    _workers: dict[int, _Worker] = field(default_factory=dict, init=False)
    _due: dict[int, float] = field(default_factory=dict, init=False)
    """The number of each worker that is to be started -> when."""
    _quick_ends: Counter[int] = field(default_factory=Counter, init=False)
    _failed_starts: int = field(default=0, init=False)
    _ever_served: bool = field(default=False, init=False)
    _stopping: bool = field(default=False, init=False)
    _exit_code: int = field(default=DONE, init=False)

    def run(self) -> int:
        """Run the workers until SIGINT or SIGTERM, and return the exit code: failed if a worker has left a turn open."""
        with _queued_signals() as wakeup:
            self._due = dict.fromkeys(range(self.count), time.monotonic())
            while self._workers or self._due:
                self._start_due()
                for _signal in self._wait(wakeup):
                    self._stop()
                self._read_reports()
                self._reap()
        return self._exit_code

    def _start_due(self) -> None:
        # Not forked: the parent may have threads, whose locks a fork would copy in any state.
        context, now = get_context("spawn"), time.monotonic()
        for number in [number for number, at in self._due.items() if at <= now]:
            del self._due[number]
            ours, theirs = context.Pipe(duplex=False)
            arguments = (*self.arguments, number, self.listener, theirs)
            process = context.Process(target=self.target, args=arguments, name=f"graph-agent-worker-{number}")
            process.start()
            # Only the worker holds its end now, so its death closes the pipe.
            theirs.close()
            self._workers[number] = _Worker(process, ours, now)

    def _wait(self, wakeup: int) -> bytes:
        """Wait until a worker serves or ends, a signal arrives, or the next worker is due. Return a byte for each signal."""
        reports = [worker.report for worker in self._workers.values() if not worker.serves]
        sentinels = [worker.process.sentinel for worker in self._workers.values()]
        timeout = max(0.0, min(self._due.values()) - time.monotonic()) if self._due else None
        return os.read(wakeup, 512) if wakeup in wait([wakeup, *reports, *sentinels], timeout) else b""

    def _stop(self) -> None:
        """End all workers; on a second signal, without waiting for requests."""
        # A worker takes a second SIGINT, but no second SIGTERM, as the wish to end at once.
        sent = signal.SIGINT if self._stopping else signal.SIGTERM
        self._stopping = True
        self._due.clear()
        # A connection that no worker has accepted is reset, so the client or its proxy can go elsewhere.
        self.listener.close()
        for worker in self._workers.values():
            with suppress(ProcessLookupError):
                os.kill(worker.process.pid or 0, sent)

    def _read_reports(self) -> None:
        for worker in self._workers.values():
            if worker.serves or not worker.report.poll():
                continue
            try:
                model = worker.report.recv()
            except EOFError:
                # It has died; its end is noted when it is reaped.
                continue
            worker.serves = True
            self._failed_starts = 0
            if not self._ever_served:
                self._ever_served = True
                self.on_started(model)

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
            # It has reported what is wrong, and another one would report the same.
            is_reported = not self._ever_served and code > 0
            if is_reported or self._failed_starts >= MAX_FAILED_STARTS:
                if not is_reported:
                    print_error(f"{MAX_FAILED_STARTS} workers in a row have {_end(code)} before they could serve")
                self._exit_code = code if is_reported else FAILED
                self._stop()
                return
        quick = not worker.serves or time.monotonic() - worker.started_at < _STABLE_SECONDS
        self._quick_ends[number] = self._quick_ends[number] + 1 if quick else 0
        delay = min(MAX_RESTART_SECONDS, FIRST_RESTART_SECONDS * 2 ** self._quick_ends[number])
        print_error(f"worker {number} has {_end(code)} and is restarted in {delay:g} s")
        self._due[number] = time.monotonic() + delay


def _end(code: int) -> str:
    return f"been ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


@contextmanager
def _queued_signals() -> Iterator[int]:
    """Queue SIGINT and SIGTERM in a pipe, one byte for each, instead of ending the process. Yield its reading end."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    # Python writes the byte; the handler only replaces the default action. First the pipe, so that no signal gets lost.
    descriptor = signal.set_wakeup_fd(writing)
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield reading
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(descriptor)
        os.close(reading)
        os.close(writing)
