"""The promises about approvals at every front door: a call is made once others approve it, and nobody else's answer counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pytest

from graph_agent.clock import ManualClock
from graph_agent.models.record import CallDisposition
from tests.chat.environment import Environment
from tests.chat.test_approvals import rules
from tests.front_doors.doors import APPROVING_DOORS, DOORS, TASK, WITHOUT_APPROVALS, FrontDoor


def at(kinds: Iterable[type[FrontDoor]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", list(kinds), ids=lambda kind: kind.__name__)


@pytest.fixture
async def door(environment: Environment, kind: Any) -> AsyncGenerator[FrontDoor]:
    """A front door at which Ann has requested a task that a manager has to approve."""
    made: FrontDoor = kind(environment, rules())
    async with made.opened():
        await made.ask_others()
        yield made


async def additions(environment: Environment) -> int:
    """Return how often the task was added."""
    assert await environment.descriptions("bob") == []
    made = [one for record in await environment.records() for one in record.invocations]
    added = sum(one.tool_name == "add_task" and one.disposition is CallDisposition.EXECUTED for one in made)
    assert await environment.descriptions() == [TASK] * added
    return added


def test_every_door_takes_approvals_or_has_a_reason() -> None:
    assert {*APPROVING_DOORS, *WITHOUT_APPROVALS} == {*DOORS}


@at(DOORS)
async def test_a_call_waits_for_its_approval_is_made_once_and_its_requester_reads_so(
    door: FrontDoor, environment: Environment
) -> None:
    assert await additions(environment) == 0
    for _ in range(2):
        await door.approve()
        assert await additions(environment) == 1
    assert door.done in await door.read()
    assert await additions(environment) == 1


@at(APPROVING_DOORS)
async def test_the_answer_of_one_who_may_not_approve_counts_for_nothing(door: FrontDoor, environment: Environment) -> None:
    for user, role in (("eve", "finance"), ("ann", "manager")):
        await door.approve(user=user, role=role)
        await door.approve(user=user, role=role, yes=False)
    assert await additions(environment) == 0
    await door.approve()
    assert await additions(environment) == 1


@at(DOORS)
async def test_a_denial_ends_the_request_and_its_requester_reads_so(door: FrontDoor, environment: Environment) -> None:
    await door.approve(yes=False)
    for user in ("bob", "carol"):
        await door.approve(user=user)
    assert "denied" in (await door.read()).lower()
    assert await additions(environment) == 0


@at(APPROVING_DOORS)
async def test_two_approvals_at_two_front_doors_have_one_effect(door: FrontDoor, environment: Environment) -> None:
    await asyncio.gather(door.approve(), door.approve_elsewhere())
    assert await additions(environment) == 1


@at(kind for kind in APPROVING_DOORS if kind.has_clock)
async def test_a_late_approval_does_nothing_and_its_person_is_told_so(
    door: FrontDoor, environment: Environment, clock: ManualClock
) -> None:
    clock.advance(hours=25)
    assert "expired" in await door.approve()
    assert await additions(environment) == 0


@at(WITHOUT_APPROVALS)
@pytest.mark.parametrize("user", ["bob", "ann"])
async def test_a_yes_at_a_door_without_approvals_approves_nothing(door: FrontDoor, environment: Environment, user: str) -> None:
    await door.answer(yes=True, user=user)
    assert await additions(environment) == 0
    await door.approve()
    assert await additions(environment) == 1
