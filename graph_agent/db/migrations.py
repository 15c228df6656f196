"""Migration of the tables of one package.

Each package with tables has a folder `migrations/` (`env.py` with three lines, `versions/NNNN_words.py` with
`revision = "NNNN"`, without branches) and its own version table, so that several packages can share one database.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, column, inspect, select, table, text

from graph_agent.db.database import Database
from graph_agent.errors import ConfigurationError

_VERSION_TABLE_PREFIX = {"graph_agent.record": "audit"}
"""Packages that were renamed: existing databases have the version table under the old name."""


def migrate(database: Database, owner: str, **attributes: Any) -> None:
    """Run the migrations of the package `owner` (a dotted name) that `database` does not have yet.

    Migrations find `attributes` in `alembic.context.config.attributes`. An up-to-date database does not import Alembic. If two
    processes start together, one migrates and the other one waits. Raises `DatabaseUnavailableError`, and `ConfigurationError`
    if a newer version has migrated the database.
    """
    folder = _folder(owner)
    version_table = _version_table(owner)
    head = newest_revision(folder)
    found = installed_revision(database, owner)
    _refuse_newer(found, head, owner)
    if found != head:
        database.write_now(lambda connection: _upgrade(connection, folder, version_table, head, attributes))


def installed_revision(database: Database, owner: str) -> str | None:
    """Return the revision of the package's tables in `database`, None if it has none."""
    return database.read_now(lambda connection: _revision(connection, _version_table(owner)))


def require_newest(database: Database, owner: str) -> None:
    """Raise `ConfigurationError` if the package's tables in `database` are not those of this version."""
    found, newest = installed_revision(database, owner), newest_revision(_folder(owner))
    _refuse_newer(found, newest, owner)
    if found != newest:
        raise ConfigurationError(
            f"the database has an older schema ({_version_table(owner)} {found}, not {newest}): set DATABASE_URL "
            "to it and run `graph-agent db migrate`"
        )


def newest_revision(folder: Path) -> str:
    """Return the newest revision in `folder`, read from the names of its files."""
    return max(file.name.partition("_")[0] for file in (folder / "versions").glob("[0-9]*_*.py"))


def _refuse_newer(found: str | None, known: str, owner: str) -> None:
    if found is not None and found > known:
        raise ConfigurationError(
            f"the database has a newer schema ({_version_table(owner)} {found}) than this version of graph-agent knows "
            f"({known}): upgrade graph-agent"
        )


def _folder(owner: str) -> Path:
    return Path(str(resources.files(owner))) / "migrations"


def _version_table(owner: str) -> str:
    return f"{_VERSION_TABLE_PREFIX.get(owner, owner.rpartition('.')[2])}_version"


def _revision(connection: Connection, version_table: str) -> str | None:
    if not inspect(connection).has_table(version_table):
        return None
    return connection.execute(select(table(version_table, column("version_num")).c.version_num)).scalar()


def _upgrade(connection: Connection, folder: Path, version_table: str, head: str, attributes: Mapping[str, Any]) -> None:
    # Imported here, because it costs an ordinary start, which has nothing to migrate, more than 100 ms.
    from alembic import command, config

    if connection.dialect.name == "postgresql":
        # Released at the end of the transaction. SQLite needs no lock: BEGIN IMMEDIATE admits one writer at a time.
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": version_table})
    settings = config.Config()
    settings.set_main_option("script_location", str(folder).replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    settings.attributes.update(attributes, connection=connection, version_table=version_table)
    command.upgrade(settings, head)
