"""Migration of the tables of one package.

Each package with tables has a table `NAME_schema` with its revision, so that several packages can share one database, and a
package `migrations` with `metadata`, the declared tables, and `create(connection)`, which creates them at the newest revision.
Databases of earlier releases are upgraded by Alembic with `versions/NNNN_words.py` (`revision = "NNNN"`, without branches); the
first release has none, and its revision is `0001`.
"""

from __future__ import annotations

from importlib import import_module, resources
from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, String, Table, column, delete, insert, inspect, select, table, text

from graph_agent.db.database import Database
from graph_agent.errors import ConfigurationError


def migrate(database: Database, owner: str) -> None:
    """Create the tables of the package `owner` (a dotted name) in `database`, or run the migrations that it does not have yet.

    Only an upgrade imports Alembic. If two processes start together, one migrates and the other one waits. Raises
    `DatabaseUnavailableError`, and `ConfigurationError` if the schema is newer than this version, or has no revision.
    """
    head = newest_revision(_folder(owner))
    found = installed_revision(database, owner)
    _refuse_newer(found, head, owner)
    if found != head:
        database.write_now(lambda connection: _create_or_upgrade(connection, owner, head))


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
    return f"{owner.rpartition('.')[2]}_schema"


def _revision(connection: Connection, version_table: str) -> str | None:
    if not inspect(connection).has_table(version_table):
        return None
    return connection.execute(select(table(version_table, column("version_num")).c.version_num)).scalar()


def _create_or_upgrade(connection: Connection, owner: str, head: str) -> None:
    name = _version_table(owner)
    if connection.dialect.name == "postgresql":
        # Released at the end of the transaction. SQLite needs no lock: BEGIN IMMEDIATE admits one writer at a time.
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": name})
    versions = Table(name, MetaData(), Column("version_num", String(32), primary_key=True))
    found = _revision(connection, name)
    if found == head:
        return  # Another process was faster.
    if found is not None:
        if not any((_folder(owner) / "versions").glob(f"{found}_*.py")):
            # Alembic knows revisions by their files; the one with which the tables were created first has none.
            connection.execute(delete(versions)).close()
        _upgrade(connection, _folder(owner), name, head)
        return
    migrations = import_module(f"{owner}.migrations")
    # The tables of a checkout from before the first release must not be taken for those of this version.
    if not migrations.metadata.tables.keys().isdisjoint(inspect(connection).get_table_names()):
        raise ConfigurationError(
            "the database is from before the first release of graph-agent: export its record with `graph-agent log export` of "
            "the checkout that wrote it, and start with a new database"
        )
    migrations.create(connection)
    versions.create(connection, checkfirst=True)
    connection.execute(insert(versions).values(version_num=head)).close()


def _upgrade(connection: Connection, folder: Path, version_table: str, head: str) -> None:
    # Imported here, because it costs an ordinary start, which has nothing to upgrade, more than 100 ms.
    from alembic import command, config

    settings = config.Config()
    settings.set_main_option("script_location", str(Path(__file__).parent / "alembic_environment").replace("%", "%%"))
    settings.set_main_option("version_locations", str(folder / "versions").replace("%", "%%"))
    settings.set_main_option("path_separator", "newline")
    settings.attributes.update(connection=connection, version_table=version_table)
    command.upgrade(settings, head)
