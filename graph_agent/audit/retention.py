"""Retention: removes old decisions, a day's partition or a few rows per transaction, so that writers never wait long.

Baselines and reports stay. A shared text is removed when no remaining decision can reference it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, select, true

from graph_agent.db import Database
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.record import RecordStatus
from graph_agent.record.blobs import TOUCH_EVERY
from graph_agent.record.chain import ChainKey, Sealer
from graph_agent.record.metrics_hours import forget_hours
from graph_agent.record.partitions import drop_day, outside_of_kept_days
from graph_agent.record.settlements import remove_settlements
from graph_agent.record.statements import read, write
from graph_agent.record.tables import (
    call_operations,
    decision_logs,
    llm_call_logs,
    record_blobs,
    record_entries,
    tool_invocation_logs,
)

BATCH = 50
"""Decisions per transaction: it occupies the writer for some ten milliseconds."""

KEEP_USES = timedelta(days=2)
"""Operations are kept so much longer than decisions, because budgets count those of the day."""

MarkPruned = Callable[[Connection, Sequence[str]], None]
"""Called with the ids of the decisions to be removed, inside the transaction that removes them."""

_DEPENDENT_TABLES = (tool_invocation_logs, llm_call_logs, record_entries)


class PruneReport(Frozen):
    """The numbers of removed decisions and texts."""

    before: UtcDatetime
    decisions: int
    texts: int


async def prune(
    database: Database,
    before: datetime,
    *,
    mark: MarkPruned | None = None,
    chain_key: ChainKey = None,
    whole_days: bool = False,
    on_batch: Callable[[int], None] | None = None,
) -> PruneReport:
    """Remove the closed decisions that started before this time, oldest first, then the texts that are no longer referenced.

    On PostgreSQL whole days are dropped first, with their partitions. With `whole_days` a day is kept until all of it is
    older, so that no rows have to be deleted from its partition. `mark` marks the removed records as pruned in their chains.
    Whole days are marked with `chain_key`, which also seals the count of the settlements that are left. `on_batch` is called
    with the number of decisions removed so far. An interrupted pruning has removed only complete decisions, and can be run
    again. Raises `ServiceError` STORAGE_ERROR.
    """
    removed = 0
    while (dropped := await write(database, lambda connection: drop_day(connection, before, key=chain_key))) is not None:
        removed += dropped
        if on_batch is not None:
            on_batch(removed)
    while True:
        batch = await read(database, lambda connection: _oldest(connection, before, whole_days))
        if not batch:
            break
        removed += await write(database, _remove(batch, mark))
        if on_batch is not None:
            on_batch(removed)
    return PruneReport(
        before=before,
        decisions=removed,
        texts=await write(database, lambda connection: _remove_texts(connection, before, Sealer(chain_key))),
    )


def _oldest(connection: Connection, before: datetime, whole_days: bool) -> list[str]:
    removable = outside_of_kept_days(connection, before) if whole_days else true()
    wanted = (
        select(decision_logs.c.decision_id)
        .where(decision_logs.c.created_at < before, decision_logs.c.status != RecordStatus.PENDING, removable)
        .order_by(decision_logs.c.created_at)
        .limit(BATCH)
    )
    return list(connection.execute(wanted).scalars())


def _remove(batch: list[str], mark: MarkPruned | None) -> Callable[[Connection], int]:
    def work(connection: Connection) -> int:
        if mark is not None:
            mark(connection, batch)
        forget_hours(connection, lambda column: column.in_(batch))
        for table in _DEPENDENT_TABLES:
            connection.execute(delete(table).where(table.c.decision_id.in_(batch)))
        return connection.execute(delete(decision_logs).where(decision_logs.c.decision_id.in_(batch))).rowcount

    return work


def _remove_texts(connection: Connection, before: datetime, sealer: Sealer) -> int:
    """Remove the settlements and operations from before this time, and the texts last used before it.

    Every decision that references such a text started before this time and is removed.
    While an older turn is still open, no text is removed, because that turn may reference any of them.
    """
    remove_settlements(connection, before, sealer)
    connection.execute(delete(call_operations).where(call_operations.c.intended_at < before - KEEP_USES))
    still_open = select(decision_logs.c.decision_id).where(
        decision_logs.c.status == RecordStatus.PENDING, decision_logs.c.created_at < before
    )
    if connection.execute(still_open.limit(1)).first() is not None:
        return 0
    return connection.execute(delete(record_blobs).where(record_blobs.c.last_used_at < before - TOUCH_EVERY)).rowcount
