"""Notices about approval requests are due work."""

from __future__ import annotations

import re

from alembic import op

revision = "0002"
down_revision = None

_COLUMNS = ("notice", "notice_due_at", "notice_attempts")
_PUT = """
INSERT INTO due (kind, key, lane, user_id, due_at, set_at, attempts)
SELECT 'notice', id || '.' || notice, '', user_id, notice_due_at, created_at, notice_attempts FROM approvals
WHERE notice IS NOT NULL AND notice_due_at IS NOT NULL
"""
_REMINDERS = """
INSERT INTO due (kind, key, lane, user_id, due_at, set_at, attempts)
SELECT 'notice', id || '.reminder', '', user_id, {half}, created_at, 0 FROM approvals
WHERE notice = 'requested' AND state = 'open'
"""
_HALF = {
    "postgresql": "created_at + (expires_at - created_at) / 2",
    "sqlite": "strftime('%Y-%m-%dT%H:%M:%f000+00:00', (julianday(created_at) + julianday(expires_at)) / 2)",
}


def upgrade() -> None:
    connection = op.get_bind()
    dialect = connection.dialect.name
    op.execute(_PUT)
    op.execute(_REMINDERS.format(half=_HALF[dialect]))
    if dialect == "postgresql":
        for name in _COLUMNS:
            op.drop_column("approvals", name)
        return
    # SQLite drops no column that a CHECK names: the table is made anew. Its answers refer to rows again at the commit.
    run = connection.exec_driver_sql
    run("PRAGMA defer_foreign_keys=ON")
    made = run("SELECT type, sql FROM sqlite_master WHERE tbl_name = 'approvals' AND sql IS NOT NULL ORDER BY type DESC").all()
    old = run("SELECT name FROM pragma_table_info('approvals')").scalars()
    kept = ", ".join(name for name in old if name not in _COLUMNS)
    run(f"CREATE TABLE approvals_old AS SELECT {kept} FROM approvals")
    run("DROP TABLE approvals")
    for row in made:
        lines = (line for line in row.sql.splitlines() if not any(name in line for name in _COLUMNS))
        run(re.sub(r",\s*\)\s*$", "\n)", "\n".join(lines)))
    run(f"INSERT INTO approvals ({kept}) SELECT {kept} FROM approvals_old")
    run("DROP TABLE approvals_old")
