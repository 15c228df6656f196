"""Add the stops of operators."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = None

_OPEN = sa.text("ended_at IS NULL")


def upgrade() -> None:
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    time = sa.DateTime(timezone=True) if is_postgresql else sa.String(32)
    now = sa.text("now()" if is_postgresql else "(strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now'))")
    op.create_table(
        "rule_stops",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("scope", sa.String(32), nullable=False),
        sa.Column("name", sa.String(255), nullable=False, server_default=""),
        sa.Column("changes_only", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("say", sa.Text, nullable=False, server_default=""),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("made_by", sa.String(255), nullable=False, server_default=""),
        sa.Column("at", time, nullable=False, server_default=now),
        sa.Column("ended_at", time),
        sa.Column("ended_by", sa.String(255)),
        sa.Column("end_reason", sa.Text),
        sa.Column("mac", sa.String(64)),
        sa.Column("stated", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("number", name="pk_rule_stops"),
        sa.CheckConstraint("scope IN ('everything', 'tool', 'user', 'server')", name="ck_rule_stops_scope"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_rule_stops_open", "rule_stops", ["number"], sqlite_where=_OPEN, postgresql_where=_OPEN)
    if is_postgresql:
        op.execute(
            "CREATE FUNCTION rule_stops_alone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "PERFORM pg_advisory_xact_lock(hashtext('graph_agent stops'), hashtext(TG_TABLE_SCHEMA)); RETURN NULL; END $$"
        )
        op.execute(
            "CREATE TRIGGER rule_stops_alone BEFORE INSERT ON rule_stops FOR EACH STATEMENT EXECUTE FUNCTION rule_stops_alone()"
        )
