"""The contract of the table of due work, on both databases, by the clock of the database."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, insert, select

from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.due.table import ANY_AFTER, ANY_LANE, LEASE, BackOff, DueTable, DueWork, WorkKind
from graph_agent.due.tables import due

T = TypeVar("T")
_TOKENS = (f"token {number}" for number in itertools.count())
_LEASE_SECONDS = LEASE.total_seconds()


class Table:
    """The table of an empty database, whose clock a test sets; each call is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = database.clock = ManualClock()
        self.due = DueTable(database)

    def run(self, work: Callable[[Connection], T]) -> T:
        return self.database.write_now(work)

    def put(self, key: str, user_id: str = "ann", lane: str = "", kind: str = WorkKind.END, seconds: float = 0.0) -> None:
        after = timedelta(seconds=seconds)
        self.run(lambda connection: self.due.put(connection, kind, key, lane=lane, user_id=user_id, after=after))

    def take(self, lane: str = "", kind: str = WorkKind.END, count: int = 8) -> list[DueWork]:
        return self.run(lambda connection: self.due.take(connection, kind, lane, token=next(_TOKENS), count=count))

    def taken(self, lane: str = "", kind: str = WorkKind.END, count: int = 8) -> list[str]:
        return [work.key for work in self.take(lane, kind, count)]

    def done(self, work: DueWork) -> bool:
        return self.run(lambda connection: self.due.done(connection, work))

    def postpone(self, work: DueWork, wait: timedelta | BackOff | None, error: str = "") -> bool:
        return self.run(lambda connection: self.due.postpone(connection, work, wait, error))

    def rows(self) -> list[Any]:
        return self.run(lambda connection: list(connection.execute(select(due).order_by(due.c.key)).all()))


@pytest.fixture
def table(migrated_database: Database) -> Table:
    return Table(migrated_database)


def test_work_is_taken_when_it_is_due_and_never_twice_at_once(table: Table) -> None:
    table.put("now")
    table.put("later", seconds=10)
    [work] = table.take()
    assert (work.kind, work.key, work.lane, work.user_id, work.attempts) == ("end", "now", "", "ann", 1)
    assert table.taken() == []
    table.clock.advance(seconds=10)
    assert table.taken() == ["later"]
    assert table.done(work)
    assert [row.key for row in table.rows()] == ["later"]


def test_put_is_part_of_the_transaction_of_its_caller(table: Table) -> None:
    def fail(connection: Connection) -> None:
        table.due.put(connection, WorkKind.END, "q")
        raise ValueError("rolled back")

    with pytest.raises(ValueError, match="rolled back"):
        table.run(fail)
    assert table.rows() == []


def test_work_of_another_kind_or_lane_is_not_taken(table: Table) -> None:
    table.put("q", lane="3f9c", kind=WorkKind.DECIDE)
    assert table.taken("", WorkKind.DECIDE) == table.taken("77aa", WorkKind.DECIDE) == table.taken("3f9c") == []
    assert table.taken("3f9c", WorkKind.DECIDE) == ["q"]


def test_what_no_process_of_a_lane_takes_is_taken_by_others_a_little_later(table: Table) -> None:
    table.put("q", lane="3f9c", kind=WorkKind.DECIDE)
    table.put("other kind", lane="3f9c")
    wanted = [(WorkKind.DECIDE, "3f9c"), (WorkKind.DECIDE, ANY_LANE)]
    _, firsts = table.run(lambda connection: table.due.first_due(connection, wanted))
    assert firsts == {wanted[0]: 0, wanted[1]: ANY_AFTER.total_seconds()}
    assert table.taken(ANY_LANE, WorkKind.DECIDE) == []
    table.clock.advance(seconds=ANY_AFTER.total_seconds())
    [work] = table.take(ANY_LANE, WorkKind.DECIDE)
    assert (work.key, work.lane) == ("q", "3f9c")
    # What is given back belongs first to the lane again.
    assert table.postpone(work, timedelta(seconds=1))
    table.clock.advance(seconds=1)
    assert table.taken(ANY_LANE, WorkKind.DECIDE) == []
    assert table.taken("3f9c", WorkKind.DECIDE) == ["q"]


def test_the_work_of_a_worker_that_died_is_due_again_after_its_lease(table: Table) -> None:
    table.put("q")
    [dead] = table.take()
    table.clock.advance(seconds=_LEASE_SECONDS - 1)
    assert table.taken() == []
    table.clock.advance(seconds=1)
    [again] = table.take()
    assert again.attempts == 2
    assert (table.done(dead), table.postpone(dead, timedelta(hours=1))) == (False, False)
    assert table.done(again)


def test_a_lease_is_extended_unless_it_is_lost(table: Table) -> None:
    table.put("q")
    [work] = table.take()
    table.clock.advance(seconds=_LEASE_SECONDS - 1)
    assert table.run(lambda connection: table.due.renew(connection, [work])) == []
    table.clock.advance(seconds=_LEASE_SECONDS - 1)
    assert table.taken() == []
    table.clock.advance(seconds=1)
    assert table.taken() == ["q"]
    assert table.run(lambda connection: table.due.renew(connection, [work])) == [work]


def test_an_event_during_the_work_is_not_lost_with_its_end(table: Table) -> None:
    table.put("q")
    [work] = table.take()
    table.put("q")
    assert not table.done(work)
    assert table.taken() == ["q"]


def test_a_process_that_stops_gives_its_work_back_without_an_attempt(table: Table) -> None:
    table.put("q")
    taken = table.take()
    table.run(lambda connection: table.due.release(connection, taken))
    [again] = table.take()
    assert again.attempts == 1


def test_the_waits_double_to_a_limit_and_the_last_try_makes_work_stuck_until_it_is_retried(table: Table) -> None:
    back_off = BackOff(timedelta(seconds=5), timedelta(seconds=12), tries=4)
    table.put("q")
    waits = []
    for _ in range(3):
        [work] = table.take()
        assert table.postpone(work, back_off, "no answer")
        [row] = table.rows()
        waits.append((row.due_at - table.clock.now()).total_seconds())
        table.clock.advance(seconds=waits[-1])
    assert waits == [5, 10, 12]
    [work] = table.take()
    table.postpone(work, back_off, "no answer")
    table.clock.advance(days=365)
    assert table.taken() == []
    [row] = table.rows()
    assert (row.due_at, row.taken, row.error, row.attempts) == (None, None, "no answer", 4)
    assert table.run(lambda connection: table.due.retry(connection, WorkKind.END, "q"))
    [work] = table.take()
    assert work.attempts == 1


def test_stuck_work_is_removed_after_a_time_in_which_nobody_retried_it(table: Table) -> None:
    table.put("a")
    [first] = table.take()
    assert table.postpone(first, None, "it failed")
    table.clock.advance(days=29)
    table.put("b")
    [second] = table.take()
    assert table.postpone(second, None, "it failed")
    assert table.run(table.due.remove_stuck) == 0
    table.clock.advance(days=2)
    assert table.run(table.due.remove_stuck) == 1
    assert table.run(table.due.remove_stuck) == 0


def test_put_makes_stuck_work_due(table: Table) -> None:
    table.put("q")
    [work] = table.take()
    table.postpone(work, None, "given up")
    table.put("q")
    [row] = table.rows()
    assert (row.attempts, row.error) == (0, None)
    assert table.taken() == ["q"]


def test_add_leaves_work_that_is_there(table: Table) -> None:
    table.put("seal", kind=WorkKind.JOB, seconds=60)
    table.run(lambda connection: table.due.add(connection, WorkKind.JOB, "seal"))
    table.run(lambda connection: table.due.add(connection, WorkKind.JOB, "count"))
    assert table.taken(kind=WorkKind.JOB) == ["count"]


def test_removed_work_is_not_due_and_its_worker_changes_nothing(table: Table) -> None:
    for key in ("a", "b", "c"):
        table.put(key)
    [first] = table.take(count=1)
    table.run(lambda connection: table.due.remove(connection, WorkKind.END, "a", "b"))
    assert not table.done(first)
    table.clock.advance(seconds=1)
    assert table.taken() == ["c"]


def test_the_work_of_a_user_is_removed_with_the_user(table: Table) -> None:
    for key, user_id in (("a", "ann"), ("b", "ben"), ("c", "ann")):
        table.put(key, user_id)
    assert table.run(lambda connection: table.due.remove_user(connection, "ann")) == 2
    assert [row.key for row in table.rows()] == ["b"]


def test_the_newest_work_of_one_user_is_next_however_much_of_another_waits(table: Table) -> None:
    at = table.clock.now()
    # The places that `put` gives, stored together because 20,000 commits take a minute.
    bulk = [
        {"kind": "end", "key": f"ann {n}", "lane": "", "user_id": "ann", "set_at": at, "attempts": 0}
        | {"due_at": at + timedelta(milliseconds=min(n, 1000))}
        for n in range(20_000)
    ]
    table.run(lambda connection: connection.execute(insert(due), bulk).close())
    table.clock.advance(seconds=30)
    table.put("ann 20000")
    table.put("ben", "ben")
    assert "ben" in table.taken(count=8)


def test_the_work_of_one_user_keeps_its_order_and_alternates_with_that_of_others(table: Table) -> None:
    for number in range(6):
        table.put(f"ann {number}")
    for number in range(3):
        table.put(f"ben {number}", "ben")
    table.clock.advance(seconds=1)
    found = table.taken(count=9)
    for user, count in (("ann", 6), ("ben", 3)):
        assert [key for key in found if key.startswith(user)] == [f"{user} {number}" for number in range(count)]
    assert set(found[:6]) == {f"{user} {number}" for user in ("ann", "ben") for number in range(3)}


def test_a_user_with_much_work_waits_at_most_a_second_longer_for_its_place(table: Table) -> None:
    def put_many(connection: Connection) -> None:
        for number in range(1_500):
            table.due.put(connection, WorkKind.END, str(number), user_id="ann")

    table.run(put_many)
    latest = max(row.due_at for row in table.rows())
    assert latest - table.clock.now() <= timedelta(seconds=1.001)


def test_work_that_waits_for_another_try_or_for_its_time_does_not_delay_new_work_of_its_user(table: Table) -> None:
    table.put("failed")
    [work] = table.take()
    table.put("expires", seconds=30)
    table.postpone(work, timedelta(seconds=1))
    table.put("new")
    assert table.taken() == ["new"]


def test_after_the_clock_was_set_back_everything_is_due(table: Table) -> None:
    table.put("q", seconds=5)
    table.put("stuck", kind=WorkKind.NOTICE)
    [work] = table.take(kind=WorkKind.NOTICE)
    table.postpone(work, None)
    table.clock.advance(hours=-3)
    table.put("new", seconds=5)
    assert table.run(table.due.correct_after_step) == 1
    assert table.taken() == ["q"]
    assert table.taken(kind=WorkKind.NOTICE) == []
    assert table.run(table.due.correct_after_step) == 0


def test_the_time_to_the_first_work_of_each_kind_and_lane_is_returned(table: Table) -> None:
    table.put("q", seconds=90)
    table.put("call", lane="add_task", kind=WorkKind.SETTLE)
    table.clock.advance(seconds=30)
    lanes = [("end", ""), ("settle", "add_task"), ("settle", "other"), ("notice", "")]
    now, firsts = table.run(lambda connection: table.due.first_due(connection, lanes))
    assert (now, firsts) == (table.clock.now(), {("end", ""): 60.0, ("settle", "add_task"): -30.0})


def test_by_the_own_clock_of_each_database_work_is_due_at_once(migrated_database: Database) -> None:
    table = DueTable(migrated_database)

    def put_all(connection: Connection) -> None:
        table.put(connection, WorkKind.END, "a", user_id="ann")
        table.put(connection, WorkKind.END, "b", user_id="ben")
        table.put(connection, WorkKind.END, "later", user_id="ann", after=timedelta(hours=1))

    migrated_database.write_now(put_all)
    taken = migrated_database.write_now(lambda connection: table.take(connection, WorkKind.END, token="t"))
    assert {work.key for work in taken} == {"a", "b"}
    [row] = migrated_database.read_now(lambda connection: connection.execute(select(due).where(due.c.key == "later")).all())
    assert row.due_at - row.set_at == timedelta(hours=1)
