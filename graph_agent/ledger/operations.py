"""The operation ledger: a key takes effect at most once.

An effect and its ledger row are written in one transaction. `run` performs the effect once and returns the stored result from
then on. `settle` never performs the effect: it returns the stored result, or voids the key, so that a call which arrives later
has no effect. Both insert a row under the same primary key, so the database decides every race: the transaction of the loser,
including its effect, is rolled back, and the loser then reads the row of the winner.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from sqlalchemy import CheckConstraint, Column, Connection, MetaData, String, Table, Text, bindparam, delete, insert, select
from sqlalchemy.exc import IntegrityError

from graph_agent.clock import RandomIds
from graph_agent.db import Database, PreparedStatement, UtcDateTime, delete_pages, enum_by_value, read_pages
from graph_agent.errors import ToolErrorCode
from graph_agent.ledger.protocol import OperationMeta, ResultEnvelope
from graph_agent.models.canonical import digest

logger = logging.getLogger(__name__)

Effect = Callable[[Connection], ResultEnvelope]

_AGENT_KEY = re.compile("[0-9a-f-]{36}:[0-9]+")

LONGEST_TURN = timedelta(hours=1)
"""An operation takes effect at most this long after its decision was opened."""

VOIDED = ResultEnvelope.failed(
    ToolErrorCode.TOOL_EXECUTION_ERROR, "This operation was voided: it did not happen and never will."
)
UNREADABLE = ResultEnvelope.failed(ToolErrorCode.UNKNOWN_ERROR, "The stored result of this operation cannot be read.")
OTHER_REQUEST = ResultEnvelope.failed(
    ToolErrorCode.VALIDATION_ERROR, "This operation key belongs to another request; nothing was done."
)


class OperationState(StrEnum):
    """DONE: the effect was committed with the stored result. VOID: it did not take place and never will."""

    DONE = "DONE"
    VOID = "VOID"


def operations_table(metadata: MetaData, name: str = "operations") -> Table:
    """Add the table of operations to `metadata`, so that it is created in the database of the effects."""
    return Table(
        name,
        metadata,
        Column("key", String(255), primary_key=True),
        Column("user_id", String(255), nullable=False),
        Column("tool_name", String(64), nullable=False),
        Column("request_digest", String(64), nullable=False),
        Column("state", enum_by_value(OperationState, "state"), nullable=False),
        # The exact text of the answer, so that a repeated call returns the same bytes.
        Column("result", Text),
        Column("created_at", UtcDateTime, nullable=False),
        CheckConstraint("(state = 'DONE') = (result IS NOT NULL)", name="result_iff_done"),
    )


@dataclass(frozen=True)
class Operation:
    """One request under one key, with the time of its arrival."""

    key: str
    user_id: str
    tool_name: str
    request_digest: str
    created_at: datetime

    @classmethod
    def requested(cls, meta: OperationMeta | None, user_id: str, tool_name: str, arguments: Any, at: datetime) -> Self:
        """Return the operation of a request. Raises ValueError for arguments that are not JSON."""
        # A call without a key gets a new one, so that every effect has a ledger row.
        key = RandomIds().new() if meta is None else meta.key
        return cls(key, user_id, tool_name, digest(arguments), at)


class OperationLedger:
    """Runs and settles operations on one operations table of a database."""

    def __init__(self, database: Database, operations: Table) -> None:
        """`operations` is made by `operations_table`, and exists in the database."""
        self._database = database
        self._table = operations
        self._get = PreparedStatement(select(operations).where(operations.c.key == bindparam("wanted")))
        self._insert = PreparedStatement(insert(operations))

    async def answer(self, meta: OperationMeta | None, operation: Operation, effect: Effect) -> ResultEnvelope:
        """Settle the operation if its request says so, else run it."""
        return await (self.run(operation, effect) if meta is None or meta.mode == "run" else self.settle(operation))

    async def run(self, operation: Operation, effect: Effect) -> ResultEnvelope:
        """Perform the effect and return its result, or return the stored one. A failed effect leaves no row."""

        def once(connection: Connection) -> ResultEnvelope:
            stored = self._stored_result(connection, operation)
            if stored is not None:
                return stored
            result = effect(connection)
            if result.success:
                self._store(connection, operation, OperationState.DONE, result)
            return result

        return await self._retry_after_conflict(once)

    async def settle(self, operation: Operation) -> ResultEnvelope:
        """Return the stored result of the operation; if there is none, void the key for good and return `VOIDED`."""

        def once(connection: Connection) -> ResultEnvelope:
            stored = self._stored_result(connection, operation)
            if stored is None:
                self._store(connection, operation, OperationState.VOID, None)
                return VOIDED
            return stored

        return await self._retry_after_conflict(once)

    async def prune(self, before: datetime) -> int:
        """Forget the operations from before this time, a few in each transaction; return their number."""
        return await delete_pages(self._database.write, self._table.c.key, self._table.c.created_at < before)

    async def deciding(self) -> AsyncIterator[list[tuple[str, datetime]]]:
        """Yield the key of every operation that took effect, and a time at which its decision had started, in pages.

        The keys of an agent are DECISION:NUMBER. Operations under other keys, as of a confirmed call, are left out.
        """
        columns = self._table.c
        done = select(columns.key, columns.created_at).where(columns.state == OperationState.DONE, columns.key.like("%:%"))
        async for page in read_pages(self._database.read, done, columns.key):
            yield [(key, at - LONGEST_TURN) for key, at in page if _AGENT_KEY.fullmatch(key)]

    async def absent(self, keys: Sequence[str]) -> set[str]:
        """Return those of `keys` whose operation did not take effect, as far as the ledger knows."""
        done = select(self._table.c.key).where(self._table.c.key.in_(list(keys)), self._table.c.state == OperationState.DONE)
        return set(keys) - set(await self._database.read(lambda connection: connection.execute(done).scalars().all()))

    async def _retry_after_conflict(self, once: Effect) -> ResultEnvelope:
        try:
            return await self._database.write(once)
        except IntegrityError:
            # Another transaction inserted its row first. This one was rolled back; the second run reads that row.
            return await self._database.write(once)

    def _stored_result(self, connection: Connection, operation: Operation) -> ResultEnvelope | None:
        row = self._get.first(connection, {"wanted": operation.key})
        if row is None:
            return None
        request = (operation.user_id, operation.tool_name, operation.request_digest)
        if (row.user_id, row.tool_name, row.request_digest) != request:
            return OTHER_REQUEST
        if row.state is OperationState.VOID:
            return VOIDED
        try:
            return ResultEnvelope.model_validate_json(row.result)
        except ValueError:
            logger.error("the stored result of the operation %s cannot be read", operation.key)
            return UNREADABLE

    def _store(
        self, connection: Connection, operation: Operation, state: OperationState, result: ResultEnvelope | None
    ) -> None:
        text = None if result is None else result.to_text()
        self._insert.run(connection, {**vars(operation), "state": state, "result": text})


def erase_operations(connection: Connection, operations: Table, user_id: str) -> int:
    """Forget the operations of a user, whose turns have all ended; return their number."""
    return connection.execute(delete(operations).where(operations.c.user_id == user_id)).rowcount
