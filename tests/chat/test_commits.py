"""The number of commits of a turn. Each is a wait for the disk, and a moment at which a process can die."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, TypeVar

import pytest

from graph_agent.bootstrap.toolbox import open_tools
from graph_agent.db import Database
from graph_agent.db.backend import Work
from graph_agent.errors import ServiceError
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import DecisionType
from graph_agent.models.llm import FunctionCall, LLMResponse
from graph_agent.testing import calls, says
from tests.chat.environment import Environment

T = TypeVar("T")

ADD = calls("add_task", description="milk")
LIST = calls("list_tasks")
BATCH = LLMResponse(
    function_calls=[
        FunctionCall(name="add_task", arguments={"description": "milk"}),
        FunctionCall(name="list_tasks", arguments={}),
        FunctionCall(name="add_task", arguments={"description": "bread"}),
    ],
    finish_reason="tool_calls",
)


class CountingDatabase(Database):
    """A database that counts its commits."""

    commits = 0

    async def write(self, work: Work[T]) -> T:
        self.commits += 1
        return await super().write(work)


@pytest.fixture
async def environment(each_environment: Environment) -> AsyncGenerator[Environment]:
    """An installation whose chat and task server share a database that counts."""
    database = each_environment.open_database(CountingDatabase)
    async with open_tools(database, each_environment.settings, clock=each_environment.clock) as tools:
        each_environment.database, each_environment.tools = database, tools
        yield each_environment
    await database.close()


async def commits_of(environment: Environment, content: str, *script: LLMResponse, **fields: Any) -> int:
    """Return the number of commits of one turn."""
    assert isinstance(environment.database, CountingDatabase)
    chat = environment.chat(ScriptedAdapter(script))
    before = environment.database.commits
    try:
        await chat.send("ann", content, **fields)
    except ServiceError:
        assert not script
    return environment.database.commits - before


@pytest.mark.parametrize(
    ("script", "commits"),
    [
        ([says("hi")], 2),
        ([LIST, says("None.")], 4),
        ([ADD, says("Added.")], 5),
        ([*[calls("add_task", description=f"{n}") for n in range(4)], says("Added.")], 14),
        ([BATCH, says("Added.")], 8),
    ],
    ids=["direct answer", "one read", "one write", "four rounds", "two writes and a read in one batch"],
)
async def test_a_turn_has_few_commits(environment: Environment, script: list[LLMResponse], commits: int) -> None:
    assert await commits_of(environment, "hello", *script) == commits


async def test_a_message_that_is_not_valid_has_one_commit(environment: Environment) -> None:
    assert await commits_of(environment, " ") == 1


async def test_a_confirmation_has_four_commits_when_it_is_asked_and_five_when_it_is_answered(environment: Environment) -> None:
    chat = environment.chat(ScriptedAdapter([ADD, says("Added.")]))
    conversation = (await chat.send("ann", "add milk")).conversation_id
    delete = calls("delete_task", task_id=await environment.task_id("milk"))
    assert await commits_of(environment, "delete it", LIST, delete, conversation_id=conversation) == 4
    assert await commits_of(environment, "yes", conversation_id=conversation) == 5
    assert await environment.descriptions() == []
    [*_, asked, confirmed] = [decision_type for decision_type, _, _ in await environment.decisions()]
    assert (asked, confirmed) == (DecisionType.REQUEST_CONFIRMATION, DecisionType.EXECUTE_PENDING)
