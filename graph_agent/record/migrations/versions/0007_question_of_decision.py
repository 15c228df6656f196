"""Decisions name the question that they answer, or else the one that they ask."""

from __future__ import annotations

import json
from contextlib import suppress

import sqlalchemy as sa
from alembic import op

from graph_agent.record.projection import question_of

revision = "0007"
down_revision = "0006"

_ABOUT = sa.text("question IS NOT NULL")
_PAGE = 200


def upgrade() -> None:
    connection = op.get_bind()
    known = {column["name"] for column in sa.inspect(connection).get_columns("decision_logs")}
    if "question" not in known:
        op.add_column("decision_logs", sa.Column("question", sa.String(255)))
        op.create_index(
            "ix_decision_logs_question", "decision_logs", ["question"], sqlite_where=_ABOUT, postgresql_where=_ABOUT
        )
    rows = sa.table(
        "decision_logs", *(sa.column(name) for name in ("decision_id", "decision_type", "header", "record", "question"))
    )
    # The others neither ask nor answer.
    candidates = sa.or_(
        rows.c.decision_type == "REQUEST_CONFIRMATION",
        rows.c.header.like('%"pending_confirmation":{%'),
        rows.c.header.like('%"approval":{%'),
    )
    ids = connection.execute(sa.select(rows.c.decision_id).where(rows.c.record.is_not(None), candidates)).scalars().all()
    for start in range(0, len(ids), _PAGE):
        page = rows.c.decision_id.in_(ids[start : start + _PAGE])
        for row in connection.execute(sa.select(rows.c.decision_id, rows.c.record).where(page)).all():
            # `log verify` reports a record that cannot be read.
            with suppress(ValueError, LookupError, TypeError, AttributeError):
                question = question_of(json.loads(row.record))
                connection.execute(rows.update().where(rows.c.decision_id == row.decision_id).values(question=question))
