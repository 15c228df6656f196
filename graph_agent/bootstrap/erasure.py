"""The erasure of a user, and what stays about the user elsewhere: in the tasks, and at the tool servers."""

from __future__ import annotations

import base64
import hashlib
import secrets
from datetime import datetime
from typing import Any, NamedTuple

from graph_agent.audit.retention import erase_decisions
from graph_agent.bootstrap.toolbox import open_tools
from graph_agent.chat.conversations.pruning import erase_conversations
from graph_agent.db import Database
from graph_agent.due.table import DueTable
from graph_agent.ledger.operations import erase_operations
from graph_agent.question.approvals import open_ids
from graph_agent.record.statements import write
from graph_agent.record.tree.service import RecordTree
from graph_agent.record.tree.statements import Statement, StatementKind
from graph_agent.reply.text import counted
from graph_agent.settings import Settings
from graph_agent.task_server.store import list_newest_first, operations

_COPIES = "Replicas, backups, exports and WAL files are not erased by this command."


class Erased(NamedTuple):
    """The numbers of erased rows, the approval requests that waited, and the receipt for the person."""

    open_requests: list[str]
    conversations: int
    operations: int
    decisions: int
    receipt: str


class _DryRun(Exception):  # noqa: N818 (it ends a transaction that is only tried)
    """Rolls an erasure back; `erased` is what it would have erased."""

    def __init__(self, erased: Erased) -> None:
        super().__init__()
        self.erased = erased


async def erase_user(
    database: Database, tree: RecordTree, user_id: str, reason: str, now: datetime, *, dry_run: bool = False
) -> Erased:
    """Erase everything about a user but the tasks, in one transaction, which a `dry_run` rolls back.

    Raises `ServiceError` VALIDATION_ERROR while a turn of the user runs, or one of its decisions is open or not in the tree.
    """
    receipt = base64.b64encode(secrets.token_bytes(32)).decode()
    subject = base64.b64encode(hashlib.sha256(f"{receipt}{user_id}".encode()).digest()).decode()
    removal = Statement(statement=StatementKind.ERASED, at=now, reasons=[reason], subjects=[subject])

    def erase(connection: Any) -> Erased:
        DueTable(database).remove_user(connection, user_id)
        erased = Erased(
            open_ids(connection, user_id),
            erase_conversations(connection, user_id),
            erase_operations(connection, operations, user_id),
            erase_decisions(connection, user_id, removal, tree.key),
            receipt,
        )
        if dry_run:
            raise _DryRun(erased)
        return erased

    try:
        return await write(database, erase)
    except _DryRun as tried:
        return tried.erased


async def kept_elsewhere(settings: Settings, database: Database, user_id: str) -> list[str]:
    """Return a sentence for each place in which data of a user stays, or may stay, after an erasure.

    The configured servers are asked for their list of tools, which says whether they keep a ledger. Raises
    `ConfigurationError`.
    """
    kept = [_COPIES]
    tasks = await database.read(lambda connection: len(list_newest_first(connection, user_id)))
    if tasks:
        stay = "stays" if tasks == 1 else "stay"
        kept.append(f"{counted(tasks, 'task')} of the user {stay} in this database, in the table `tasks`.")
    if settings.mcp is None:
        return kept
    async with open_tools(database, settings) as tools:
        await tools.start()
        for name, server in tools.executors.items():
            if not server.answered:
                text = f"did not answer ({tools.failure(name)}): it may keep data of the user, and a ledger of the calls"
            elif any(server.traits(tool).ledger for tool in server.get_available_tools()):
                text = "keeps a ledger, with the user and the result of each call"
            else:
                text = "keeps no ledger of ours; what its tools stored about the user stays there"
            kept.append(f"The MCP server '{name}' {text}: erase the user there.")
    return kept
