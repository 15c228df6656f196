"""Bring one owner's tables up to date.

An owner is a package with a folder `migrations/` (`env.py` of three lines, `versions/NNNN_words.py` with `revision = "NNNN"`,
one straight line) and a version table of its own, so that several owners share one database without knowing of each other.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from sqlalchemy import Connection, column, inspect, select, table, text

from graph_agent.db.database import Database

_TABLES_OF = {"graph_agent.record": "audit"}
"""Owners whose version table has another name than their package."""


def migrate(database: Database, owner: str) -> None:
    """Run the migrations of the package `owner` (a dotted name) that `database` does not have yet.

    Cheap when there is nothing to do: Alembic is not even imported. Two processes may start at once: one migrates, the other
    waits and finds it done. Raises `DatabaseUnavailableError`.
    """
    folder = Path(str(resources.files(owner))) / "migrations"
    version_table = f"{_TABLES_OF.get(owner, owner.rpartition('.')[2])}_version"
    head = newest_revision(folder)
    if database.read_now(lambda connection: _revision(connection, version_table)) != head:
        database.write_now(lambda connection: _upgrade(connection, folder, version_table, head))


def newest_revision(folder: Path) -> str:
    """The revision the files in `folder` lead to, read off their names."""
    return max(file.name.partition("_")[0] for file in (folder / "versions").glob("[0-9]*_*.py"))


def _revision(connection: Connection, version_table: str) -> str | None:
    if not inspect(connection).has_table(version_table):
        return None
    return connection.execute(select(table(version_table, column("version_num")).c.version_num)).scalar()


def _upgrade(connection: Connection, folder: Path, version_table: str, head: str) -> None:
    # Imported here: a start-up with nothing to migrate, and `--help`, do not pay for it.
    from alembic import command
    from alembic.config import Config

    if connection.dialect.name == "postgresql":
        # Held to the end of the transaction. SQLite's writers already stand in line.
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": version_table})
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, version_table=version_table)
    command.upgrade(config, head)
