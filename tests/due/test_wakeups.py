"""A commit of one process wakes the workers of the others, on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import pytest

from graph_agent.clock import SystemClock
from graph_agent.db import Database
from graph_agent.db.notifications import Notifications, open_notifications
from graph_agent.due import worker as worker_module
from graph_agent.due.table import DUE_NOW, BackOff, DueTable, DueWork, WorkKind
from graph_agent.due.wakeups import announced
from graph_agent.due.worker import DueHandler, DueWorker

pytestmark = pytest.mark.postgresql

NEVER = 3600.0
_CHANNEL = "test"


class Process:
    """A process with a worker, which looks only when it is woken."""

    def __init__(self, url: str) -> None:
        self.database = Database.open(url)
        self.done: asyncio.Queue[str] = asyncio.Queue()
        found = open_notifications(self.database, url, _CHANNEL)
        assert found is not None
        self.notifications: Notifications = found
        back_off = BackOff(timedelta(seconds=1), timedelta(seconds=1))
        handler = DueHandler(WorkKind.END, self._run, slots=4, back_off=back_off)
        self._worker = DueWorker(self.database, [handler], SystemClock())

    async def _run(self, work: DueWork) -> None:
        self.done.put_nowait(work.key)

    async def put(self, key: str) -> None:
        table = DueTable(self.database)
        await self.database.write(lambda connection: table.put(connection, WorkKind.END, key, user_id="ann"))

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Serve in this context, once notifications arrive."""
        arrived = asyncio.Event()

        def receive(message: str) -> None:
            arrived.set()
            if message == DUE_NOW:
                self._worker.wake()

        serving = asyncio.create_task(self._worker.serve_forever())
        async with self.notifications.listen(receive):
            while not arrived.is_set():
                await self.notifications.send(["probe"])
                await asyncio.sleep(0.01)
            yield
        serving.cancel()
        await asyncio.wait({serving})


@pytest.fixture
async def processes(
    migrated_postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[Process, Process, Process]]:
    # So that only a notification can wake a worker.
    monkeypatch.setattr(worker_module, "LONGEST_SLEEP_SECONDS", NEVER)
    one, *others = all_processes = [Process(migrated_postgresql_url) for _ in range(3)]
    async with AsyncExitStack() as stack:
        for other in others:
            await stack.enter_async_context(other.serving())
        yield one, others[0], others[1]
    for process in all_processes:
        await process.database.close()


async def next_done(*processes: Process) -> str:
    """Return the key of the next work that one of the processes has done."""
    waiting = [asyncio.create_task(process.done.get()) for process in processes]
    async with asyncio.timeout(60):
        done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    [found] = done
    return found.result()


async def test_work_that_one_process_makes_due_is_done_by_another_that_only_sleeps(
    processes: tuple[Process, Process, Process],
) -> None:
    one, *others = processes
    async with announced(one.database, one.notifications):
        for number in range(5):
            await one.put(f"work {number}")
            assert await next_done(*others) == f"work {number}"


async def test_a_process_that_ends_after_its_commit_still_wakes_the_others(
    processes: tuple[Process, Process, Process],
) -> None:
    one, *others = processes
    async with announced(one.database, one.notifications):
        await one.put("the last work of a command")
    assert await next_done(*others) == "the last work of a command"


async def test_what_the_worker_that_is_woken_puts_needs_no_notification(processes: tuple[Process, Process, Process]) -> None:
    _, other, _ = processes
    await other.put("own")
    assert await next_done(other) == "own"
