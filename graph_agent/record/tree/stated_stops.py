"""The statements about stops: each is in the log, also one that was written by hand or deleted since."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Connection, select, update

from graph_agent.record.tables import rule_stops
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.tree.statements import Statement, StatementKind, add_statement

_row = rule_stops.c
_UNSTATED = select(_row.number, _row.scope, _row.at).where(_row.stated.is_(False)).with_for_update()


def state_stops(connection: Connection, sealer: Sealer) -> None:
    """State the stops of which the log has no statement yet."""
    for row in connection.execute(_UNSTATED).all():
        # Without the name and the reason, which can be about a person: a statement is never removed.
        at = row.at.astimezone(UTC)
        stopped = Statement(statement=StatementKind.STOPPED, at=at, number=row.number, scope=row.scope)
        add_statement(connection, stopped, sealer)
        connection.execute(update(rule_stops).where(_row.number == row.number), {"stated": True})


def state_end(connection: Connection, number: int, scope: str, at: datetime, sealer: Sealer) -> None:
    """State that a stop has ended."""
    add_statement(connection, Statement(statement=StatementKind.RESUMED, at=at, number=number, scope=scope), sealer)
