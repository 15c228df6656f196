"""The operation ledger: effect if and only if row, a key never acts twice, whatever comes at the same time."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode
from graph_agent.task_server.ledger import OTHER_REQUEST, VOIDED
from graph_agent.task_server.models import Outcome
from graph_agent.task_server.tables import metadata
from tests.task_server.conftest import World


async def test_the_same_key_twice_makes_one_task_and_gives_one_answer(world: World) -> None:
    first = await world.call("add_task", key="k", description="a")
    world.clock.advance(minutes=1)
    assert await world.call("add_task", key="k", description="a") == first
    assert await world.descriptions() == ["a"]
    assert await world.ledger() == [("k", "DONE")]


async def test_every_effect_has_its_row_also_without_a_key(world: World) -> None:
    task = await world.add("a")
    await world.call("update_task", task_id=task, description="b")
    await world.call("complete_task", task_id=task)
    await world.call("delete_task", task_id=task)
    assert [state for _, state in await world.ledger()] == ["DONE"] * 4


async def test_a_call_that_fails_leaves_no_row_and_may_be_tried_again(world: World) -> None:
    missing = str(uuid.UUID(int=1))
    outcome = await world.call("complete_task", key="k", task_id=missing)
    assert outcome.error_code is ToolErrorCode.NOT_FOUND
    assert await world.ledger() == []
    assert await world.add("a") == missing
    assert (await world.call("complete_task", key="k", task_id=missing)).success


async def test_a_repeated_delete_says_again_what_it_deleted(world: World) -> None:
    task = await world.add("a")
    first = await world.call("delete_task", key="k", task_id=task)
    assert await world.call("delete_task", key="k", task_id=task) == first
    assert first.data is not None
    assert first.data["receipt"] == "deleted 'a'"


async def test_settling_what_was_done_gives_its_answer(world: World) -> None:
    done = await world.call("add_task", key="k", description="a")
    assert await world.call("add_task", key="k", mode="settle", description="a") == done
    assert await world.descriptions() == ["a"]


async def test_settling_first_voids_a_late_original(world: World) -> None:
    assert await world.call("add_task", key="k", mode="settle", description="a") == VOIDED
    assert await world.call("add_task", key="k", description="a") == VOIDED
    assert await world.call("add_task", key="k", mode="settle", description="a") == VOIDED
    assert await world.descriptions() == []
    assert await world.ledger() == [("k", "VOID")]
    assert VOIDED.error_code is ToolErrorCode.TOOL_EXECUTION_ERROR


@pytest.mark.parametrize("mode", ["run", "settle"])
async def test_a_key_is_good_for_one_request_of_one_user(world: World, mode: str) -> None:
    task = await world.add("a")
    await world.call("complete_task", key="k", task_id=task)
    before = await world.ledger()
    assert await world.call("complete_task", "bob", key="k", mode=mode, task_id=task) == OTHER_REQUEST
    assert await world.call("delete_task", key="k", mode=mode, task_id=task) == OTHER_REQUEST
    assert await world.call("complete_task", key="k", mode=mode, task_id=str(uuid.UUID(int=9))) == OTHER_REQUEST
    assert OTHER_REQUEST.error_code is ToolErrorCode.VALIDATION_ERROR
    assert await world.ledger() == before
    assert await world.descriptions() == ["a"]


async def test_twenty_at_once_under_one_key_are_one(world: World) -> None:
    outcomes = await asyncio.gather(*(world.call("add_task", key="k", description="a") for _ in range(20)))
    assert len({outcome.to_text() for outcome in outcomes}) == 1
    assert outcomes[0].success
    assert await world.descriptions() == ["a"]


async def test_twenty_deletions_at_once_under_one_key_tell_the_same(world: World) -> None:
    task = await world.add("a")
    outcomes = await asyncio.gather(*(world.call("delete_task", key="k", task_id=task) for _ in range(20)))
    assert {str(outcome.data and outcome.data["receipt"]) for outcome in outcomes} == {"deleted 'a'"}


async def test_run_and_settle_at_once_agree(world: World) -> None:
    async def race(key: str) -> list[Outcome]:
        modes = ["run", "settle", "run", "settle"]
        return await asyncio.gather(*(world.call("add_task", key=key, mode=mode, description=key) for mode in modes))

    answers = dict(zip("abcdefghij", await asyncio.gather(*map(race, "abcdefghij")), strict=True))
    assert {key: len({outcome.to_text() for outcome in outcomes}) for key, outcomes in answers.items()} == dict.fromkeys(
        answers, 1
    )
    done = {key for key, outcomes in answers.items() if outcomes[0].success}
    assert set(await world.descriptions()) == done
    assert await world.ledger() == [(key, "DONE" if key in done else "VOID") for key in "abcdefghij"]


async def test_two_servers_on_one_database_agree(database: Database, database_url: str) -> None:
    database.write_now(metadata.create_all)
    other = Database.open(database_url)
    worlds = [World(database), World(other)]

    async def race(key: str) -> bool:
        calls = [world.call("add_task", key=key, mode=mode, description=key) for world in worlds for mode in ("run", "settle")]
        outcomes = await asyncio.gather(*calls)
        assert len({outcome.to_text() for outcome in outcomes}) == 1
        return outcomes[0].success

    # Each world counts its ids alone, so that the second one's first would collide with the first one's.
    worlds[1].tools = World(other).tools
    worlds[1].tools._ids = worlds[0].tools._ids
    keys = [f"key {number:02}" for number in range(20)]
    done = await asyncio.gather(*map(race, keys))
    assert sorted(await worlds[0].descriptions()) == [key for key, success in zip(keys, done, strict=True) if success]
    await other.close()


async def test_a_caller_that_gives_up_leaves_effect_and_row_or_neither(world: World) -> None:
    calls = [asyncio.create_task(world.call("add_task", key=f"k{number}", description="a")) for number in range(30)]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    settled = [await world.call("add_task", key=f"k{number}", mode="settle", description="a") for number in range(30)]
    assert len(await world.descriptions()) == sum(outcome.success for outcome in settled)
