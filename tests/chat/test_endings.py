"""Events of a turn that another process runs: by notifications of PostgreSQL, or by reading the record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from graph_agent.chat.endings import TurnEndings
from graph_agent.chat.service import ChatService
from graph_agent.chat.stream import NumberedEvent, TurnStream
from graph_agent.db.notifications import open_notifications
from graph_agent.testing import says
from graph_agent.turn.handle import TurnHandle
from tests.chat.environment import Environment, GatedModel, open_environment

NEVER = 3600.0
"""Seconds: a test that waits for this long has failed before."""


@pytest.fixture
async def shared(tmp_path: Path, migrated_postgresql_url: str) -> AsyncGenerator[Environment]:
    async with open_environment(tmp_path, None, url=migrated_postgresql_url) as environment:
        yield environment


def process(environment: Environment, url: str, model: GatedModel | None = None) -> ChatService:
    """Return the chat service of another process, which trusts notifications alone once they arrive."""
    endings = TurnEndings(open_notifications(environment.database, url, "test"), safety_seconds=NEVER)
    return ChatService(environment.engine(model), clock=environment.clock, endings=endings)


async def begin(chat: ChatService, model: GatedModel) -> TurnHandle[object]:
    run = await chat.start("ann", "hello")
    assert isinstance(run, TurnHandle)
    await model.asked.acquire()
    return run


@pytest.mark.postgresql
async def test_a_follower_is_notified_of_the_end_of_a_turn(shared: Environment, migrated_postgresql_url: str) -> None:
    model = GatedModel([says("Hello.")])
    owner, other = process(shared, migrated_postgresql_url, model), process(shared, migrated_postgresql_url)
    async with owner.listen(), other.listen():
        await until_messages_arrive(owner.endings, other.endings)
        run = await begin(owner, model)
        stream = TurnStream(other, shared.engines[1], poll_seconds=NEVER)
        events = await stream.subscribe(run.decision_id, "ann")
        assert events is not None
        received = asyncio.create_task(kinds(events))
        while not owner.endings.is_followed(run.decision_id):  # noqa: ASYNC110 (a notification sets it)
            await asyncio.sleep(0.01)
        model.gate.set()
        assert (await received)[-1] == "decision"


@pytest.mark.postgresql
async def test_without_notifications_a_follower_reads_the_record(shared: Environment, migrated_postgresql_url: str) -> None:
    model = GatedModel([says("Hello.")])
    # Nothing listens, as behind a pooler in transaction mode.
    owner, other = process(shared, migrated_postgresql_url, model), process(shared, migrated_postgresql_url)
    run = await begin(owner, model)
    events = await TurnStream(other, shared.engines[1], poll_seconds=0.01).subscribe(run.decision_id, "ann")
    assert events is not None
    received = asyncio.create_task(kinds(events))
    model.gate.set()
    assert (await received)[-1] == "decision"


async def kinds(events: AsyncIterator[NumberedEvent]) -> list[str]:
    return [numbered.event.kind.value async for numbered in events]


async def until_messages_arrive(*all_endings: TurnEndings) -> None:
    """Return when each process receives notifications, also its own."""
    for endings in all_endings:
        with endings.report("probe"):
            while not endings.is_followed("probe"):
                with all_endings[0].follow("probe", NEVER):
                    await asyncio.sleep(0.05)
