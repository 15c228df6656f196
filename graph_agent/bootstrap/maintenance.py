"""The jobs that one of the sweepers does: settle unknown outcomes, seal and witness the log, delete rows past their retention,
count full hours. And the erasure of a user.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from graph_agent.audit.metric_counts import count_hours
from graph_agent.audit.retention import erase_decisions, prune
from graph_agent.bootstrap.stores import Stores
from graph_agent.chat.conversations.pruning import erase_conversations, prune_conversations
from graph_agent.chat.settling import OutcomeSettler
from graph_agent.db import Database
from graph_agent.ledger.operations import OperationLedger, erase_operations
from graph_agent.ports import Clock, ToolServer
from graph_agent.record.partitions import CREATED_AHEAD, create_days
from graph_agent.record.statements import write
from graph_agent.record.tree.service import RecordTree
from graph_agent.record.tree.statements import Statement, StatementKind
from graph_agent.task_server.store import operations

KEEP_OPERATIONS = timedelta(days=60)
"""Retention of ledger rows. Longer than that of turns, because a turn that is resumed looks its operation keys up."""


def maintenance_jobs(
    stores: Stores, tools: ToolServer, tree: RecordTree, *, clock: Clock, days: int
) -> list[Callable[[], Awaitable[int]]]:
    """Return the jobs in the order in which a sweeper runs them; `days` is the retention of decisions."""

    async def prune_log() -> int:
        now = clock.now()
        return (await prune(stores.database, now - timedelta(days=days), now=now, key=tree.key, whole_days=True)).decisions

    async def create_partitions() -> int:
        now = clock.now()
        return await write(stores.database, lambda connection: create_days(connection, now, now + CREATED_AHEAD))

    return [
        OutcomeSettler(tools, stores.database, clock=clock, record_key=tree.key).settle_unknown,
        lambda: prune_conversations(stores.database, clock.now()),
        lambda: OperationLedger(stores.database, operations).prune(clock.now() - KEEP_OPERATIONS),
        create_partitions,
        # Before the pruning, which keeps what is not in the tree; what it removes is stated by a later seal.
        tree.seal,
        prune_log,
        tree.push,
        # After the pruning, which removes the counts of the oldest hour.
        lambda: count_hours(stores.database, clock.now()),
    ]


class Erased(NamedTuple):
    """The numbers of erased rows, and the receipt for the person."""

    conversations: int
    operations: int
    decisions: int
    receipt: str


async def erase_user(database: Database, tree: RecordTree, user_id: str, reason: str, now: datetime) -> Erased:
    """Erase everything about a user but the tasks, in one transaction.

    Raises `ServiceError` VALIDATION_ERROR while a turn of the user runs, or one of its decisions is open or not in the tree.
    """
    receipt = base64.b64encode(secrets.token_bytes(32)).decode()
    subject = base64.b64encode(hashlib.sha256(f"{receipt}{user_id}".encode()).digest()).decode()
    removal = Statement(statement=StatementKind.ERASED, at=now, reasons=[reason], subjects=[subject])
    return await write(
        database,
        lambda connection: Erased(
            erase_conversations(connection, user_id),
            erase_operations(connection, operations, user_id),
            erase_decisions(connection, user_id, removal, tree.key),
            receipt,
        ),
    )
