"""Notices about the calls that code refused: each names the action and the rule in the user's words."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.errors import ToolErrorCode
from graph_agent.models.decision import AgentDecision
from graph_agent.models.tools import ToolResult
from graph_agent.testing import says
from tests.scripted_turns import TableServer, asks, calls, done, engine_of, failed

LIST: tuple[str, dict[str, Any]] = ("list_tasks", {})
TASKS = done({"tasks": [{"id": f"t{number}", "description": f"task {number}"} for number in range(1, 9)]})


async def decided(*script: Any, preview: ToolResult | None = None) -> AgentDecision:
    previews = {} if preview is None else {"delete_task": preview, "complete_task": preview}
    server = TableServer(answers={"list_tasks": TASKS}, previews=previews)
    return await engine_of(*script, says("That is all."), server=server).process_message(asks())


def complete(number: int) -> tuple[str, dict[str, Any]]:
    return ("complete_task", {"task_id": f"t{number}"})


async def test_a_limit_of_the_constitution_names_the_calls_by_their_sentences() -> None:
    both = [calls(*map(complete, range(1, 4))), calls(*map(complete, range(4, 8)))]
    decision = await decided(calls(LIST), *both)
    # A call that is refused is not looked up.
    assert decision.notices == ["Not done: complete task 't6'; complete task 't7'. At most 5 per message (constitution)."]
    assert decision.response_text == "That is all."


async def test_more_actions_than_a_notice_describes_are_counted() -> None:
    rounds = [calls(*map(complete, range(1, 6))), calls(*(("complete_task", {"task_id": f"x{n}"}) for n in range(7)))]
    [notice, at_once] = (await decided(*rounds)).notices
    assert notice.startswith("Not done: complete task 'x0'; ")
    assert at_once == "Not done: complete task 'x5'; complete task 'x6'. At most 5 at once."


@pytest.mark.parametrize(
    ("call", "preview", "notice"),
    [
        (("drop_database", {"name": "tasks"}), None, "Not done: 1 action. Not in the constitution."),
        (("list_tasks", {"user_id": "bob"}), None, "Not done: list tasks (user 'bob'). Only your own data can be used."),
        (("add_task", {"name": "call mom"}), None, "Not done: add task. Its details were not valid."),
        (
            ("delete_task", {"task_id": "t9"}),
            failed(ToolErrorCode.NOT_FOUND),
            "Not done: delete task 't9'. It was not found.",
        ),
        (
            ("delete_task", {"task_id": "t9"}),
            failed(ToolErrorCode.DATABASE_ERROR),
            "Not done: delete task 't9'. It could not be looked up.",
        ),
    ],
    ids=["not listed", "another user", "arguments", "not found", "no preview"],
)
async def test_each_rule_is_named_in_the_users_words(call: Any, preview: ToolResult | None, notice: str) -> None:
    assert (await decided(calls(call), preview=preview)).notices == [notice]


async def test_a_call_that_the_model_corrects_has_no_notice() -> None:
    add = ("add_task", {"description": "call mom"})
    assert (await decided(calls(("add_task", {"name": "call mom"})), calls(add))).notices == []
    # Six at once are too many; the sixth is made in the next round.
    six = [("add_task", {"description": f"task {number}"}) for number in range(6)]
    assert (await decided(calls(*six), calls(six[-1]))).notices == []
