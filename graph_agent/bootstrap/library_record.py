"""A stored record for an engine of your own, in LangGraph, in LangChain or alone: `open_record`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from graph_agent.bootstrap.approvals import open_approvals
from graph_agent.bootstrap.maintenance import record_jobs, verify_installation
from graph_agent.bootstrap.plan_solver import plan_solver
from graph_agent.bootstrap.record_tree import record_tree, seal_if_possible
from graph_agent.bootstrap.secret import record_keys, signing_keys
from graph_agent.bootstrap.stores import Stores, open_stores
from graph_agent.clock import SystemClock
from graph_agent.errors import GraphAgentError
from graph_agent.policy.signature import Signer
from graph_agent.ports import Clock
from graph_agent.question.approvals import OpensRequests
from graph_agent.question.confirmations import ConfirmationStore
from graph_agent.record.tamper.violations import VerifyReport
from graph_agent.record.tree.service import RecordTree
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.settings import read_settings
from graph_agent.turn.setup import EnginePorts

_log = logging.getLogger(__name__)

MAINTENANCE_SECONDS = 10.0
"""The time between two sealings while the record is open."""


@dataclass(frozen=True)
class LibraryRecord:
    """An open record. Any number of engines may share it, of this process and of others."""

    ports: EnginePorts
    """The ports of an engine whose turns are recorded, whose confirmations are stored, and whose uses are counted."""
    _stores: Stores
    _tree: RecordTree

    async def verify(self) -> VerifyReport:
        """Seal what waits, and verify the record as `graph-agent log verify` does. Raises `ServiceError`."""
        await self._tree.seal()
        return await verify_installation(self._stores.database, self._tree, reads=self._stores.database, shipped_tools=False)


@asynccontextmanager
async def open_record(url: str | None = None, *, clock: Clock | None = None) -> AsyncGenerator[LibraryRecord]:
    """Open the record in the database at `url`, such as `sqlite:///record.db`; by default that of the commands.

    The tables are created or updated. While the record is open, and when it is closed, its decisions are sealed into the signed
    tree, with the keys in GRAPH_AGENT_HOME. `DATABASE_URL=URL graph-agent log verify`, `log show` and `replay` read it. Raises
    `ConfigurationError`.
    """
    settings = read_settings()
    if url is not None:
        settings = settings.model_copy(update={"database_url": url, "log_read_url": ""})
    clock = clock or SystemClock()
    async with open_stores(settings) as stores:
        tree = record_tree(settings, stores.database, clock)
        approvals = open_approvals(settings, stores.database, tree.keys.origin)
        turn, keys = OpensRequests(approvals), record_keys(settings)
        ports = EnginePorts(
            DatabaseAuditWriter(stores.database, clock=clock, record_key=keys, turn=turn),
            clock,
            signer=Signer(*signing_keys(settings)),
            confirmations=ConfirmationStore(stores.database, record_key=keys),
            approvals=approvals,
            permitted=plan_solver(),
        )
        maintained = asyncio.create_task(_maintain(record_jobs(stores, tree, clock=clock)))
        try:
            yield LibraryRecord(ports, stores, tree)
        finally:
            maintained.cancel()
            await asyncio.wait({maintained})
            await seal_if_possible(tree)


async def _maintain(jobs: Sequence[Callable[[], Awaitable[int]]]) -> None:
    while True:
        await asyncio.sleep(MAINTENANCE_SECONDS)
        for job in jobs:
            try:
                await job()
            except GraphAgentError as exc:
                _log.warning("the maintenance of the record goes on later: %s", exc)
