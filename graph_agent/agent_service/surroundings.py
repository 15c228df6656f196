"""What every agent of a process stands in: databases, the signing key, the shipped tools; open while a call needs them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module

from graph_agent.policy.confirmation import Signer
from graph_agent.ports import AuditWriter, Clock, Confirmations, IdSource, ToolServer
from graph_agent.settings import Settings, read_settings


@dataclass(frozen=True)
class Surroundings:
    """Everything of a turn that is not the caller's to choose."""

    constitution: str
    tools: ToolServer
    audit: AuditWriter
    signer: Signer
    confirmations: Confirmations
    clock: Clock
    ids: IdSource


Opening = Callable[[Settings], AbstractAsyncContextManager[Surroundings]]

_WIRING = "graph_agent.bootstrap.agents"
"""Where concrete things are made. Named and not imported: that layer stands above this one."""


@asynccontextmanager
async def kept_open() -> AsyncGenerator[Surroundings]:
    """The surroundings that the environment asks for.

    The first to come opens them, whoever comes meanwhile shares them, the last to go closes them. A program that calls
    `run_agent` now and then may hold this open over its life and saves the opening. Raises `ConfigurationError`.
    """
    key = asyncio.get_running_loop(), read_settings()
    shared = _open.get(key)
    if shared is None:
        shared = _open[key] = _Shared()
        shared.keeper = asyncio.create_task(shared.keep(_opening(), key[1]))
    shared.users += 1
    try:
        yield await asyncio.shield(shared.opened)
    finally:
        shared.users -= 1
        if shared.users == 0:
            _open.pop(key, None)
            shared.deserted.set()
            # To its end even for a caller who is cancelled: what was opened is closed by the task that opened it.
            await asyncio.shield(shared.keeper)


@dataclass(eq=False)
class _Shared:
    keeper: asyncio.Task[None] = field(init=False)
    opened: asyncio.Future[Surroundings] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    deserted: asyncio.Event = field(default_factory=asyncio.Event)
    users: int = 0

    async def keep(self, opening: Opening, settings: Settings) -> None:
        try:
            async with opening(settings) as surroundings:
                self.opened.set_result(surroundings)
                await self.deserted.wait()
        except Exception as exc:
            if self.opened.done():
                raise
            self.opened.set_exception(exc)


_open: dict[tuple[asyncio.AbstractEventLoop, Settings], _Shared] = {}


def _opening() -> Opening:
    opening: Opening = import_module(_WIRING).open_surroundings
    return opening
