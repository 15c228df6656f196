"""Access to SQLite and PostgreSQL through one class, `Database`.

`Database.open(url)` opens a database. `await database.write(work)` and `await database.read(work)` run `work(connection)` on a
thread: a synchronous function on a SQLAlchemy connection, which runs to completion even if the caller is cancelled.
`write_now` and `read_now` block. `work` never commits, never waits for the same database, and returns plain values.

A package with tables (for example `graph_agent.record`) uses it like this:

    # record/tables.py
    metadata = new_metadata()
    logs = Table("decision_logs", metadata, Column("id", UuidText, primary_key=True), Column("at", UtcDateTime, nullable=False),
                 Column("record", JsonText), Column("status", enum_by_value(Status, "status"), nullable=False))
    # record/migrations/__init__.py
    create = metadata.create_all
    # at start-up
    migrate(database, "graph_agent.record")  # its revision is in the table record_schema
    # then
    await database.write(lambda connection: connection.execute(insert(logs), row).close())
"""

from graph_agent.db.backend import DatabaseUnavailableError
from graph_agent.db.database import Database, closing_writes, delete_pages, dialect_of, read_pages
from graph_agent.db.migrations import migrate
from graph_agent.db.prepared import PreparedStatement, insert_into, insert_new, insert_or_replace
from graph_agent.db.types import JsonText, UtcDateTime, UuidText, enum_by_value, new_metadata

__all__ = [
    "Database", "DatabaseUnavailableError", "JsonText", "PreparedStatement", "UtcDateTime", "UuidText", "closing_writes",
    "delete_pages", "dialect_of", "enum_by_value", "insert_into", "insert_new", "insert_or_replace", "migrate", "new_metadata",
    "read_pages",
]  # fmt: skip
