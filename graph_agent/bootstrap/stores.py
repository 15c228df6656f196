"""The data folder and the database of a runtime."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from pydantic import SecretStr

from graph_agent.db import Database, DatabaseUnavailableError, migrate
from graph_agent.errors import ConfigurationError
from graph_agent.settings import Settings

_PACKAGES = (
    "graph_agent.due",
    "graph_agent.record",
    "graph_agent.task_server",
    "graph_agent.question",
    "graph_agent.chat.conversations",
)
"""The packages with tables."""


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
    async with AsyncExitStack() as stack:

        def opened(url: str) -> Database:
            database = Database.open(url, connections=settings.database_connections)
            stack.push_async_callback(database.close)
            return database

        database = opened(settings.database)
        try:
            for package in _PACKAGES:
                migrate(database, package)
        except DatabaseUnavailableError as exc:
            raise ConfigurationError(f"{exc} ({'DATABASE_URL' if settings.database_url else settings.database})") from exc
        # A replica that is down must not keep turns from being served: it is used by queries only.
        yield Stores(database, database if settings.log_reads == settings.database else opened(settings.log_reads))


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

    Its tools are those of the shipped task server on that database: what it does is not in the real record, so it must not
    reach real servers. Tasks, conversations, limits and the ledger belong to a user, so a new user id is an isolated
    environment: one temporary runtime can have any number of them.
    """
    secret = SecretStr(secrets.token_hex(32))
    isolated = {"database_url": "sqlite://", "log_read_url": "", "mcp": None}
    # Not the keys of the log: they would sign another tree under its name.
    return settings.model_copy(update={**isolated, "secret": secret, "log_signing_keys": (), "log_origin": None})
