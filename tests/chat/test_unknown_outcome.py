"""From the opening row on, no failure is reported as if nothing had been called."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from graph_agent.chat.leases import LEASE
from graph_agent.cli.runtime import send_with_key
from graph_agent.clock import ManualClock
from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.db.backend import Work
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.ledger.operations import OperationLedger
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import LLMMessage, LLMResponse, ToolDeclaration
from graph_agent.task_server.store import operations
from graph_agent.testing import calls, says
from tests.chat.environment import Environment, LosingModel
from tests.frozen_clock import pass_time
from tests.record.trees import verified

T = TypeVar("T")

ADD = calls("add_task", description="milk")


async def test_a_turn_whose_end_cannot_be_recorded_has_an_unknown_outcome_and_the_same_key_continues_it(
    environment: Environment, clock: ManualClock
) -> None:
    lost = environment.open_database(Database)
    chat = environment.chat(LosingModel([ADD, says("Added.")], lost), database=lost)
    with pytest.raises(ServiceError) as unknown:
        await pass_time(clock, chat.send("ann", "add milk", idem_key="k"))
    [(decision_id,)] = await environment.database.read(lambda c: list(c.exec_driver_sql("SELECT id FROM turns")))
    assert unknown.value.code is ServiceErrorCode.OUTCOME_UNKNOWN
    assert unknown.value.decision_id == decision_id
    assert "ask again with the same key" in unknown.value.message
    assert await environment.descriptions() == ["milk"]
    clock.advance(seconds=LEASE.total_seconds())
    again = await environment.chat(ScriptedAdapter([says("Added.")])).send("ann", "add milk", idem_key="k")
    assert (again.decision_id, again.reply) == (decision_id, "Added.")
    assert await environment.descriptions() == ["milk"]


class FailingDatabase(Database):
    """A database that takes no commit until a moment of the clock; `commits` counts the others."""

    clock: ManualClock
    down_until = 0.0
    lost: int = 0
    """The number of commits that take effect without being confirmed."""

    async def write(self, work: Work[T]) -> T:
        if self.clock.monotonic() < self.down_until:
            raise DatabaseUnavailableError
        result = await super().write(work)
        if self.lost:
            self.lost -= 1
            raise DatabaseUnavailableError(unknown=True)
        return result


class FailureBeforeAnswer(ScriptedAdapter):
    """A model after whose last response `fail` is called, just before the turn is closed."""

    def __init__(self, script: list[LLMResponse], fail: Callable[[], None]) -> None:
        super().__init__(script)
        self._left = len(script)
        self._fail = fail

    async def generate(self, messages: list[LLMMessage], tools: list[ToolDeclaration], *args: Any, **named: Any) -> LLMResponse:
        response = await super().generate(messages, tools, *args, **named)
        self._left -= 1
        if not self._left:
            self._fail()
        return response


@pytest.mark.parametrize("seconds", [3, 8])
async def test_a_database_that_is_down_at_the_end_of_a_turn_delays_its_answer(
    each_environment: Environment, clock: ManualClock, seconds: int
) -> None:
    database = each_environment.open_database(FailingDatabase)
    database.clock = clock

    def go_down() -> None:
        database.down_until = clock.monotonic() + seconds

    model = FailureBeforeAnswer([ADD, says("Added milk to your list.")], go_down)
    answer = await pass_time(clock, each_environment.chat(model, database=database).send("ann", "add milk", idem_key="k"))
    assert clock.monotonic() >= database.down_until
    assert (answer.reply, answer.decision.effects) == ("Added milk to your list.", ["Add task 'milk'"])
    assert await each_environment.decisions() == [("INVOKE_TOOL", "SUCCESS:TASK_COMPLETED", "completed")]
    assert await each_environment.chat().send("ann", "add milk", idem_key="k") == answer
    assert (await verified(each_environment.database, key=None)).violations == []
    await database.close()


async def test_a_closing_commit_that_is_not_confirmed_is_repeated_without_effect(
    each_environment: Environment, clock: ManualClock
) -> None:
    database = each_environment.open_database(FailingDatabase)
    database.clock = clock

    def lose_the_confirmation() -> None:
        database.lost = 2

    model = FailureBeforeAnswer([ADD, says("Added milk to your list.")], lose_the_confirmation)
    answer = await pass_time(clock, each_environment.chat(model, database=database).send("ann", "add milk", idem_key="k"))
    assert answer.reply == "Added milk to your list."
    assert await each_environment.said() == ["add milk", "Added milk to your list."]
    assert await each_environment.chat().send("ann", "add milk", idem_key="k") == answer
    assert (await verified(each_environment.database, key=None)).violations == []
    await database.close()


async def test_the_commands_send_a_key_and_ask_again_with_it(environment: Environment, clock: ManualClock) -> None:
    """No commit is confirmed before the deadline; the second request with the same key gets the answer."""
    database = environment.open_database(FailingDatabase)
    database.clock = clock

    def lose_every_confirmation() -> None:
        database.lost = 1_000_000

    chat = environment.chat(FailureBeforeAnswer([ADD, says("Added.")], lose_every_confirmation), database=database)
    answer = await pass_time(clock, send_with_key(chat.send, "ann", "add milk"))
    assert answer.reply == "Added."
    assert await environment.descriptions() == ["milk"]
    forgotten = OperationLedger(environment.database, operations)
    assert await forgotten.prune(clock.now() - timedelta(hours=1)) == 0
    assert await forgotten.prune(clock.now() + timedelta(seconds=1)) == 1
    await database.close()
