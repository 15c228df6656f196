"""The folder and the databases of a runtime."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from graph_agent.db import Database, DatabaseUnavailableError, migrate
from graph_agent.errors import ConfigurationError
from graph_agent.settings import Settings

_TASK_OWNERS = ("graph_agent.task_server", "graph_agent.chat.conversations")
_LOG_OWNERS = ("graph_agent.record",)


@dataclass(frozen=True, slots=True)
class Stores:
    """The open databases, tables up to date; one and the same object where both have the same URL."""

    tasks: Database
    """Tasks and conversations."""
    log: Database


@asynccontextmanager
async def open_stores(settings: Settings) -> AsyncGenerator[Stores]:
    """Open and migrate both databases. Raises `ConfigurationError`."""
    make_home(settings)
    async with AsyncExitStack() as stack:
        opened: dict[str, Database] = {}

        def ready(url: str, owners: tuple[str, ...], what: str) -> Database:
            if url not in opened:
                opened[url] = Database.open(url)
                stack.push_async_callback(opened[url].close)
            try:
                for owner in owners:
                    migrate(opened[url], owner)
            except DatabaseUnavailableError as exc:
                raise ConfigurationError(f"the {what} is not available") from exc
            return opened[url]

        tasks = ready(settings.task_database, _TASK_OWNERS, "database of tasks and conversations (DATABASE_URL)")
        log = ready(settings.log_database, _LOG_OWNERS, "log database (LOG_DATABASE_URL)")
        yield Stores(tasks, log)


def make_home(settings: Settings) -> None:
    """Make the folder for the key and the default databases, if anything is to lie there. Raises `ConfigurationError`."""
    if settings.database_url and settings.log_database_url and settings.secret is not None:
        return
    try:
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigurationError(f"the folder {settings.home} (GRAPH_AGENT_HOME) cannot be made") from exc
