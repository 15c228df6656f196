"""From the opening row on, no failure is reported as if nothing had been called."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from graph_agent.cli.sending import send_with_key
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode, outcome_unknown
from graph_agent.ledger.operations import OperationLedger
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.task_server.tables import operations
from tests.chat.environment import Environment, LosingModel, calls, says

ADD = calls("add_task", description="milk")


async def test_a_turn_whose_end_cannot_be_recorded_has_an_unknown_outcome_and_the_same_key_continues_it(
    environment: Environment, tmp_path: Path
) -> None:
    log = Database.open(f"sqlite:///{tmp_path}/graph_agent.db")
    chat = environment.chat(LosingModel([ADD, says("Added.")], log), log=log)
    with pytest.raises(ServiceError) as unknown:
        await chat.send("ann", "add milk", idem_key="k")
    [(decision_id,)] = await environment.tasks.read(lambda c: list(c.exec_driver_sql("SELECT id FROM turns")))
    assert unknown.value.code is ServiceErrorCode.OUTCOME_UNKNOWN
    assert unknown.value.decision_id == decision_id
    assert "ask again with the same key" in unknown.value.message
    assert await environment.descriptions() == ["milk"]
    again = await environment.chat(ScriptedAdapter([says("Added.")])).send("ann", "add milk", idem_key="k")
    assert (again.decision_id, again.reply) == (decision_id, "Added.")
    assert await environment.descriptions() == ["milk"]


async def test_an_answer_that_cannot_be_stored_has_an_unknown_outcome(environment: Environment) -> None:
    chat = environment.chat(LosingModel([ADD, says("Added.")], environment.tasks))
    with pytest.raises(ServiceError) as unknown:
        await chat.send("ann", "add milk", idem_key="k")
    assert unknown.value.code is ServiceErrorCode.OUTCOME_UNKNOWN
    assert await environment.decisions() == [("INVOKE_TOOL", "SUCCESS:TASK_COMPLETED", "completed")]


async def test_a_repeated_request_that_cannot_be_recorded_still_has_an_unknown_outcome(
    environment: Environment, tmp_path: Path
) -> None:
    log = Database.open(f"sqlite:///{tmp_path}/graph_agent.db")
    chat = environment.chat(LosingModel([ADD, says("Added.")], log), log=log)
    for _ in range(2):
        with pytest.raises(ServiceError) as unknown:
            await chat.send("ann", "add milk", idem_key="k")
        assert unknown.value.code is ServiceErrorCode.OUTCOME_UNKNOWN


async def test_the_commands_send_a_key_and_ask_again_with_it(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer cannot be stored the first time; the second request with the same key gets it."""
    chat = environment.chat(ScriptedAdapter([ADD, says("Added.")]))
    complete, failures = chat._turns.complete, [outcome_unknown("lost")]

    async def fail_once(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return await complete(*arguments)

    monkeypatch.setattr(chat._turns, "complete", fail_once)
    answer = await send_with_key(chat, "ann", "add milk")
    assert answer.reply == "Added."
    assert await environment.descriptions() == ["milk"]
    forgotten = OperationLedger(environment.tasks, operations)
    assert await forgotten.prune(environment.clock.now()) == 0
    assert await forgotten.prune(environment.clock.now() + timedelta(seconds=1)) == 1
