"""The worker of a process, on both databases: each kind and lane gets its turn, and nothing is lost or done twice."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Collection
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, select

from graph_agent.clock import ManualClock
from graph_agent.db import Database, migrate
from graph_agent.due.table import LEASE, BackOff, DueTable, DueWork, WorkKind
from graph_agent.due.tables import due
from graph_agent.due.worker import Again, DueHandler, DueWorker, OverdueHandler
from graph_agent.errors import service_unavailable

_BACK_OFF = BackOff(timedelta(seconds=1), timedelta(seconds=60))


class Handled:
    """A handler that notes the keys of its work, in order."""

    def __init__(self, kind: str = WorkKind.END, slots: int = 4, lanes: Callable[[], Collection[str]] = lambda: ("",)) -> None:
        self.keys: list[str] = []
        self.answer: Again | Exception | None = None
        self.begun = asyncio.Event()
        self.may_end: asyncio.Event | None = None
        self.handler = DueHandler(kind, self._run, slots, _BACK_OFF, lanes)

    async def _run(self, work: DueWork) -> Again | None:
        self.keys.append(work.key)
        self.begun.set()
        if self.may_end is not None:
            await self.may_end.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Installation:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = database.clock = ManualClock()
        self.table = DueTable(database)

    def worker(self, *handled: Handled) -> DueWorker:
        return DueWorker(self.database, [each.handler for each in handled], self.clock)

    async def put(self, key: str, kind: str = WorkKind.END, lane: str = "", user_id: str = "ann", seconds: float = 0) -> None:
        after = timedelta(seconds=seconds)
        await self.database.write(
            lambda connection: self.table.put(connection, kind, key, lane=lane, user_id=user_id, after=after)
        )

    async def rows(self) -> list[Any]:
        return await self.database.read(lambda connection: list(connection.execute(select(due).order_by(due.c.key)).all()))


@pytest.fixture
def installation(migrated_database: Database) -> Installation:
    return Installation(migrated_database)


async def test_what_is_due_is_done_once_and_what_is_not_due_waits(installation: Installation) -> None:
    for key, seconds in (("a", 0), ("b", 0), ("later", 60)):
        await installation.put(key, seconds=seconds)
    installation.clock.advance(seconds=1)
    handled = Handled()
    worker = installation.worker(handled)
    assert await worker.serve() == 2
    assert await worker.serve() == 0
    assert sorted(handled.keys) == ["a", "b"]
    assert [row.key for row in await installation.rows()] == ["later"]


async def test_a_failure_is_tried_again_after_its_back_off_and_named_without_its_text(installation: Installation) -> None:
    await installation.put("a")
    handled = Handled()
    worker = installation.worker(handled)
    for answer, error, seconds in (
        (ValueError("a secret"), "ValueError; the log of the server has more", 1),
        (service_unavailable(), "SERVICE_UNAVAILABLE", 2),
        (Again(_BACK_OFF, "no answer"), "no answer", 4),
    ):
        handled.answer = answer
        assert await worker.serve() == 0
        [row] = await installation.rows()
        assert (row.error, row.due_at - installation.clock.now()) == (error, timedelta(seconds=seconds))
        installation.clock.advance(seconds=seconds)
    handled.answer = None
    assert await worker.serve() == 1
    assert await installation.rows() == []


async def test_a_kind_whose_work_takes_long_does_not_delay_another(installation: Installation) -> None:
    slow, quick = Handled(WorkKind.JOB, slots=1), Handled(WorkKind.END)
    slow.may_end = asyncio.Event()
    for number in range(3):
        await installation.put(str(number), WorkKind.JOB)
    installation.clock.advance(seconds=1)
    serving = asyncio.create_task(installation.worker(slow, quick).serve_forever())
    await slow.begun.wait()
    await installation.put("a")
    await asyncio.wait_for(quick.begun.wait(), 30)
    assert (len(slow.keys), quick.keys) == (1, ["a"])
    slow.may_end.set()
    async with asyncio.timeout(30):
        while await installation.rows():  # noqa: ASYNC110 (the row has no event)
            await asyncio.sleep(0.01)
    serving.cancel()
    await asyncio.wait({serving})
    assert len(slow.keys) == 3


async def test_a_lane_with_much_work_leaves_slots_to_the_others(installation: Installation) -> None:
    for number in range(40):
        await installation.put(f"mail {number}", WorkKind.SETTLE, lane="mail")
    installation.clock.advance(seconds=1)
    await installation.put("till", WorkKind.SETTLE, lane="till", user_id="ben")
    handled = Handled(WorkKind.SETTLE, slots=2, lanes=lambda: ("mail", "till", "down"))
    assert await installation.worker(handled).serve() == 41
    assert "till" in handled.keys[:2]


async def test_a_worker_does_only_the_work_of_its_lanes(installation: Installation) -> None:
    await installation.put("q", WorkKind.DECIDE, lane="3f9c")
    other = Handled(WorkKind.DECIDE, lanes=lambda: ("77aa",))
    assert await installation.worker(other).serve() == 0
    assert other.keys == []


async def test_the_newest_work_of_one_user_does_not_wait_for_the_rest_of_another(installation: Installation) -> None:
    def put_many(connection: Connection) -> None:
        for number in range(300):
            installation.table.put(connection, WorkKind.END, f"ann {number}", user_id="ann")

    await installation.database.write(put_many)
    installation.clock.advance(seconds=5)
    await installation.put("ben", user_id="ben")
    handled = Handled()
    await installation.worker(handled).serve()
    assert "ben" in handled.keys[:8]
    assert len(handled.keys) == 301


async def test_a_process_that_is_cancelled_gives_back_what_it_has_taken(installation: Installation) -> None:
    await installation.put("a")
    handled = Handled()
    handled.may_end = asyncio.Event()
    serving = asyncio.create_task(installation.worker(handled).serve_forever())
    await handled.begun.wait()
    serving.cancel()
    await asyncio.wait({serving})
    [row] = await installation.rows()
    assert (row.taken, row.attempts, row.due_at) == (None, 0, installation.clock.now())


async def test_to_serve_until_nothing_is_due_leaves_alone_what_the_same_worker_does_meanwhile(
    installation: Installation,
) -> None:
    await installation.put("a")
    slow, quick = Handled(), Handled(WorkKind.NOTICE)
    slow.may_end = asyncio.Event()
    worker = installation.worker(slow, quick)
    serving = asyncio.create_task(worker.serve_forever())
    await slow.begun.wait()
    assert await worker.serve() == 0
    slow.may_end.set()
    async with asyncio.timeout(30):
        while await installation.rows():  # noqa: ASYNC110 (the row has no event)
            await asyncio.sleep(0.01)
    serving.cancel()
    await asyncio.wait({serving})
    assert slow.keys == ["a"]


async def test_what_other_tables_show_is_finished_first_and_what_cannot_be_is_left_for_a_time(
    installation: Installation,
) -> None:
    order: list[str] = []
    left = {"a", "b", "c"}

    async def find() -> AsyncGenerator[str]:
        for key in sorted(left):
            yield key

    async def finish(key: str) -> bool:
        order.append(key)
        if key == "b":
            return False
        left.discard(key)
        return True

    async def end(work: DueWork) -> None:
        order.append(work.key)

    overdue = OverdueHandler("turn", find, finish, slots=2, every=10.0)
    handler = DueHandler(WorkKind.END, end, 1, _BACK_OFF)
    worker = DueWorker(installation.database, [handler], installation.clock, [overdue])
    await installation.put("due")
    assert await worker.serve() == 3
    assert order == ["a", "b", "c", "due"]
    assert await worker.serve() == 0
    assert order[4:] == ["b"]


async def test_what_is_left_to_later_hides_nothing_that_is_newer(installation: Installation) -> None:
    tried, left = list[int](), list(range(1001))

    async def find() -> AsyncGenerator[int]:
        for number in list(left):
            yield number

    async def finish(number: int) -> bool:
        tried.append(number)
        if number < 1000:
            return False
        left.remove(number)
        return True

    overdue = OverdueHandler("turn", find, finish, slots=8, every=10.0)
    worker = DueWorker(installation.database, (), installation.clock, [overdue])
    assert await worker.serve() == 1
    assert tried == list(range(1001))


async def test_the_lease_of_work_that_takes_long_is_renewed(installation: Installation) -> None:
    await installation.put("a")
    handled = Handled()
    handled.may_end = asyncio.Event()
    serving = asyncio.create_task(installation.worker(handled).serve_forever())
    await handled.begun.wait()
    for number in range(4):
        installation.clock.advance(seconds=LEASE.total_seconds() / 2)
        # A commit wakes the worker, so that the test does not wait for its next look.
        await installation.put(f"wake {number}", WorkKind.NOTICE)
        async with asyncio.timeout(30):
            while (await installation.rows())[0].due_at <= installation.clock.now() + LEASE / 2:  # noqa: ASYNC110 (as above)
                await asyncio.sleep(0.01)
    serving.cancel()
    await asyncio.wait({serving})
    assert handled.keys == ["a"]


async def test_after_the_clock_of_the_database_was_set_back_nothing_waits_for_its_old_time(installation: Installation) -> None:
    handled = Handled()
    worker = installation.worker(handled)
    await worker.serve()
    await installation.put("a", seconds=5)
    installation.clock.advance(hours=-3)
    assert await worker.serve() == 1
    assert handled.keys == ["a"]


async def test_a_new_worker_finds_what_was_set_before_the_clock_was_set_back(installation: Installation) -> None:
    await installation.put("a", seconds=5)
    installation.clock.advance(hours=-3)
    handled = Handled()
    assert await installation.worker(handled).serve() == 1


_KILLED = """
import asyncio, sys
from graph_agent.clock import SystemClock
from graph_agent.db import Database, migrate
from graph_agent.due.table import BackOff, WorkKind
from graph_agent.due.worker import DueHandler, DueWorker
from datetime import timedelta

async def hang(work):
    print(work.key, flush=True)
    await asyncio.sleep(3600)

database = Database.open(sys.argv[1])
handler = DueHandler(WorkKind.END, hang, 1, BackOff(timedelta(seconds=1), timedelta(seconds=1)))
asyncio.run(DueWorker(database, [handler], SystemClock()).serve_forever())
"""


async def test_the_work_of_a_killed_process_is_due_again_after_its_lease(database: Database, database_url: str) -> None:
    migrate(database, "graph_agent.due")
    table = DueTable(database)
    await database.write(lambda connection: table.put(connection, WorkKind.END, "a", user_id="ann"))
    pipe = asyncio.subprocess.PIPE
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", _KILLED, database_url, stdout=pipe)
    assert killed.stdout is not None
    assert await killed.stdout.readline() == b"a\n"
    killed.kill()
    await killed.communicate()

    def take(connection: Connection) -> list[DueWork]:
        return table.take(connection, WorkKind.END, token="another")

    assert await database.write(take) == []
    [row] = await database.read(lambda connection: connection.execute(select(due)).all())
    # The end of its lease, instead of a wait for it.
    past = due.update().values(due_at=row.due_at - LEASE)
    await database.write(lambda connection: connection.execute(past).close())
    [again] = await database.write(take)
    assert (again.key, again.attempts) == ("a", 2)


async def test_work_that_ends_while_the_worker_looks_for_other_work_is_counted(installation: Installation) -> None:
    left, ended = ["a", "b", "c"], asyncio.Event()

    async def find() -> AsyncGenerator[str]:
        for key in left[:1]:
            yield key

    async def finish(work: str) -> bool:
        left.remove(work)
        ended.set()
        return True

    async def find_nothing() -> AsyncGenerator[str]:
        # The first work ends before this look does.
        if left:
            ended.clear()
            await ended.wait()
            await asyncio.sleep(0)
        for key in list[str]():
            yield key

    overdue = [
        OverdueHandler("turn", find, finish, slots=1, every=10.0),
        OverdueHandler("decision", find_nothing, finish, slots=1, every=0.0),
    ]
    worker = DueWorker(installation.database, (), installation.clock, overdue)
    assert await worker.serve() == 3
