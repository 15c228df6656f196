"""Retention: what is older than its days goes, a few decisions a transaction, so that no writer waits long.

Baselines and reports stay. A shared text goes when no decision that is left can have named it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, select

from graph_agent.record.blobs import TOUCH_EVERY
from graph_agent.record.statements import read, write
from graph_agent.record.tables import DecisionLog, LLMCallLog, RecordBlob, RecordEntryRow, ToolInvocationLog, table_of
from graph_agent.db import Database
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.record import RecordStatus

BATCH = 50
"""Decisions of one transaction: some ten milliseconds of the writer's time."""

Cut = Callable[[Connection, Sequence[str]], None]
"""Told of the decisions that are about to go, inside the transaction that removes them."""

_decisions = table_of(DecisionLog)
_blobs = table_of(RecordBlob)
_OF_A_DECISION = [table_of(model) for model in (ToolInvocationLog, LLMCallLog, RecordEntryRow)]


class PruneReport(Frozen):
    """What went."""

    before: UtcDatetime
    decisions: int
    texts: int


async def prune(
    database: Database,
    before: datetime,
    *,
    cut: Cut | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> PruneReport:
    """Remove the closed decisions that began before this time, oldest first, then the texts nobody names any more.

    `on_batch` hears how many have gone so far. Stopped half-way it has removed whole decisions, and may be run again. Raises
    `ServiceError` STORAGE_ERROR.
    """
    gone = 0
    while True:
        batch = await read(database, lambda connection: _oldest(connection, before))
        if not batch:
            break
        gone += await write(database, _removing(batch, cut))
        if on_batch is not None:
            on_batch(gone)
    return PruneReport(
        before=before, decisions=gone, texts=await write(database, lambda connection: _drop_texts(connection, before))
    )


def _oldest(connection: Connection, before: datetime) -> list[str]:
    wanted = (
        select(_decisions.c.decision_id)
        .where(_decisions.c.created_at < before, _decisions.c.status != RecordStatus.PENDING)
        .order_by(_decisions.c.created_at)
        .limit(BATCH)
    )
    return list(connection.execute(wanted).scalars())


def _removing(batch: list[str], cut: Cut | None) -> Callable[[Connection], int]:
    def work(connection: Connection) -> int:
        if cut is not None:
            cut(connection, batch)
        for table in _OF_A_DECISION:
            connection.execute(delete(table).where(table.c.decision_id.in_(batch)))
        return connection.execute(delete(_decisions).where(_decisions.c.decision_id.in_(batch))).rowcount

    return work


def _drop_texts(connection: Connection, before: datetime) -> int:
    """Texts last named before that time: every decision that named them began before it too, and is gone.

    A turn that is still open keeps them all.
    """
    still_open = select(_decisions.c.decision_id).where(
        _decisions.c.status == RecordStatus.PENDING, _decisions.c.created_at < before
    )
    if connection.execute(still_open.limit(1)).first() is not None:
        return 0
    return connection.execute(delete(_blobs).where(_blobs.c.last_used_at < before - TOUCH_EVERY)).rowcount
