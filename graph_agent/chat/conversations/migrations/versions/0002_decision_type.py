"""The type of the decision that each message of the assistant replied with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from graph_agent.db import JsonText, UuidText

revision = "0002"
down_revision = "0001"

_TYPES = ("RESPOND_ONLY", "INVOKE_TOOL", "ASK_CLARIFICATION", "REQUEST_CONFIRMATION", "EXECUTE_PENDING", "CANCEL_PENDING")
_BATCH = 500

_messages = sa.table(
    "messages",
    sa.column("number", sa.Integer),
    sa.column("role", sa.String),
    sa.column("decision_id", UuidText()),
    sa.column("decision_type", sa.String),
)
_turns = sa.table("turns", sa.column("id", UuidText()), sa.column("answer", JsonText()))
_decision_logs = sa.table("decision_logs", sa.column("decision_id", sa.String), sa.column("decision_type", sa.String))


def upgrade() -> None:
    values = ", ".join(f"'{value}'" for value in _TYPES)
    # In one statement: SQLite cannot add a constraint to a table that exists.
    op.execute(
        "ALTER TABLE messages ADD COLUMN decision_type VARCHAR(32) "
        f"CONSTRAINT ck_messages_decision_type CHECK (decision_type IN ({values}))"
    )
    connection = op.get_bind()
    log_is_here = sa.inspect(connection).has_table("decision_logs")
    number = 0
    while rows := _next_messages(connection, number):
        number = rows[-1].number
        logged = _logged_types(connection, [row.decision_id for row in rows]) if log_is_here else {}
        for row in rows:
            answered = (row.answer or {}).get("decision", {}).get("decision_type")
            decision_type = logged.get(row.decision_id, answered)
            if decision_type in _TYPES:
                of_row = sa.update(_messages).where(_messages.c.number == row.number)
                connection.execute(of_row.values(decision_type=decision_type))


def downgrade() -> None:
    with op.batch_alter_table("messages") as messages:
        messages.drop_constraint("ck_messages_decision_type", type_="check")
        messages.drop_column("decision_type")


def _next_messages(connection: sa.Connection, number: int) -> list[sa.Row[tuple[int, str, dict[str, dict[str, str]] | None]]]:
    """Return the assistant's messages after `number`, each with the answer of its turn, which has the decision."""
    columns = (_messages.c.number, _messages.c.decision_id, _turns.c.answer)
    wanted = sa.select(*columns).join_from(_messages, _turns, _turns.c.id == _messages.c.decision_id, isouter=True)
    wanted = wanted.where(_messages.c.role == "assistant", _messages.c.number > number)
    return list(connection.execute(wanted.order_by(_messages.c.number).limit(_BATCH)))


def _logged_types(connection: sa.Connection, decision_ids: list[str]) -> dict[str, str]:
    """Return the decision types that the log has, if it is in the same database."""
    wanted = sa.select(_decision_logs.c.decision_id, _decision_logs.c.decision_type)
    rows = connection.execute(wanted.where(_decision_logs.c.decision_id.in_(decision_ids)))
    return {row.decision_id: row.decision_type for row in rows}
