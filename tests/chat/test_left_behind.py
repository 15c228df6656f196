"""What a process that stops in mid-turn leaves, at every commit of the turn, and who goes on with it."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import pytest

from graph_agent.chat.service import ChatAnswer, ChatService
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.db.lane import Work
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import DecisionContext, DecisionType
from graph_agent.reply.fixed import FAILURE_REPLY
from tests.chat.world import World

T = TypeVar("T")

_AFTER_THE_LEASE = {"seconds": 36}
_COMMITS = 40
"""More than a turn has: the loops below end by themselves."""


class StoppingDatabase(Database):
    """The same database, seen from a process that stops at its n-th commit, just before or just after it."""

    def __init__(self, database: Database, n: int, *, after: bool) -> None:
        super().__init__(database._lanes)
        self._n = n
        self._after = after
        self.stopped = asyncio.Event()
        self.wakes_up = asyncio.Event()

    async def write(self, work: Work[T]) -> T:
        self._n -= 1
        if self._n != 0:
            return await super().write(work)
        result = await super().write(work) if self._after else None
        self.stopped.set()
        await self.wakes_up.wait()
        return await super().write(work) if result is None else result


class Stopped:
    """A process that stopped in the middle of `send`, unless the turn has fewer commits than that."""

    def __init__(self, world: World, side: str, n: int, *, after: bool) -> None:
        self.database = StoppingDatabase(world.log if side == "log" else world.tasks, n, after=after)
        engine = world.engine(log=self.database if side == "log" else None)
        self.chat = ChatService(engine, self.database if side == "tasks" else world.tasks, clock=world.clock)
        self.sending: asyncio.Task[ChatAnswer] | None = None

    async def send(self, user: str, content: str, **wish: Any) -> bool:
        """Whether it stopped."""
        self.sending = asyncio.create_task(self.chat.send(user, content, **wish))
        stopped = asyncio.create_task(self.database.stopped.wait())
        await asyncio.wait({self.sending, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        return self.database.stopped.is_set()

    async def wake_up(self) -> ChatAnswer | ServiceError:
        """It goes on, hours too late, and gets whatever it gets."""
        self.database.wakes_up.set()
        assert self.sending is not None
        try:
            return await self.sending
        except ServiceError as refused:
            return refused


@pytest.fixture(params=[("log", False), ("log", True), ("tasks", False), ("tasks", True)], ids=str)
def side(request: pytest.FixtureRequest) -> tuple[str, bool]:
    found: tuple[str, bool] = request.param
    return found


async def test_the_same_request_goes_on_where_a_process_stopped(
    world: World, clock: ManualClock, side: tuple[str, bool]
) -> None:
    for n in range(1, _COMMITS):
        user = f"user{n}"
        left = Stopped(world, side[0], n, after=side[1])
        if not await left.send(user, "add milk", idem_key="k"):
            break
        clock.advance(**_AFTER_THE_LEASE)
        chat = world.chat()
        answer = await chat.send(user, "add milk", idem_key="k")
        assert answer.decision.effects == ["added 'milk'"], f"commit {n}"
        assert await world.descriptions(user) == ["milk"]
        late = await left.wake_up()
        assert late == answer or isinstance(late, ServiceError)
        assert await chat.send(user, "add milk", idem_key="k") == answer
        assert await world.descriptions(user) == ["milk"]
        shown = await chat.conversation(user, answer.conversation_id)
        assert [message.content for message in shown.messages] == ["add milk", answer.reply]
    assert 2 < n < _COMMITS
    assert {(status, outcome) for _, outcome, status in await world.decisions()} == {("completed", "SUCCESS:TASK_COMPLETED")}
    assert len(await world.decisions()) == n
    assert {state for state, _ in await world.turns()} == {"done"}


async def test_the_sweeper_ends_what_a_process_left_honestly(world: World, clock: ManualClock, side: tuple[str, bool]) -> None:
    for n in range(1, _COMMITS):
        user = f"user{n}"
        left = Stopped(world, side[0], n, after=side[1])
        if not await left.send(user, "add milk", idem_key="k"):
            break
        chat = world.chat()
        assert await chat.sweep() == 0
        clock.advance(**_AFTER_THE_LEASE)
        running = len([state for state, _ in await world.turns() if state == "running"])
        assert await chat.sweep() == running
        assert await chat.sweep() == 0
        done = await world.descriptions(user)
        late = await left.wake_up()
        answer = await chat.send(user, "add milk", idem_key="k")
        assert late == answer or isinstance(late, ServiceError)
        assert await world.descriptions(user) in ([], ["milk"])
        if done:
            # What was done is told, whether the turn got to its words or not.
            assert "milk" in answer.reply
            assert await world.descriptions(user) == done
    assert 2 < n < _COMMITS
    assert {state for state, _ in await world.turns()} == {"done"}
    assert "PENDING" not in {status for _, _, status in await world.decisions()}


async def test_a_confirmed_deletion_happens_once_wherever_a_process_stops(
    world: World, clock: ManualClock, side: tuple[str, bool]
) -> None:
    chat = world.chat()
    for n in range(1, _COMMITS):
        user = f"user{n}"
        conversation = (await chat.send(user, "add milk")).conversation_id
        await chat.send(user, "add bread", conversation_id=conversation)
        asks = await chat.send(user, "delete the milk task", conversation_id=conversation)
        assert asks.decision.decision_type is DecisionType.REQUEST_CONFIRMATION
        left = Stopped(world, side[0], n, after=side[1])
        stopped = await left.send(user, "yes", conversation_id=conversation, idem_key="k")
        if not stopped:
            break
        clock.advance(**_AFTER_THE_LEASE)
        answer = await chat.send(user, "yes", conversation_id=conversation, idem_key="k")
        assert answer.decision.decision_type is DecisionType.EXECUTE_PENDING, f"commit {n}"
        await left.wake_up()
        again = await chat.send(user, "yes", conversation_id=conversation)
        assert again.decision.decision_type is not DecisionType.EXECUTE_PENDING
        assert await world.descriptions(user) == ["bread"]
    assert 2 < n < _COMMITS


async def test_another_message_ends_the_turn_that_bars_its_conversation(world: World, clock: ManualClock) -> None:
    chat = world.chat()
    conversation = (await chat.send("ann", "hello")).conversation_id
    left = Stopped(world, "log", 2, after=True)
    assert await left.send("ann", "add milk", conversation_id=conversation)
    with pytest.raises(ServiceError) as busy:
        await chat.send("ann", "add eggs", conversation_id=conversation)
    assert busy.value.code == ServiceErrorCode.CONVERSATION_BUSY
    clock.advance(**_AFTER_THE_LEASE)
    assert (await chat.send("ann", "add eggs", conversation_id=conversation)).decision.effects == ["added 'eggs'"]
    assert await world.descriptions() == ["eggs"]
    assert (await world.said())[2:5] == ["add milk", FAILURE_REPLY, "add eggs"]
    await left.wake_up()
    assert await world.descriptions() == ["eggs"]


async def test_a_decision_without_a_turn_is_closed_once_it_is_old(world: World, clock: ManualClock) -> None:
    left = Stopped(world, "log", 2, after=False)
    steps = left.chat._engine.step(_context())
    walking = asyncio.create_task(_to_the_end(steps))
    await left.database.stopped.wait()
    chat = world.chat()
    clock.advance(minutes=5)
    assert await chat.sweep() == 0
    clock.advance(minutes=6)
    assert await chat.sweep() == 1
    assert await world.decisions() == [("RESPOND_ONLY", "ERROR:RESPONSE_GENERATION", "interrupted")]
    walking.cancel()
    await asyncio.wait({walking})
    assert len(await world.decisions()) == 1


def _context() -> DecisionContext:
    return DecisionContext(user_id="ann", message="hello", conversation_id="c")


async def _to_the_end(steps: Any) -> None:
    async for _ in steps:
        pass
