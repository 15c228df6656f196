"""Upgrades of a database to an older revision, for tests of the migrations that follow."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from alembic import command, config
from sqlalchemy import Connection

from graph_agent.db import Database

_VERSION_TABLES = {"graph_agent.record": "audit_version"}


def upgrade_to(database: Database, owner: str, revision: str) -> None:
    """Run the migrations of the package `owner` up to `revision`."""

    def work(connection: Connection) -> None:
        settings = config.Config()
        settings.set_main_option("script_location", str(Path(str(resources.files(owner))) / "migrations"))
        settings.set_main_option("path_separator", "os")
        settings.attributes.update(connection=connection, version_table=_VERSION_TABLES[owner])
        command.upgrade(settings, revision)

    database.write_now(work)
