"""The erasure of a user."""

from __future__ import annotations

import base64
import hashlib
import secrets
from datetime import datetime
from typing import NamedTuple

from graph_agent.audit.retention import erase_decisions
from graph_agent.chat.conversations.pruning import erase_conversations
from graph_agent.db import Database
from graph_agent.ledger.operations import erase_operations
from graph_agent.record.statements import write
from graph_agent.record.tree.service import RecordTree
from graph_agent.record.tree.statements import Statement, StatementKind
from graph_agent.task_server.tables import operations


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
