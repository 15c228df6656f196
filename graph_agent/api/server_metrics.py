"""The metrics of a server. They need the extra `otel`."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol

from graph_agent.api.turn_admission import TurnAdmission
from graph_agent.bootstrap.extras import import_extra
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.approvals import ApprovalService
from graph_agent.db import Database
from graph_agent.due.depth import Depth, find_depths, labelled
from graph_agent.due.table import Lane
from graph_agent.errors import RecordUnavailableError, ServiceError
from graph_agent.record.permit import Permit

_log = logging.getLogger(__name__)

COUNT_SECONDS = 10.0
"""The time between two counts of the open approval requests."""
DEPTH_SECONDS = 60.0
"""The time between two counts of the due work."""


class ServerMetrics(Protocol):
    """The metrics that the routes serve: a class of the integration with OpenTelemetry, which nothing imports."""

    media_type: str

    def text(self) -> bytes: ...

    def merged(self, texts: Mapping[str, str]) -> bytes: ...

    def close(self) -> None: ...


class OpenRequests:
    """The number of open approval requests of all users, which every replica reads from the database, as it does the stops.

    A scrape gets the last number and does not wait for the database.
    """

    def __init__(self, approvals: ApprovalService | None, permit: Permit) -> None:
        self._approvals = approvals
        self._permit = permit
        self.found: int | None = None
        """None if it is not known."""

    async def count_forever(self) -> None:
        """Count the open requests again and again, at first after a while."""
        while True:
            await asyncio.sleep(COUNT_SECONDS)
            await self.count()

    async def count(self) -> None:
        """Count the open requests once, and read the stops."""
        with suppress(RecordUnavailableError):
            await self._permit.renew()
        if self._approvals is None:
            return
        try:
            self.found = await self._approvals.count_open()
        except ServiceError as exc:
            self.found = None
            _log.warning("the open approval requests are counted later: %s", exc.code)

    def reading(self) -> Mapping[str, int]:
        """Return the number without a label; nothing if it is not known."""
        return {} if self.found is None else {"": self.found}


class DueDepths:
    """The due work of all processes, which is counted now and then because that reads every row."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.found: dict[Lane, Depth] = {}

    async def count_forever(self) -> None:
        """Count the work again and again, at first after a while."""
        while True:
            await asyncio.sleep(DEPTH_SECONDS)
            await self.count()

    async def count(self) -> None:
        """Count the work once."""
        try:
            self.found = labelled(await self._database.read(partial(find_depths, self._database)))
        except ServiceError as exc:
            self.found = {}
            _log.warning("the due work is counted later: %s", exc.code)


def server_metrics(runtime: Runtime, admission: TurnAdmission, open_requests: OpenRequests, depths: DueDepths) -> ServerMetrics:
    """Return the metrics of a server, which count its turns from now on. Raises `ConfigurationError` without the extra."""
    metrics = import_extra("graph_agent.integrations.opentelemetry.metrics", "otel", "--metrics-port")

    def refusals() -> Counter[str]:
        return Counter({"BUSY": admission.refused}) + Counter({key.value: n for key, n in runtime.chat.refusals.items()})

    def notices() -> Mapping[str, int]:
        return {} if runtime.chat.notices is None else runtime.chat.notices.deliveries

    found = metrics.ServerMetrics(
        gauges={
            "graph_agent_open_turns": lambda: {"": runtime.engine.open_turns},
            "graph_agent_admitted_turns": lambda: {"": admission.open.total},
            "graph_agent_admission_queue": lambda: {"": admission.open.total - admission.running.total},
            "graph_agent_approval_requests_open": open_requests.reading,
            "graph_agent_open_stops": lambda: {"": len(runtime.audit.permit.stops)},
            "graph_agent_log_rolled_back": lambda: {"": int(runtime.tree.is_rolled_back)},
        },
        refusals=refusals,
        notices=notices,
        due=lambda: depths.found,
        export=runtime.settings.otel,
    )
    runtime.engine.add_hook(lambda: found)
    served: ServerMetrics = found
    return served
