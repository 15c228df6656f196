"""Migration of the tables of one package.

Each package with tables has a version table, so that several packages can share one database, and a package `migrations` with
`create(connection)`, which creates all tables as they are declared, and `OLDEST`, the oldest revision that can be upgraded.
Earlier databases are upgraded by Alembic with `versions/NNNN_words.py` (`revision = "NNNN"`, without branches). Revisions that
were joined into the first file are upgraded by it, so it looks at what is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, MetaData, String, Table, column, delete, insert, inspect, select, table, text

from graph_agent.db.database import Database
from graph_agent.errors import ConfigurationError

_VERSION_TABLE_PREFIX = {"graph_agent.record": "audit"}
"""Packages that were renamed: existing databases have the version table under the old name."""


def migrate(database: Database, owner: str, **attributes: Any) -> bool:
    """Create the tables of the package `owner` (a dotted name) in `database`, or run the migrations that it does not have yet.

    Return True if tables of an earlier version were upgraded.
    Migrations find `attributes` in `alembic.context.config.attributes`. Only an upgrade imports Alembic. If two processes start
    together, one migrates and the other one waits. Raises `DatabaseUnavailableError`, and `ConfigurationError` if the schema is
    newer than this version, or too old for it.
    """
    head = newest_revision(_folder(owner))
    found = installed_revision(database, owner)
    _refuse_newer(found, head, owner)
    if found != head:
        database.write_now(lambda connection: _create_or_upgrade(connection, owner, head, attributes))
    return found not in (None, head)


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
    """Return the newest revision in `folder`, read from the names of its files; the first one if there is none."""
    return max((file.name.partition("_")[0] for file in (folder / "versions").glob("[0-9]*_*.py")), default="0001")


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


def _create_or_upgrade(connection: Connection, owner: str, head: str, attributes: Mapping[str, Any]) -> None:
    name = _version_table(owner)
    if connection.dialect.name == "postgresql":
        # Released at the end of the transaction. SQLite needs no lock: BEGIN IMMEDIATE admits one writer at a time.
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": name})
    versions = Table(name, MetaData(), Column("version_num", String(32), primary_key=True))
    found = _revision(connection, name)
    if found == head:
        return  # Another process was faster.
    if found is None:
        import_module(f"{owner}.migrations").create(connection)
        versions.create(connection, checkfirst=True)
        connection.execute(insert(versions).values(version_num=head)).close()
        return
    oldest = import_module(f"{owner}.migrations").OLDEST
    if found < oldest:
        raise ConfigurationError(
            f"the database has a schema ({name} {found}) from before those that this version can upgrade ({oldest} and later)"
        )
    if not any((_folder(owner) / "versions").glob(f"{found}_*.py")):
        connection.execute(delete(versions)).close()
    _upgrade(connection, _folder(owner), name, head, attributes)


def _upgrade(connection: Connection, folder: Path, version_table: str, head: str, attributes: Mapping[str, Any]) -> None:
    # Imported here, because it costs an ordinary start, which has nothing to upgrade, more than 100 ms.
    from alembic import command, config

    settings = config.Config()
    settings.set_main_option("script_location", str(Path(__file__).parent / "alembic_environment").replace("%", "%%"))
    settings.set_main_option("version_locations", str(folder / "versions").replace("%", "%%"))
    settings.set_main_option("path_separator", "newline")
    settings.attributes.update(attributes, connection=connection, version_table=version_table)
    command.upgrade(settings, head)
