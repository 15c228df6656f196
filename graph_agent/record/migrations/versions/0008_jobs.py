"""Name the job of a standing plan, and the run of each call that was drawn from one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_OF_JOB = sa.text("job IS NOT NULL")


def upgrade() -> None:
    if not _has("mandates", "job"):
        op.add_column("mandates", sa.Column("job", sa.String(64)))
        op.create_index("ix_mandates_job", "mandates", ["user_id", "job"], sqlite_where=_OF_JOB, postgresql_where=_OF_JOB)
    if not _has("mandate_draws", "run"):
        op.add_column("mandate_draws", sa.Column("run", sa.String(255)))


def _has(table: str, name: str) -> bool:
    return name in {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
