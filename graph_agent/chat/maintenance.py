"""The maintenance of a database, which is due work: one process does it each minute, and another one if that has died."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from graph_agent.db import Database
from graph_agent.due.table import BackOff, DueTable, DueWork, WorkKind
from graph_agent.due.worker import Again, DueHandler

_log = logging.getLogger(__name__)

MaintenanceJob = Callable[[], Awaitable[int]]
"""Removes or repairs rows, and returns their number."""

INTERVAL = timedelta(minutes=1)
_KEY = "maintenance"


class MaintenanceJobs:
    """The jobs of a process. They are one work, because their order matters."""

    def __init__(self, database: Database, jobs: Sequence[MaintenanceJob]) -> None:
        self._database = database
        self._due = DueTable(database)
        self._jobs = tuple(jobs)

    @property
    def handler(self) -> DueHandler:
        """The handler of the work; it serves no lane if there are no jobs."""
        lanes = ("",) if self._jobs else ()
        return DueHandler(WorkKind.JOB, self._run, slots=1, back_off=BackOff(INTERVAL, INTERVAL), lanes=lambda: lanes)

    async def add(self) -> None:
        """Make the work due now, unless it is there already."""
        if self._jobs:
            await self._database.write(lambda connection: self._due.add(connection, WorkKind.JOB, _KEY))

    async def _run(self, _work: DueWork) -> Again:
        for job in self._jobs:
            try:
                await job()
            except Exception as exc:
                _log.warning("maintenance is postponed", exc_info=exc)
        return Again(INTERVAL)
