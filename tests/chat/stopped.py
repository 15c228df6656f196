"""Processes of a chat that stop at a commit or do not learn of one, and databases that let them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.service import ChatService
from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.db.backend import Work
from graph_agent.errors import ServiceError
from graph_agent.models.llm import FunctionCall
from tests.chat.environment import Environment

T = TypeVar("T")


class LosingDatabase(Database):
    """A database whose commit with the number `losing`, counted from now, takes effect without the process learning of it."""

    losing = 0
    """No commit is lost by default."""

    async def write(self, work: Work[T]) -> T:
        result = await super().write(work)
        self.losing -= 1
        if self.losing == 0:
            raise DatabaseUnavailableError(unknown=True)
        return result


class Stop:
    """The moment at which a process stops, and the one at which it wakes up."""

    def __init__(self) -> None:
        self.stopped = asyncio.Event()
        self.wakes_up = asyncio.Event()

    async def wait(self) -> None:
        """Return at once unless the process is stopped."""
        if self.stopped.is_set():
            await self.wakes_up.wait()


class StoppingDatabase(LosingDatabase):
    """The database of a process that stops just before or just after its n-th commit; it then writes nothing."""

    stop: Stop
    n: int
    after: bool

    async def write(self, work: Work[T]) -> T:
        await self.stop.wait()
        self.n -= 1
        if self.n != 0:
            return await super().write(work)
        result = await super().write(work) if self.after else None
        self.stop.stopped.set()
        await self.stop.wait()
        return await super().write(work) if result is None else result


class Stopped:
    """A process that is stopped in `send`, unless the turn has fewer commits."""

    def __init__(self, environment: Environment, n: int, *, after: bool, **engine: Any) -> None:
        self.stop = Stop()
        self._database = environment.open_database(StoppingDatabase)
        self._database.stop, self._database.n, self._database.after = self.stop, n, after
        self.engine = environment.engine(database=self._database, **engine)
        self.chat = ChatService(self.engine, clock=environment.clock)
        self.sending: asyncio.Task[Any] | None = None

    async def send(self, user: str, content: str | None = None, **wish: Any) -> bool:
        """True if it was stopped."""
        return await self.stops_in(self.chat.send(user, content, **wish))

    async def call(self, user: str, called: list[FunctionCall]) -> bool:
        """Make calls without a model; True if it was stopped."""
        return await self.stops_in(self.chat.call(user, called))

    async def stops_in(self, sending: Coroutine[Any, Any, Any]) -> bool:
        self.sending = asyncio.create_task(sending)
        stopped = asyncio.create_task(self.stop.stopped.wait())
        await asyncio.wait({self.sending, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        return self.stop.stopped.is_set()

    async def wake_up(self) -> ChatAnswer | ServiceError:
        """Let the stopped process continue hours later, with any result."""
        self.stop.wakes_up.set()
        assert self.sending is not None
        try:
            answer: ChatAnswer = await self.sending
            return answer
        except ServiceError as refused:
            return refused
        finally:
            await self.engine.aclose()
            await self._database.close()
