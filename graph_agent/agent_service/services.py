"""One set of open services for all calls to `run_agent` that run at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from graph_agent.bootstrap.agent_services import AgentServices, open_agent_services
from graph_agent.bootstrap.opened import OpenedByTask
from graph_agent.settings import Settings, read_settings


@asynccontextmanager
async def shared_services() -> AsyncGenerator[AgentServices]:
    """Yield the services that the environment configures.

    The first caller opens them, later callers share them, and the last one to leave closes them. A program that calls
    `run_agent` now and then can stay in this context, so that not every call opens them again. Raises `ConfigurationError`.
    """
    key = asyncio.get_running_loop(), read_settings()
    shared = _open.get(key)
    if shared is None:
        shared = _open[key] = OpenedByTask(open_agent_services(key[1]))
    shared.users += 1
    try:
        yield await shared.value()
    finally:
        shared.users -= 1
        if shared.users == 0:
            _open.pop(key, None)
            await shared.aclose()


_open: dict[tuple[asyncio.AbstractEventLoop, Settings], OpenedByTask[AgentServices]] = {}
