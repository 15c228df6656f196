"""The data folder and the databases of a runtime."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from graph_agent.bootstrap.secret import chain_keys
from graph_agent.db import Database, DatabaseUnavailableError, migrate
from graph_agent.errors import ConfigurationError, RecordError
from graph_agent.ports import Clock
from graph_agent.record.spool import Spool, SpoolingAuditWriter
from graph_agent.settings import Settings

# The packages whose tables and migrations each database contains.
_MAIN_PACKAGES = ("graph_agent.task_server", "graph_agent.chat.conversations")
_LOG_PACKAGES = ("graph_agent.record",)


@dataclass(frozen=True, slots=True)
class Stores:
    """The open databases with migrated tables; the same object if two have the same URL."""

    main: Database
    """Tasks and conversations."""
    log: Database
    log_reads: Database
    """A replica of the log, or the log itself."""


@asynccontextmanager
async def open_stores(settings: Settings) -> AsyncGenerator[Stores]:
    """Open and migrate both databases, and open the replica of the log. Raises `ConfigurationError`."""
    create_home(settings)
    async with AsyncExitStack() as stack:
        opened: dict[str, Database] = {}

        def open_once(url: str) -> Database:
            if url not in opened:
                opened[url] = Database.open(url, connections=settings.database_connections)
                stack.push_async_callback(opened[url].close)
            return opened[url]

        def open_migrated(url: str, packages: tuple[str, ...], what: str) -> Database:
            database = open_once(url)
            try:
                for package in packages:
                    # The key is read only by a migration that seals: a command that reads the log must not create it.
                    migrate(database, package, chain_key=lambda: chain_keys(settings))
            except DatabaseUnavailableError as exc:
                raise ConfigurationError(f"the {what} is not available") from exc
            return database

        main = open_migrated(settings.main_database, _MAIN_PACKAGES, "database of tasks and conversations (DATABASE_URL)")
        log = open_migrated(settings.log_database, _LOG_PACKAGES, "log database (LOG_DATABASE_URL)")
        # A replica that is down must not keep turns from being served: it is used by queries only.
        yield Stores(main, log, open_once(settings.log_reads))


async def open_audit(settings: Settings, log: Database, clock: Clock) -> SpoolingAuditWriter:
    """Return the writer of the record, after it has stored what is still in the spool."""
    key = chain_keys(settings)
    audit = SpoolingAuditWriter(log, Spool(settings.home / "spool", key), clock=clock, chain_key=key)
    with suppress(RecordError):
        # The log database may still be down; the sweeper, or the next process, tries again.
        await audit.drain()
    return audit


def create_home(settings: Settings) -> None:
    """Create the folder of the key and the default databases, if it is needed. Raises `ConfigurationError`."""
    if settings.database_url and settings.log_database_url and settings.secret is not None:
        return
    try:
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigurationError(f"the folder {settings.home} (GRAPH_AGENT_HOME) cannot be created") from exc
