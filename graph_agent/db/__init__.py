"""The database behind one port.

`Database.open(url)` gives SQLite or PostgreSQL; `await database.write(work)` and `read(work)` run `work(connection)`, a
synchronous function on a SQLAlchemy connection, on a thread and to its end whatever becomes of the caller. `write_now` and
`read_now` block. `work` never commits, calls nothing that waits on the same database, and returns plain values.

How an owner of tables (say `graph_agent.audit`) uses it:

    # audit/tables.py
    metadata = new_metadata()
    logs = Table("decision_logs", metadata, Column("id", UuidText, primary_key=True), Column("at", UtcDateTime, nullable=False),
                 Column("record", JsonText), Column("status", enum_by_value(Status, "status"), nullable=False))
    # audit/migrations/env.py
    from graph_agent.db.migration_env import run

    run()
    # audit/migrations/versions/0001_logs.py: revision = "0001", down_revision = None, def upgrade(): op.create_table(...)
    # at start-up
    migrate(database, "graph_agent.record")  # version table: audit_version
    # then
    await database.write(lambda connection: connection.execute(insert(logs), row).close())
"""

from graph_agent.db.database import Database
from graph_agent.db.errors import DatabaseUnavailableError
from graph_agent.db.migrations import migrate
from graph_agent.db.types import JsonText, UtcDateTime, UuidText, enum_by_value, new_metadata

__all__ = [
    "Database",
    "DatabaseUnavailableError",
    "JsonText",
    "UtcDateTime",
    "UuidText",
    "enum_by_value",
    "migrate",
    "new_metadata",
]
