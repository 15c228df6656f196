"""A confirmation can be used for one decision only."""

from __future__ import annotations

import asyncio

import pytest

from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.errors import RecordUnavailableError
from graph_agent.question.confirmations import ConfirmationStore
from tests.chat.conversations.conftest import action, use_of


async def test_a_confirmation_is_used_by_the_first_decision_and_by_it_again(
    migrated_database: Database, clock: ManualClock
) -> None:
    store = ConfirmationStore(migrated_database)
    asked = action(clock)
    decisions = ("d1", "d1", "d2", "d1")
    assert [await store.consume(use_of(asked, decision)) for decision in decisions] == [True, True, False, True]
    assert await store.consume(use_of(action(clock, "other"), "d2"))


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
