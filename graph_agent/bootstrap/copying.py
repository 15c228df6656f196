"""The copy of a database into an empty one, with a verification of its log."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime

from graph_agent.bootstrap.record_tree import log_keys
from graph_agent.bootstrap.secret import record_keys
from graph_agent.chat.conversations.tables import metadata as conversation_tables
from graph_agent.db import Database, migrate
from graph_agent.db.copy import copy_tables, require_file
from graph_agent.db.migrations import installed_revision, require_newest
from graph_agent.due.tables import metadata as work_tables
from graph_agent.errors import ConfigurationError
from graph_agent.question.approvals import void_copied
from graph_agent.question.tables import metadata as question_tables
from graph_agent.record.mandates import void
from graph_agent.record.tamper.verify import verify_log
from graph_agent.record.tamper.violations import VerifyReport
from graph_agent.record.tree.tables import tree_leaves
from graph_agent.settings import Settings
from graph_agent.task_server.store import metadata as task_tables

_TABLES = {
    "graph_agent.due": work_tables,
    "graph_agent.task_server": task_tables,
    "graph_agent.question": question_tables,
    "graph_agent.chat.conversations": conversation_tables,
    "graph_agent.record": tree_leaves.metadata,
}

SHIPPED_TOOLS = frozenset(table.name for table in task_tables.sorted_tables)
"""The tables of the shipped tools, which are empty where others are used."""


async def copy_database(settings: Settings, source_url: str, target_url: str) -> tuple[dict[str, int], VerifyReport | None]:
    """Copy everything that a database contains to an empty one; return the number of rows of each table, and a report.

    The report is the verification of the copied log, None if there is no log. Raises `ConfigurationError`; then the target has
    no rows.
    """
    require_file(source_url)
    async with AsyncExitStack() as stack:
        source, target = Database.open(source_url), Database.open(target_url)
        stack.push_async_callback(source.close)
        stack.push_async_callback(target.close)
        owners = [owner for owner in _TABLES if installed_revision(source, owner) is not None]
        if not owners:
            raise ConfigurationError("the source has no tables of graph-agent")
        for owner in owners:
            # The source is only read: a backup must not change what it copies.
            require_newest(source, owner)
            migrate(target, owner)
        counts = copy_tables(source, target, [table for owner in owners for table in _TABLES[owner].sorted_tables])
        if {"graph_agent.question", "graph_agent.due"} <= set(owners):
            await asyncio.to_thread(void_copied, target)
        has_log = "graph_agent.record" in owners
        if has_log:
            # Both databases would draw from it, each as often as it permits.
            now = datetime.now(UTC)
            await target.write(lambda connection: void(connection, now))
        if not has_log:
            return counts, None
        return counts, await verify_log(target, keys=log_keys(settings), key=record_keys(settings))
