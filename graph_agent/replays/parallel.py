"""Work that is divided into parts. Each part is done by one process, and the results are returned in the order of the parts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import Executor, Future
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, Protocol, TypeVar

from graph_agent.db.private_file import replace_private_file
from graph_agent.errors import ConfigurationError
from graph_agent.models.canonical import digest

_NICENESS = 10
"""Added to the niceness of a worker, so that other processes, such as a server's own, come first."""

Results = list[dict[str, Any]]
"""The results of a part, as JSON."""


class Part(Protocol):
    """A part of a job, with a name that is a valid file name and changes when the content of the part does."""

    @property
    def name(self) -> str: ...


J = TypeVar("J")
P = TypeVar("P", bound=Part)

Work = Callable[[J, P], Coroutine[Any, Any, Results]]
"""A function that can be sent to another process, with its job and its part."""


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


def run_part(work: Work[J, P], job: J, part: P) -> str:
    """Do one part, in this process, and return its results, a line of JSON each: text is passed between processes faster.

    Raises `ConfigurationError` if the part cannot be done here.
    """
    try:
        return "".join(f"{json.dumps(result)}\n" for result in asyncio.run(work(job, part)))
    except Exception as exc:
        # Of one class that every process can unpickle: another exception would break the executor that returns it.
        raise ConfigurationError(f"the part {part.name} failed in its process: {exc}") from None


def run_in_order(
    executor: Executor, work: Work[J, P], job: J, parts: Sequence[P], *, ahead: int, checkpoint: Checkpoint | None = None
) -> Generator[Results]:
    """Yield the results of each part, in order, while `executor` does the next `ahead` ones.

    Closing the iterator cancels the parts that wait. Parts in `checkpoint` are not done again.
    """
    queued: deque[tuple[P, Future[str]]] = deque()
    remaining = deque(parts)
    try:
        while remaining or queued:
            while remaining and len(queued) <= ahead:
                part = remaining.popleft()
                stored = checkpoint.load(part) if checkpoint else None
                future = executor.submit(run_part, work, job, part) if stored is None else _completed_future(stored)
                queued.append((part, future))
            part, future = queued[0]
            try:
                lines = future.result()
            except ValueError:
                # Dask's executor raises it if a worker dies while the result of its finished part is read. No part raises it.
                lines = executor.submit(run_part, work, job, part).result()
            queued.popleft()
            if checkpoint:
                checkpoint.store(part, lines)
            yield [json.loads(line) for line in lines.splitlines()]
    finally:
        for _, future in queued:
            future.cancel()


class Checkpoint:
    """A directory with the results of finished parts, from which a later run of the same job continues.

    The constructor raises `ConfigurationError` if the directory belongs to another job or cannot be used.
    """

    def __init__(self, directory: Path, job: Any) -> None:
        """`job` is JSON that identifies the job."""
        self._directory = directory
        identity = digest(job)
        manifest = directory / "job"
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not manifest.exists():
                _store(manifest, identity)
            found = manifest.read_text(encoding="utf-8")
        except OSError as exc:
            raise ConfigurationError(f"the checkpoint directory {directory} cannot be used: {exc.strerror}") from exc
        if found != identity:
            raise ConfigurationError(f"{directory} has the results of another job: other options, cases or constitution")

    def load(self, part: Part) -> str | None:
        """Return the stored lines of a part; None if it must be done."""
        try:
            return self._file(part).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def store(self, part: Part, lines: str) -> None:
        """Store the lines of a part; they are complete in the directory or not in it at all."""
        file = self._file(part)
        if not file.exists():
            _store(file, lines)

    def _file(self, part: Part) -> Path:
        return self._directory / f"{part.name}.jsonl"


def _completed_future(lines: str) -> Future[str]:
    future: Future[str] = Future()
    future.set_result(lines)
    return future


def _store(file: Path, text: str) -> None:
    # Results contain replies, which are as private as the log.
    with replace_private_file(file) as opened:
        opened.write(text.encode())
