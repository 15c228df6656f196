"""The operation ledger: an effect exists if and only if its row exists, also under concurrency."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from graph_agent.clock import SequentialIds
from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode
from graph_agent.ledger.operations import OTHER_REQUEST, VOIDED
from graph_agent.ledger.protocol import ResultEnvelope
from graph_agent.task_server.store import metadata
from tests.task_server.conftest import ToolsOnDatabase


async def test_the_same_key_twice_creates_one_task_and_returns_one_result(environment: ToolsOnDatabase) -> None:
    first = await environment.call("add_task", key="k", description="a")
    environment.clock.advance(minutes=1)
    assert await environment.call("add_task", key="k", description="a") == first
    assert await environment.descriptions() == ["a"]
    assert await environment.ledger() == [("k", "DONE")]


async def test_every_effect_has_a_ledger_row_even_without_a_key(environment: ToolsOnDatabase) -> None:
    task = await environment.add("a")
    await environment.call("update_task", task_id=task, description="b")
    await environment.call("complete_task", task_id=task)
    await environment.call("delete_task", task_id=task)
    assert [state for _, state in await environment.ledger()] == ["DONE"] * 4


async def test_a_failed_call_leaves_no_row_and_can_be_retried(environment: ToolsOnDatabase) -> None:
    missing = str(uuid.UUID(int=1))
    outcome = await environment.call("complete_task", key="k", task_id=missing)
    assert outcome.error_code is ToolErrorCode.NOT_FOUND
    assert await environment.ledger() == []
    assert await environment.add("a") == missing
    assert (await environment.call("complete_task", key="k", task_id=missing)).success


async def test_settling_a_finished_operation_returns_its_result(environment: ToolsOnDatabase) -> None:
    done = await environment.call("add_task", key="k", description="a")
    assert await environment.call("add_task", key="k", mode="settle", description="a") == done
    assert await environment.descriptions() == ["a"]


async def test_settling_first_voids_a_late_original(environment: ToolsOnDatabase) -> None:
    assert await environment.call("add_task", key="k", mode="settle", description="a") == VOIDED
    assert await environment.call("add_task", key="k", description="a") == VOIDED
    assert await environment.call("add_task", key="k", mode="settle", description="a") == VOIDED
    assert await environment.descriptions() == []
    assert await environment.ledger() == [("k", "VOID")]
    assert VOIDED.error_code is ToolErrorCode.TOOL_EXECUTION_ERROR


@pytest.mark.parametrize("mode", ["run", "settle"])
async def test_a_key_belongs_to_one_request_of_one_user(environment: ToolsOnDatabase, mode: str) -> None:
    task = await environment.add("a")
    await environment.call("complete_task", key="k", task_id=task)
    before = await environment.ledger()
    assert await environment.call("complete_task", "bob", key="k", mode=mode, task_id=task) == OTHER_REQUEST
    assert await environment.call("delete_task", key="k", mode=mode, task_id=task) == OTHER_REQUEST
    assert await environment.call("complete_task", key="k", mode=mode, task_id=str(uuid.UUID(int=9))) == OTHER_REQUEST
    assert OTHER_REQUEST.error_code is ToolErrorCode.VALIDATION_ERROR
    assert await environment.ledger() == before
    assert await environment.descriptions() == ["a"]


async def test_twenty_concurrent_deletions_under_one_key_return_the_same_receipt(environment: ToolsOnDatabase) -> None:
    task = await environment.add("a")
    outcomes = await asyncio.gather(*(environment.call("delete_task", key="k", task_id=task) for _ in range(20)))
    assert {str(outcome.data and outcome.data["preview"]) for outcome in outcomes} == {"a"}


async def test_concurrent_run_and_settle_agree(environment: ToolsOnDatabase) -> None:
    async def race(key: str) -> list[ResultEnvelope]:
        modes = ["run", "settle", "run", "settle"]
        return await asyncio.gather(*(environment.call("add_task", key=key, mode=mode, description=key) for mode in modes))

    answers = dict(zip("abcdefghij", await asyncio.gather(*map(race, "abcdefghij")), strict=True))
    assert {key: len({outcome.to_text() for outcome in outcomes}) for key, outcomes in answers.items()} == dict.fromkeys(
        answers, 1
    )
    done = {key for key, outcomes in answers.items() if outcomes[0].success}
    assert set(await environment.descriptions()) == done
    assert await environment.ledger() == [(key, "DONE" if key in done else "VOID") for key in "abcdefghij"]


async def test_two_servers_on_one_database_agree(database: Database, database_url: str) -> None:
    database.write_now(metadata.create_all)
    other = Database.open(database_url)
    # If each counted ids from the start, those of the two would collide.
    ids = SequentialIds()
    servers = [ToolsOnDatabase(database, ids), ToolsOnDatabase(other, ids)]

    async def race(key: str) -> bool:
        calls = [
            environment.call("add_task", key=key, mode=mode, description=key)
            for environment in servers
            for mode in ("run", "settle")
        ]
        outcomes = await asyncio.gather(*calls)
        assert len({outcome.to_text() for outcome in outcomes}) == 1
        return outcomes[0].success

    keys = [f"key {number:02}" for number in range(20)]
    done = await asyncio.gather(*map(race, keys))
    assert sorted(await servers[0].descriptions()) == [key for key, success in zip(keys, done, strict=True) if success]
    await other.close()


async def test_a_cancelled_call_leaves_both_effect_and_row_or_neither(environment: ToolsOnDatabase) -> None:
    calls = [asyncio.create_task(environment.call("add_task", key=f"k{number}", description="a")) for number in range(30)]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    settled = [await environment.call("add_task", key=f"k{number}", mode="settle", description="a") for number in range(30)]
    assert len(await environment.descriptions()) == sum(outcome.success for outcome in settled)
