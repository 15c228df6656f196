"""A confirmation can be used for one decision only."""

from __future__ import annotations

import asyncio

import pytest

from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.errors import RecordUnavailableError
from graph_agent.ports import AskedConfirmations, EndedQuestion
from graph_agent.question.confirmations import ConfirmationStore
from graph_agent.record.audit_writer import MemoryConfirmations
from tests.chat.conversations.conftest import action, use_of


@pytest.fixture(params=["memory", "database"])
def store(request: pytest.FixtureRequest, migrated_database: Database, clock: ManualClock) -> AskedConfirmations:
    """Each store of confirmations: the one for a process without a database keeps the same promises."""
    migrated_database.clock = clock
    return MemoryConfirmations() if request.param == "memory" else ConfirmationStore(migrated_database)


async def test_a_confirmation_is_used_by_the_first_decision_and_by_it_again(
    store: AskedConfirmations, clock: ManualClock
) -> None:
    asked = action(clock)
    decisions = ("d1", "d1", "d2", "d1")
    assert [await store.consume(use_of(asked, decision)) for decision in decisions] == [True, True, False, True]
    assert await store.consume(use_of(action(clock, "other"), "d2"))


@pytest.mark.parametrize("yes", [True, False, None])
async def test_what_became_of_a_question_is_read_by_whoever_asked_it(
    store: AskedConfirmations, clock: ManualClock, yes: bool | None
) -> None:
    asked = action(clock)
    for _ in range(2):
        # A task that is run again asks again.
        await store.ask(asked, "ann", "d0")
    assert await store.ended(asked.id, "ann") is None
    assert await store.consume(use_of(asked, "d1", yes=yes))
    await store.ask(asked, "ann", "d0")
    assert await store.ended(asked.id, "ann") == EndedQuestion("d1")
    assert await store.ended(asked.id, "bob") is None
    assert not await store.consume(use_of(asked, "d2"))


@pytest.mark.parametrize("yes", [True, False, None])
async def test_another_answer_of_the_same_decision_uses_nothing(
    migrated_database: Database, clock: ManualClock, yes: bool | None
) -> None:
    store = ConfirmationStore(migrated_database)
    assert await store.consume(use_of(action(clock), "d", yes=yes))
    others = {True, False, None} - {yes}
    assert [await store.consume(use_of(action(clock), "d", yes=other)) for other in others] == [False, False]


async def test_one_of_many_concurrent_decisions_uses_a_confirmation(migrated_database: Database, clock: ManualClock) -> None:
    stores = [ConfirmationStore(migrated_database) for _ in range(12)]
    used = await asyncio.gather(*(store.consume(use_of(action(clock), f"d{n}")) for n, store in enumerate(stores)))
    assert sum(used) == 1


async def test_without_the_database_a_confirmation_cannot_be_used(migrated_database: Database, clock: ManualClock) -> None:
    migrated_database.close_now()
    with pytest.raises(RecordUnavailableError):
        await ConfirmationStore(migrated_database).consume(use_of(action(clock), "d"))


async def test_a_confirmation_whose_row_was_changed_from_outside_cannot_be_used(
    migrated_database: Database, clock: ManualClock
) -> None:
    store = ConfirmationStore(migrated_database, record_key=b"key")
    assert await store.consume(use_of(action(clock), "d1"))
    change = "UPDATE questions SET digest = 'other' WHERE id = 'p1'"
    migrated_database.write_now(lambda connection: connection.exec_driver_sql("DELETE FROM answers").close())
    migrated_database.write_now(lambda connection: connection.exec_driver_sql(change).close())
    assert not await store.consume(use_of(action(clock), "d1"))
