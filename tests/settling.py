"""One round of settlements, by a settler that has asked nothing before."""

from __future__ import annotations

from graph_agent.chat.settling import OutcomeSettler
from graph_agent.db import Database
from graph_agent.ports import Clock, ToolServer
from graph_agent.record.tree.leaves import RecordKey


async def settle_unknown(tools: ToolServer, log: Database, *, clock: Clock, record_key: RecordKey = None) -> int:
    """Ask the ledgers once for the unknown outcomes of the last day; see `OutcomeSettler.settle`."""
    return await OutcomeSettler(tools, log, clock=clock, record_key=record_key).settle()
