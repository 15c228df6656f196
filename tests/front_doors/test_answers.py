"""The promises about an answer at every front door: a yes counts once, for its own user; a no or the time ends a question."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from graph_agent.clock import ManualClock
from graph_agent.models.record import CallDisposition
from tests.chat.environment import Environment
from tests.front_doors.doors import DOORS, TASK, FrontDoor

EVERY = pytest.mark.parametrize("kind", DOORS, ids=lambda kind: kind.__name__)
WITH_CLOCK = pytest.mark.parametrize("kind", [one for one in DOORS if one.has_clock], ids=lambda kind: kind.__name__)


@pytest.fixture
async def door(environment: Environment, kind: Any) -> AsyncGenerator[FrontDoor]:
    """A front door at which Ann has been asked whether her task is to be deleted."""
    made: FrontDoor = kind(environment)
    async with made.opened():
        await made.ask()
        assert await environment.descriptions() == [TASK]
        yield made


async def deletions(environment: Environment) -> int:
    """Return how often the deletion was made."""
    made = [one for record in await environment.records() for one in record.invocations]
    return sum(one.tool_name == "delete_task" and one.disposition is CallDisposition.EXECUTED for one in made)


@EVERY
async def test_a_yes_counts_once(door: FrontDoor, environment: Environment) -> None:
    await door.answer(yes=True)
    assert (await environment.descriptions(), await deletions(environment)) == ([], 1)
    await door.answer(yes=True)
    assert await deletions(environment) == 1


@EVERY
async def test_the_yes_of_another_person_counts_for_nothing(door: FrontDoor, environment: Environment) -> None:
    await door.answer(yes=True, user="bob")
    assert await environment.descriptions() == [TASK]
    await door.answer(yes=True)
    assert await deletions(environment) == 1


@EVERY
async def test_a_no_ends_the_question(door: FrontDoor, environment: Environment) -> None:
    await door.answer(yes=False)
    await door.answer(yes=True)
    assert (await environment.descriptions(), await deletions(environment)) == ([TASK], 0)


@EVERY
async def test_two_yeses_at_two_front_doors_have_one_effect(door: FrontDoor, environment: Environment) -> None:
    await asyncio.gather(door.answer(yes=True), door.answer_elsewhere())
    assert (await environment.descriptions(), await deletions(environment)) == ([], 1)


@WITH_CLOCK
async def test_a_late_yes_does_nothing_and_its_user_is_told_so(
    door: FrontDoor, environment: Environment, clock: ManualClock
) -> None:
    clock.advance(minutes=6)
    assert door.late in await door.answer(yes=True)
    assert (await environment.descriptions(), await deletions(environment)) == ([TASK], 0)
