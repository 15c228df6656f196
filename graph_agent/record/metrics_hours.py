"""The hours whose metrics are counted, and the removal of counts that are no longer true.

Only hours that ended long ago are counted. A turn that is opened and closed in time therefore never changes a counted hour, and
its commits do not touch this table; a transaction that adds or removes older decisions removes the counts of their hours.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, Connection, delete, func, select

from graph_agent.record.tables import decision_logs, metrics_hours, tool_invocation_logs

HOUR = timedelta(hours=1)
LONGEST_TURN = HOUR
"""An upper bound of the duration of a turn, far above its deadline. What is written later removes the counts of its hours."""
COUNTED_AFTER = 2 * LONGEST_TURN
"""The age of the end of an hour that is counted: a commit that began before `LONGEST_TURN` has ended by then."""


def start_of_hour(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def lock_hours(connection: Connection) -> None:
    """Make other transactions that write counts wait until this one has ended, and then see what it wrote."""
    # SQLite has one writer. Readers of the counts do not wait.
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("LOCK TABLE metrics_hours IN EXCLUSIVE MODE").close()


def forget_hours(connection: Connection, matches: Callable[[ColumnElement[str]], ColumnElement[bool]]) -> None:
    """Remove the counts of the hours in which the matching decisions started or called tools.

    `matches` makes the condition from the column of their ids. It is called at the end of a transaction that has added the
    decisions, and before they are removed.
    """
    lock_hours(connection)
    for at in (decision_logs.c.created_at, tool_invocation_logs.c.invoked_at):
        first, last = connection.execute(select(func.min(at), func.max(at)).where(matches(at.table.c.decision_id))).one()
        if first is not None:
            connection.execute(delete(metrics_hours).where(metrics_hours.c.hour.between(start_of_hour(first), last)))
