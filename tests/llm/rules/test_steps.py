"""One message that asks for several things, and results that are not what was hoped for."""

from __future__ import annotations

import pytest

from graph_agent.errors import ToolNotFoundError
from graph_agent.llm.declarations import TASK_TOOLS, select
from graph_agent.rules_model import RuleBasedAdapter
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, ToolDeclaration
from tests.llm.rules.world import REPLY_FORMS, World


def _batches(world_turn_batches: tuple[tuple[FunctionCall, ...], ...]) -> list[list[str]]:
    return [[call.name for call in batch] for batch in world_turn_batches]


@pytest.mark.parametrize(
    ("message", "batches"),
    [
        ("add milk and show my list", [["add_task", "list_tasks"]]),
        ("show my list and add milk", [["list_tasks", "add_task"]]),
        ("show my tasks and then mark the first one complete", [["list_tasks"], ["complete_task"]]),
        ("list my tasks then complete the grocery one", [["list_tasks"], ["complete_task"]]),
        ("list my tasks and complete laundry", [["list_tasks"], ["complete_task"]]),
        ("add call mom and delete the groceries task", [["add_task", "list_tasks"], ["delete_task"]]),
        ("mark groceries as done and show my list", [["list_tasks"], ["complete_task", "list_tasks"]]),
        ("rename laundry to wash the towels and mark groceries as done", [["list_tasks"], ["update_task", "complete_task"]]),
        ("remind me to call mom. Remind me to call dad.", [["add_task", "add_task"]]),
        ("add these tasks: a1, b2, c3, d4, e5, f6 and g7", [["add_task"] * 5, ["add_task"] * 2]),
        ("complete 1 and 2", [["list_tasks"], ["complete_task", "complete_task"]]),
    ],
)
async def test_independent_calls_go_together_and_dependent_ones_wait(message: str, batches: list[list[str]]) -> None:
    turn = await World.of("buy groceries", "do laundry").says(message)
    assert _batches(turn.batches) == batches


@pytest.mark.parametrize(
    ("message", "added"),
    [
        ("add milk, eggs and bread", ["milk, eggs and bread"]),
        ("add milk, eggs and bread as separate tasks", ["milk", "eggs", "bread"]),
        ("add three tasks: call Jo, buy soap, sweep", ["call Jo", "buy soap", "sweep"]),
        ("add the following to my list:\n- call Jo\n- buy soap, and milk", ["call Jo", "buy soap, and milk"]),
        ("add task buy pens and add task buy paper", ["buy pens", "buy paper"]),
        ("add clean the house and then show the guests around", ["clean the house and then show the guests around"]),
        ("remind me to read the book and then list the names", ["read the book and then list the names"]),
    ],
)
async def test_one_task_for_each_thing_only_where_that_is_said(message: str, added: list[str]) -> None:
    world = World()
    await world.says(message)
    assert sorted(world.open) == sorted(added)


async def test_the_first_one_is_not_the_task_added_a_moment_ago() -> None:
    world = World.of("b", "a")
    await world.says("add c and mark the first one as done")
    assert world.done == ["b"]


async def test_what_is_clear_is_done_and_the_rest_is_asked() -> None:
    world = World.of("buy milk", "buy oat milk", "walk the dog")
    turn = await world.says("mark the dog one as done and delete the milk task")
    assert world.done == ["walk the dog"]
    assert turn.kind == "ask"
    assert turn.text.startswith("Marked 'walk the dog' as done.")


async def test_two_deletions_are_taken_one_at_a_time() -> None:
    turn = await World.of("a1", "b2").says("delete the a1 task and delete the b2 task")
    assert (turn.kind, turn.mutated) == ("ask", False)


async def test_the_list_is_readable() -> None:
    turn = await World.of("buy milk", "call\nmom", completed=("buy milk",)).says("show my tasks")
    assert turn.text == "You have 2 tasks:\n1. [x] buy milk\n2. [ ] call mom"
    assert (await World().says("show my tasks")).text == "Your list is empty: you have no tasks yet."
    assert (await World().says("show completed tasks")).text == "You have no completed tasks."


async def test_what_is_done_already_is_said_to_be() -> None:
    turn = await World.of("buy milk", completed=("buy milk",)).says("mark buy milk as done")
    assert (turn.text, turn.mutated) == ("'buy milk' is already marked as done.", False)


async def test_an_open_task_is_meant_before_a_completed_one() -> None:
    world = World.of("buy milk", "buy oat milk", completed=("buy milk",))
    await world.says("i finished the milk task")
    assert world.done == ["buy milk", "buy oat milk"]


async def test_nothing_is_completed_or_deleted_on_half_a_match() -> None:
    for message in ("mark grocery shopping as done", "delete the grocery shopping task", "complete wash the car"):
        turn = await World.of("buy groceries", "wash the dishes").says(message)
        assert (turn.kind, turn.mutated) == ("ask", False), message


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("TIMEOUT_ERROR", "I don't know whether 'call mom' was added: please look at your list before you try again."),
        ("UNKNOWN_ERROR", "I don't know whether 'call mom' was added: please look at your list before you try again."),
        ("DATABASE_ERROR", "I couldn't add 'call mom'."),
        ("TOOL_NOT_FOUND", "I couldn't add 'call mom'."),
    ],
)
async def test_an_unknown_outcome_is_told_apart_from_a_failure(code: str, text: str) -> None:
    world = World(failing={"add_task": {"success": False, "data": None, "error": "secret", "error_code": code}})
    turn = await world.says("add a task to call mom")
    assert (turn.kind, turn.text) == ("answer", text)


async def test_a_list_that_cannot_be_read_is_said_to_be() -> None:
    world = World.of("a")
    for code in ("DATABASE_ERROR", "TIMEOUT_ERROR"):
        world.failing["list_tasks"] = {"success": False, "data": None, "error": "secret", "error_code": code}
        for message in ("show my list", "delete a", "clear my list"):
            turn = await world.says(message)
            assert turn.kind == "answer"
            assert "read your task list" in turn.text


@pytest.mark.parametrize("data", [None, [], {}, {"tasks": None}, {"tasks": [None, 1, {"id": 5}]}])
async def test_a_result_of_another_shape_is_survived(data: object) -> None:
    world = World(failing={"list_tasks": {"success": True, "data": data, "error": None, "error_code": None}})
    assert (await world.says("show my list")).text == "Your list is empty: you have no tasks yet."
    assert (await world.says("mark the first one as done")).kind == "ask"


async def test_a_deletion_done_within_the_turn_is_told() -> None:
    world = World.of("buy milk")
    world.failing["delete_task"] = {"success": True, "data": {"deleted": True}, "error": None, "error_code": None}
    assert (await world.says("delete the milk task")).text == "Deleted 'buy milk'."


async def test_only_offered_tools_are_called() -> None:
    world = World.of(
        "a",
    )
    world.tools = [*select(TASK_TOOLS, ["add_task"]), *REPLY_FORMS]
    assert (await world.says("add call mom")).called == ["add_task"]
    for message in ("show my list", "mark a as done", "delete the first one"):
        turn = await world.says(message)
        assert (turn.kind, turn.called) == ("decline", []), message


async def test_without_reply_forms_it_asks_and_declines_in_plain_text() -> None:
    world = World()
    world.tools = list(TASK_TOOLS)
    asked, declined = await world.says("groceries"), await world.says("what's the weather?")
    assert asked.text.startswith("Would you like to add 'groceries'")
    assert "only help with task management" in declined.text
    assert (asked.kind, declined.kind) == ("answer", "answer")


async def test_the_response_is_that_of_a_model() -> None:
    adapter = RuleBasedAdapter()
    answer = await adapter.generate(
        [LLMMessage(role="user", content="add milk")], list(TASK_TOOLS), 0.0, 10, system_instruction="x"
    )
    assert answer == LLMResponse(
        function_calls=[FunctionCall(name="add_task", arguments={"description": "milk"})], finish_reason="tool_calls"
    )
    assert adapter.model == "rules"


def test_declarations_are_chosen_by_name_in_order() -> None:
    adapter = RuleBasedAdapter()
    assert [tool.name for tool in adapter.get_tool_declarations(["list_tasks", "add_task"])] == ["list_tasks", "add_task"]
    with pytest.raises(ToolNotFoundError, match="no declaration for the tool 'fly'"):
        adapter.get_tool_declarations(["fly"])
    own = ToolDeclaration(name="fly", description="", parameters={})
    assert RuleBasedAdapter([own]).get_tool_declarations(["fly"]) == [own]


@pytest.mark.parametrize(
    ("message", "kind", "done"),
    [
        ("i finished the laundry so check it off", "answer", ["the laundry"]),
        ("i just finished the laundry cross that off my to do list", "answer", ["the laundry"]),
        ("i did the laundry already remove it from my list", "confirm", []),
        ("the laundry is done so remove it", "confirm", []),
        ("i changed my mind about the laundry take it off the list", "confirm", []),
    ],
)
async def test_a_report_and_an_order_to_strike_it_are_one_request(message: str, kind: str, done: list[str]) -> None:
    world = World.of("call mom", "the laundry")
    turn = await world.says(message)
    assert (turn.kind, world.done) == (kind, done)
    assert "the laundry" in turn.text


async def test_a_number_that_tells_a_time_is_no_place_on_the_list() -> None:
    turn = await World.of("a", "b", "c", "d", "e").says("cancel my reminder for 5")
    assert (turn.kind, turn.mutated) == ("ask", False)


async def test_completing_and_then_deleting_is_two_acts() -> None:
    world = World.of("call mom", "the laundry")
    turn = await world.says("mark the laundry as done and then delete the first one")
    assert (turn.kind, world.done) == ("confirm", ["the laundry"])
    assert "'call mom'" in turn.text
