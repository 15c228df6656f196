"""Retention: removes old decisions, a day's partition or a few rows per transaction, so that writers never wait long.

Baselines and reports stay. A shared text is removed when no remaining decision can reference it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, select, true

from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.record import tables
from graph_agent.record.blobs import TOUCH_EVERY
from graph_agent.record.mandates import forget_mandates, prune_mandates
from graph_agent.record.metrics_hours import forget_hours
from graph_agent.record.partitions import drop_day, outside_of_kept_days
from graph_agent.record.rule_sets import forget_operator
from graph_agent.record.search import begin_compaction, compact, continue_compaction
from graph_agent.record.settlements import OF_DECISION, remove_settlements
from graph_agent.record.statements import read, write
from graph_agent.record.stops import forget_user
from graph_agent.record.tables import decision_logs, record_blobs, reports_table
from graph_agent.record.tree.leaves import RecordKey, Sealer
from graph_agent.record.tree.statements import Statement, StatementKind, note_removal
from graph_agent.record.tree.tables import LeafKind, record_leaves

BATCH = 50
"""Decisions per transaction: it occupies the writer for some ten milliseconds."""

KEEP_USES = timedelta(days=2)
"""Operations are kept so much longer than decisions, because budgets count those of the day."""

_DEPENDENT_TABLES = (tables.tool_invocation_logs, tables.record_entries)
IN_TREE = (
    select(record_leaves.c.n)
    .where(record_leaves.c.item == decision_logs.c.decision_id, record_leaves.c.kind == LeafKind.DECISION)
    .exists()
)
"""The condition that a decision has a leaf of the tree: only then may it be removed."""


class PruneReport(Frozen):
    """The numbers of removed decisions and texts."""

    before: UtcDatetime
    decisions: int
    texts: int


async def prune(
    database: Database,
    before: datetime,
    *,
    now: datetime,
    key: RecordKey = None,
    whole_days: bool = False,
    on_batch: Callable[[int], None] = lambda _removed: None,
) -> PruneReport:
    """Remove the closed decisions that started before this time, oldest first, then the texts that are no longer referenced.

    On PostgreSQL whole days are dropped first, with their partitions. With `whole_days` a day is kept until all of it is
    older, so that no rows have to be deleted from its partition. Decisions that are not in the tree yet are kept. The removals
    are noted with a MAC under `key`, for the statement of the day. `on_batch` is called with the number of decisions removed
    so far. An interrupted pruning has removed only complete decisions, and can be run again. Raises `ServiceError`
    STORAGE_ERROR.
    """
    pruning = _Pruning(Statement(statement=StatementKind.PRUNED, at=now, before=before), Sealer(key))
    removed = 0
    while (dropped := await write(database, lambda connection: drop_day(connection, before, pruning.note_day))) is not None:
        removed += dropped
        on_batch(removed)
    since: datetime | None = None
    while batch := await read(database, lambda connection: _oldest(connection, since, before, whole_days)):  # noqa: B023 (awaited in this pass)
        removed += await write(database, partial(pruning.remove, batch=[row.decision_id for row in batch]))
        # What has to stay is passed once.
        since = batch[-1].created_at
        on_batch(removed)
    await write(database, lambda connection: prune_mandates(connection, before))
    texts = await write(database, lambda connection: pruning.remove_texts(connection, before))
    await write(database, begin_compaction)
    while await write(database, continue_compaction):
        pass
    return PruneReport(before=before, decisions=removed, texts=texts)


async def count_removable(database: Database, before: datetime) -> int:
    """Return the number of decisions that `prune` would remove. Raises `ServiceError` STORAGE_ERROR."""
    removable = select(func.count()).select_from(decision_logs).where(decision_logs.c.created_at < before, IN_TREE)
    return await read(database, lambda connection: connection.execute(removable).scalar_one())


@dataclass(frozen=True, slots=True)
class _Pruning:
    """The steps of a pruning, each in one transaction."""

    removal: Statement
    sealer: Sealer

    def note_day(self, connection: Connection, of_day: ColumnElement[bool]) -> bool:
        """Note that the decisions of a day are removed; return False if one of them is not in the tree yet."""
        if _any_outside_of_tree(connection, of_day):
            return False
        note_removal(connection, LeafKind.DECISION, _ids(connection, of_day), self.removal, self.sealer)
        return True

    def remove(self, connection: Connection, batch: list[str]) -> int:
        """Remove some decisions; return their number."""
        note_removal(connection, LeafKind.DECISION, batch, self.removal, self.sealer)
        return remove_decisions(connection, batch)

    def remove_texts(self, connection: Connection, before: datetime) -> int:
        """Remove the settlements and operations of removed decisions from before this time, and the texts last used before it.

        Return the number of texts.

        Every decision that references such a text started before this time and is removed.
        While an older turn is still open, no text is removed, because that turn may reference any of them.
        """
        settled = (reports_table.c.created_at < before) & ~_is_kept(OF_DECISION)
        remove_settlements(connection, settled, self.removal, self.sealer)
        operations = tables.call_operations.c
        old = (operations.intended_at < before - KEEP_USES) & ~_is_kept(operations.decision_id)
        connection.execute(delete(tables.call_operations).where(old))
        if _any_outside_of_tree(connection, decision_logs.c.created_at < before):
            return 0
        return connection.execute(delete(record_blobs).where(record_blobs.c.last_used_at < before - TOUCH_EVERY)).rowcount


def erase_decisions(connection: Connection, user_id: str, removal: Statement, key: RecordKey) -> int:
    """Remove all decisions of a user and their settlements; return the number of decisions. `removal` will be stated.

    Raises `ServiceError` VALIDATION_ERROR while one of them is open, is not in the tree, or has a call with unknown outcome.
    """
    of_user = decision_logs.c.user_id == user_id
    if _any_outside_of_tree(connection, of_user):
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, "The user has a decision that is open or not in the tree yet.")
    ids = _ids(connection, of_user)
    note_removal(connection, LeafKind.DECISION, ids, removal, Sealer(key))
    settled = OF_DECISION.in_(select(decision_logs.c.decision_id).where(of_user))
    remove_settlements(connection, settled, removal.replace(subjects=None), Sealer(key))
    connection.execute(delete(tables.call_operations).where(tables.call_operations.c.user_id == user_id))
    forget_user(connection, user_id)
    forget_operator(connection, user_id)
    forget_mandates(connection, user_id)
    removed = remove_decisions(connection, ids)
    # In the same transaction: no word of the user stays in the index after it.
    compact(connection)
    return removed


def remove_decisions(connection: Connection, decision_ids: Sequence[str]) -> int:
    """Delete all rows of some decisions; return the number of decisions."""
    forget_hours(connection, lambda column: column.in_(decision_ids))
    for table in _DEPENDENT_TABLES:
        connection.execute(delete(table).where(table.c.decision_id.in_(decision_ids)))
    return connection.execute(delete(decision_logs).where(decision_logs.c.decision_id.in_(decision_ids))).rowcount


def _is_kept(decision_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a decision is still stored: its state is compared with its settlements and operations."""
    return select(decision_logs.c.decision_id).where(decision_logs.c.decision_id == decision_id).exists()


def _any_outside_of_tree(connection: Connection, condition: ColumnElement[bool]) -> bool:
    """True if any of these decisions is still open, or not in the tree yet."""
    return connection.execute(select(decision_logs.c.decision_id).where(condition, ~IN_TREE).limit(1)).first() is not None


def _ids(connection: Connection, condition: ColumnElement[bool]) -> list[str]:
    return list(connection.execute(select(decision_logs.c.decision_id).where(condition)).scalars())


def _oldest(connection: Connection, since: datetime | None, before: datetime, whole_days: bool) -> Sequence[Any]:
    removable = outside_of_kept_days(connection, before) if whole_days else true()
    continued = true() if since is None else decision_logs.c.created_at >= since
    wanted = (
        select(decision_logs.c.decision_id, decision_logs.c.created_at)
        .where(decision_logs.c.created_at < before, continued, IN_TREE, removable)
        .order_by(decision_logs.c.created_at)
        .limit(BATCH)
    )
    return connection.execute(wanted).all()
