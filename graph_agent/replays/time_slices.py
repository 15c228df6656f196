"""A replay of the log in slices of time. Any process that can open the log replays a slice alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.parallel import Results
from graph_agent.audit.time_slices import TimeSlice
from graph_agent.db import Database
from graph_agent.replays.replayer import Replayer, replay_interruptibly
from graph_agent.replays.report import unreadable_report
from graph_agent.replays.sources import read_log


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """The replay of all decisions that match `filters`; `policy` is the text of another constitution."""

    database_url: str = field(repr=False)
    filters: DecisionFilter
    policy: str | None

    def to_json(self) -> list[Any]:
        """Return what the reports depend on, besides the log."""
        return [self.filters.to_json(), self.policy]


async def replay_slice(job: ReplayJob, time_slice: TimeSlice) -> Results:
    """Return the JSON of the reports of one slice, oldest decision first."""
    database, replayer = Database.open(job.database_url), Replayer()
    try:
        reports: Results = []
        async for found in read_log(database, job.filters.in_range(time_slice.since, time_slice.until)):
            if found.record is None:
                reports.append(unreadable_report(found.name))
            else:
                report = await replay_interruptibly(replayer, found.record, found.texts, policy=job.policy)
                reports.append(report.to_json())
        return reports
    finally:
        await database.close()
