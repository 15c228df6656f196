"""The operation ledger: a key never acts twice.

An effect and its row are one transaction. `run` acts once and repeats its answer; `settle` never acts: it learns the answer, or
voids the key so that an original that is still on its way will lose. Both end in an insert under the same primary key, so the
database decides every race; the loser is rolled back, effect and all, and reads what the winner wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, insert, select
from sqlalchemy.exc import IntegrityError

from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode
from graph_agent.task_server.models import Outcome
from graph_agent.task_server.tables import OperationState, operations

Effect = Callable[[Connection], Outcome]

_GET = select(operations).where(operations.c.key == bindparam("wanted"))
_INSERT = insert(operations)

VOIDED = Outcome.failed(ToolErrorCode.TOOL_EXECUTION_ERROR, "This operation was voided: it did not happen and never will.")
OTHER_REQUEST = Outcome.failed(
    ToolErrorCode.VALIDATION_ERROR, "This operation key belongs to another request; nothing was done."
)


@dataclass(frozen=True, slots=True)
class Operation:
    """One request under one key, and when it came."""

    key: str
    user_id: str
    tool_name: str
    request_digest: str
    at: datetime


class OperationLedger:
    """`run` and `settle` over the operations table of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self, operation: Operation, effect: Effect) -> Outcome:
        """Act once under the key; afterwards always the same answer. A failed effect leaves no row and may be tried again."""

        def once(connection: Connection) -> Outcome:
            known = _recall(connection, operation)
            if known is not None:
                return known
            outcome = effect(connection)
            if outcome.success:
                _remember(connection, operation, OperationState.DONE, outcome)
            return outcome

        return await self._decided_by_insert(once)

    async def settle(self, operation: Operation) -> Outcome:
        """The answer of an operation that took place, or `VOIDED`: then the key is void for good."""

        def once(connection: Connection) -> Outcome:
            known = _recall(connection, operation)
            if known is None:
                _remember(connection, operation, OperationState.VOID, None)
                return VOIDED
            return known

        return await self._decided_by_insert(once)

    async def _decided_by_insert(self, once: Effect) -> Outcome:
        try:
            return await self._database.write(once)
        except IntegrityError:
            # Somebody else's row came first: ours was rolled back, and this time it reads theirs.
            return await self._database.write(once)


def _recall(connection: Connection, operation: Operation) -> Outcome | None:
    row = connection.execute(_GET, {"wanted": operation.key}).first()
    if row is None:
        return None
    if (row.user_id, row.tool_name, row.request_digest) != (
        operation.user_id,
        operation.tool_name,
        operation.request_digest,
    ):
        return OTHER_REQUEST
    return VOIDED if row.state is OperationState.VOID else Outcome.model_validate_json(row.result)


def _remember(connection: Connection, operation: Operation, state: OperationState, outcome: Outcome | None) -> None:
    connection.execute(
        _INSERT,
        {
            "key": operation.key,
            "user_id": operation.user_id,
            "tool_name": operation.tool_name,
            "request_digest": operation.request_digest,
            "state": state,
            "result": None if outcome is None else outcome.to_text(),
            "created_at": operation.at,
        },
    )
