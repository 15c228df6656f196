"""The database as an operator's command opens it: with as little as possible of what may be down."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from graph_agent.bootstrap.stores import open_stores
from graph_agent.db import Database
from graph_agent.errors import ConfigurationError
from graph_agent.settings import Settings

_log = logging.getLogger(__name__)

_CONNECTIONS = 4
"""One waits for the lock of a stop, and one ends those that hold it; two are for closing writes."""


@asynccontextmanager
async def open_for_operator(settings: Settings) -> AsyncGenerator[Database]:
    """Open the database directly, not over a pooler, if there is an address for that. Raises `ConfigurationError`."""
    few = settings.model_copy(update={"database_connections": _CONNECTIONS, "log_read_url": ""})
    direct = few.model_copy(update={"database_url": settings.listen_url or settings.database_url})
    async with AsyncExitStack() as stack:
        try:
            stores = await stack.enter_async_context(open_stores(direct))
        except ConfigurationError:
            if not settings.listen_url:
                raise
            _log.warning("the database does not answer at GRAPH_AGENT_LISTEN_URL; DATABASE_URL is used")
            stores = await stack.enter_async_context(open_stores(few))
        yield stores.database
