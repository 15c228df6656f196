"""One round of settlements, as the worker of a process makes it."""

from __future__ import annotations

from sqlalchemy import Connection, select

from graph_agent.chat.settling import OutcomeSettler
from graph_agent.db import Database
from graph_agent.due.table import DueTable, WorkKind
from graph_agent.due.tables import metadata
from graph_agent.due.worker import DueWorker
from graph_agent.models.record import OperationState
from graph_agent.ports import Clock, ToolServer
from graph_agent.record.settlements import settle_key
from graph_agent.record.tables import call_operations
from graph_agent.record.tree.leaves import RecordKey


async def settle_unknown(tools: ToolServer, log: Database, *, clock: Clock, record_key: RecordKey = None) -> int:
    """Ask the ledgers once for all unknown outcomes, by a settler that has asked nothing before; return how many it settled."""
    settler = OutcomeSettler(tools, log, clock=clock, record_key=record_key)
    await log.write(lambda connection: _add_rows(connection, settler, again=True))
    return await serve(settler)


async def settle_all(settler: OutcomeSettler) -> int:
    """Do what is due, after a row was added for each unknown outcome of a log whose writer adds none."""
    await settler.log.write(lambda connection: _add_rows(connection, settler))
    return await serve(settler)


async def serve(settler: OutcomeSettler) -> int:
    """Settle what is due; return how many outcomes were settled."""
    return await DueWorker(settler.log, [settler.handler], settler.clock).serve()


def _add_rows(connection: Connection, settler: OutcomeSettler, *, again: bool = False) -> None:
    metadata.create_all(connection)
    settler.log.clock = settler.clock
    rows, due = call_operations.c, DueTable(settler.log)
    unknown = select(rows.decision_id, rows.sequence, rows.tool_name).where(rows.state == OperationState.UNKNOWN)
    for row in connection.execute(unknown.order_by(rows.intended_at)).all():
        # Each as of another user, so that all are due at the same time.
        put = due.put if again else due.add
        put(connection, WorkKind.SETTLE, settle_key(row.decision_id, row.sequence), user_id=row.decision_id)
