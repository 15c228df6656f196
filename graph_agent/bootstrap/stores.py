"""The data folder and the database of a runtime."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from pydantic import SecretStr

from graph_agent.bootstrap.secret import record_keys
from graph_agent.clock import SystemClock
from graph_agent.db import Database, DatabaseUnavailableError, migrate
from graph_agent.db.migrations import installed_revision
from graph_agent.errors import ConfigurationError
from graph_agent.settings import Settings

_RECORD = "graph_agent.record"
_CONVERSATIONS = "graph_agent.chat.conversations"
_PACKAGES = (_RECORD, "graph_agent.task_server", _CONVERSATIONS)
"""The packages with tables. The record is first: conversations without one are a sign of a separate record."""


FORMER_LOG = "log.db"
"""The file of the record in the home of an earlier version."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The open database with migrated tables, and the one that queries of the record read."""

    database: Database
    """Tasks, conversations and the record."""
    log_reads: Database
    """A replica of the record, or the database itself."""


@asynccontextmanager
async def open_stores(settings: Settings) -> AsyncGenerator[Stores]:
    """Open and migrate the database, and open the replica of the record. Raises `ConfigurationError`."""
    create_home(settings)
    spool = settings.home / "spool"
    if spool.exists() and spool.stat().st_size:
        text = "holds records that are not in the database: start the version that wrote it once more, which stores them"
        raise ConfigurationError(f"{spool} {text}")
    is_joined = not settings.database_url and not settings.log_database_url and (settings.home / FORMER_LOG).exists()
    if is_joined:
        # Imported here, because it is needed once in the life of a home.
        from graph_agent.bootstrap.copying import join_home

        join_home(settings, _PACKAGES)
    async with AsyncExitStack() as stack:

        def opened(url: str) -> Database:
            database = Database.open(url, connections=settings.database_connections)
            stack.push_async_callback(database.close)
            return database

        database = opened(settings.database)
        try:
            command = _joining_command(settings, database)
            # The key is read only by a migration that seals: a command that reads the log must not create it.
            upgraded = [
                migrate(database, package, record_key=lambda: record_keys(settings))
                for package in _PACKAGES
                if command is None or installed_revision(database, package) is not None
            ]
        except DatabaseUnavailableError as exc:
            raise ConfigurationError(f"{exc} ({'DATABASE_URL' if settings.database_url else settings.database})") from exc
        if command is not None:
            raise ConfigurationError(f"tasks, conversations and the record share one database: stop all processes, {command}")
        if is_joined or any(upgraded):
            # What a migration has added to the record is not in its tree yet.
            from graph_agent.bootstrap.record_tree import record_tree, seal_if_possible

            await seal_if_possible(record_tree(settings, database, SystemClock()))
        # A replica that is down must not keep turns from being served: it is used by queries only.
        yield Stores(database, database if settings.log_reads == settings.database else opened(settings.log_reads))


def _joining_command(settings: Settings, database: Database) -> str | None:
    """Return what joins `database` with its record, as earlier versions had them; None if they are joined."""
    # No URL is shown, because it may contain a password.
    own = '"$DATABASE_URL"' if settings.database_url else settings.database
    if settings.log_database_url not in ("", settings.database):
        joined = "then set DATABASE_URL to the value of LOG_DATABASE_URL, which has no other use any more"
        return f'run `graph-agent db copy {own} "$LOG_DATABASE_URL"`, {joined}'
    if installed_revision(database, _CONVERSATIONS) is None or installed_revision(database, _RECORD) is not None:
        return None
    former = settings.home / FORMER_LOG
    if not former.exists():
        return f"run `graph-agent db copy URL_OF_THE_RECORD {own}`"
    record = Database.open(f"sqlite:///{former}")
    try:
        # A copy only reads its source, so it refuses an older schema.
        migrate(record, _RECORD, record_key=lambda: record_keys(settings))
    finally:
        record.close_now()
    return f"run `graph-agent db copy sqlite:///{former} {own}`"


def create_home(settings: Settings) -> None:
    """Create the folder of the key and the default database, if it is needed. Raises `ConfigurationError`."""
    if settings.database_url and settings.secret is not None:
        return
    try:
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigurationError(f"the folder {settings.home} (GRAPH_AGENT_HOME) cannot be created") from exc


def temporary_settings(settings: Settings) -> Settings:
    """Return the settings of a runtime on an empty database in memory, with the same model and constitution.

    Tasks, conversations, limits and the ledger belong to a user, so a new user id is an isolated environment: one temporary
    runtime can have any number of them.
    """
    secret = SecretStr(secrets.token_hex(32))
    database = {"database_url": "sqlite://", "log_database_url": "", "log_read_url": ""}
    # Not the keys of the log: they would sign another tree under its name.
    return settings.model_copy(update={**database, "secret": secret, "log_signing_keys": (), "log_origin": None})
