"""The promise about a yes at every front door: it is for the values that were shown and judged, and for no others."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from graph_agent.llm.scripted import ScriptedAdapter
from tests.chat.environment import Environment
from tests.front_doors.doors import DOORS, CommandLine, FrontDoor
from tests.loan_desk import CONSTITUTION, DIFFERENT, EQUAL, EXTEND, LoanDesk, conditions, fails
from tests.permission import permitted
from tests.scripted_turns import calls, done

HERE = pytest.mark.parametrize("kind", [one for one in DOORS if one is not CommandLine], ids=lambda kind: kind.__name__)
"""The doors of one process, which can have the desk of a test. The command line has the tasks."""


@pytest.fixture
def desk() -> LoanDesk:
    return LoanDesk(description="camera 1")


@pytest.fixture
async def door(environment: Environment, kind: Any, desk: LoanDesk) -> AsyncGenerator[FrontDoor]:
    """A front door at which Ann has been asked whether her loan is to be extended."""
    environment.tools = desk  # type: ignore[assignment]  # a server in place of the group of them
    environment.constitution, environment.model = CONSTITUTION, lambda: ScriptedAdapter([calls(EXTEND)] * 4)
    made: FrontDoor = kind(environment, conditions())
    async with made.opened():
        await made.ask_about("extend it", *EXTEND)
        yield made


@HERE
@pytest.mark.parametrize("change", DIFFERENT)
async def test_a_value_that_has_changed_asks_again_and_says_so(door: FrontDoor, desk: LoanDesk, change: str) -> None:
    changed, sentence = DIFFERENT[change]
    changed(desk)
    told = await door.answer(yes=True)
    assert desk.extended == 0
    assert sentence in told.replace("\\'", "'"), told


@HERE
@pytest.mark.parametrize("change", EQUAL)
async def test_an_equal_value_in_other_words_does_not_ask_again(door: FrontDoor, desk: LoanDesk, change: str) -> None:
    EQUAL[change](desk)
    await door.answer(yes=True)
    assert desk.extended == 1


@HERE
async def test_a_read_that_fails_after_the_yes_makes_no_call(door: FrontDoor, desk: LoanDesk) -> None:
    fails(desk)
    await door.answer(yes=True)
    assert desk.extended == 0


@pytest.mark.parametrize("changed", [True, False], ids=["preview", "nothing"])
async def test_a_value_that_has_changed_asks_again_in_a_terminal(environment: Environment, *, changed: bool) -> None:
    door = CommandLine(environment)
    await door.ask()
    if changed:
        task = {"task_id": await environment.task_id("call mom"), "description": "call dad"}
        assert (await environment.tools.execute(permitted("update_task", task, "ann", "renames"))).success
    told = await door.answer(yes=True)
    assert await environment.descriptions() == (["call dad"] if changed else [])
    assert ("What it acts on was 'call mom', and is now 'call dad'." in told) is changed, told


HOSTILE = {
    "a number beyond all": {"text": '{"a": 1e400}'},
    "a key twice": {"text": '{"a": 1, "a": 2}'},
    "deep": {"text": "[" * 2_000 + "]" * 2_000},
    "many keys": {f"k{number}": number for number in range(5_000)},
    "words of code": {"✓ Done": "x\nNothing was done.", "a\x1b[2J": "\u202e"},
}


@HERE
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
async def test_no_result_of_a_call_hides_that_it_was_made(door: FrontDoor, desk: LoanDesk, data: dict[str, Any]) -> None:
    desk.answers["extend"] = done(data)
    told = await door.answer(yes=True)
    assert desk.extended == 1
    assert "interrupted before" not in told
