"""One set of open services for all calls to `run_agent` that run at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from graph_agent.bootstrap.agent_services import AgentServices, open_agent_services
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
        shared = _open[key] = _SharedServices()
        shared.owner = asyncio.create_task(shared.serve(key[1]))
    shared.users += 1
    try:
        # Shielded: the others still wait for the services when one caller is cancelled.
        yield await asyncio.shield(shared.opened)
    finally:
        shared.users -= 1
        if shared.users == 0:
            _open.pop(key, None)
            shared.unused.set()
            # Shielded: the services are closed completely, by the task that opened them, even if this caller is cancelled.
            await asyncio.shield(shared.owner)


@dataclass(eq=False)
class _SharedServices:
    """Services, the task that opens and closes them, and the number of callers that use them."""

    owner: asyncio.Task[None] = field(init=False)
    opened: asyncio.Future[AgentServices] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    unused: asyncio.Event = field(default_factory=asyncio.Event)
    users: int = 0

    async def serve(self, settings: Settings) -> None:
        """Open the services, wait until no call uses them, and close them."""
        try:
            async with open_agent_services(settings) as services:
                self.opened.set_result(services)
                await self.unused.wait()
        except Exception as exc:
            if self.opened.done():
                raise
            self.opened.set_exception(exc)


_open: dict[tuple[asyncio.AbstractEventLoop, Settings], _SharedServices] = {}
