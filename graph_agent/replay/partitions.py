"""A replay of the log in partitions by time. Any process that can open the log replays a partition alone."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Generator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.partitions import Partition
from graph_agent.db import Database
from graph_agent.errors import ConfigurationError
from graph_agent.models.canonical import digest
from graph_agent.private_file import replace_private_file
from graph_agent.replay.replayer import Replayer, replay_interruptibly
from graph_agent.replay.report import unreadable_report
from graph_agent.replay.sources import read_log

Reports = list[dict[str, Any]]
"""The JSON of the reports of a partition, oldest decision first."""


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """The replay of all decisions that match `filters`; `policy` is the text of another constitution."""

    database_url: str = field(repr=False)
    filters: DecisionFilter
    policy: str | None


def replay_partition(job: ReplayJob, partition: Partition) -> Reports:
    """Replay one partition, in this process. Raises `ConfigurationError` if the log cannot be read here."""
    try:
        return asyncio.run(_replay_partition(job, partition))
    except Exception as exc:
        # Of one class that every process can unpickle: another exception would break the executor that returns it.
        raise ConfigurationError(f"decisions from {partition.since} on cannot be replayed: {exc}") from None


def replay_in_order(
    executor: Executor, job: ReplayJob, partitions: list[Partition], *, ahead: int, checkpoint: Checkpoint | None = None
) -> Generator[Reports]:
    """Yield the reports of each partition, in order, while `executor` replays the next `ahead` ones.

    Closing the iterator cancels the partitions that wait. Partitions in `checkpoint` are not replayed again.
    """
    queued: deque[tuple[Partition, Future[Reports]]] = deque()
    remaining = deque(partitions)
    try:
        while remaining or queued:
            while remaining and len(queued) <= ahead:
                partition = remaining.popleft()
                stored = checkpoint.load(partition) if checkpoint else None
                future = executor.submit(replay_partition, job, partition) if stored is None else _completed_future(stored)
                queued.append((partition, future))
            partition, future = queued[0]
            reports = future.result()
            queued.popleft()
            if checkpoint:
                checkpoint.store(partition, reports)
            yield reports
    finally:
        for _, future in queued:
            future.cancel()


class Checkpoint:
    """A directory with the reports of finished partitions, from which a later run of the same job continues.

    The constructor raises `ConfigurationError` if the directory belongs to another job or cannot be used.
    """

    def __init__(self, directory: Path, job: ReplayJob) -> None:
        self._directory = directory
        identity = digest([job.filters.to_json(), job.policy])
        manifest = directory / "job"
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not manifest.exists():
                _store(manifest, identity)
            found = manifest.read_text(encoding="utf-8")
        except OSError as exc:
            raise ConfigurationError(f"the checkpoint directory {directory} cannot be used: {exc.strerror}") from exc
        if found != identity:
            raise ConfigurationError(f"{directory} has the results of a replay with another filter or constitution")

    def load(self, partition: Partition) -> Reports | None:
        """Return the stored reports of a partition; None if it must be replayed."""
        try:
            lines = self._file(partition).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return None
        return [json.loads(line) for line in lines]

    def store(self, partition: Partition, reports: Reports) -> None:
        """Store the reports of a partition; they are complete in the directory or not in it at all."""
        file = self._file(partition)
        if not file.exists():
            _store(file, "".join(f"{json.dumps(report)}\n" for report in reports))

    def _file(self, partition: Partition) -> Path:
        # The number of decisions belongs to the name: a turn that ends late changes its partition.
        times = "_".join(f"{at:%Y%m%dT%H%M%S.%f}" for at in (partition.since, partition.until))
        return self._directory / f"{times}_{partition.decisions}.jsonl"


async def _replay_partition(job: ReplayJob, partition: Partition) -> Reports:
    database, replayer = Database.open(job.database_url), Replayer()
    try:
        reports: Reports = []
        async for found in read_log(database, job.filters.in_range(partition.since, partition.until)):
            if found.record is None:
                reports.append(unreadable_report(found.name))
            else:
                report = await replay_interruptibly(replayer, found.record, found.texts, policy=job.policy)
                reports.append(report.to_json())
        return reports
    finally:
        await database.close()


def _completed_future(reports: Reports) -> Future[Reports]:
    future: Future[Reports] = Future()
    future.set_result(reports)
    return future


def _store(file: Path, text: str) -> None:
    # Reports contain replies, which are as private as the log.
    with replace_private_file(file) as opened:
        opened.write(text.encode())
