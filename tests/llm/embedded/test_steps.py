"""The calls of a turn, their order, and the reply to results of every kind."""

from __future__ import annotations

import pytest

from graph_agent.errors import ToolNotFoundError
from graph_agent.llm.embedded import EmbeddedAdapter
from graph_agent.llm.embedded.dialogue import Reply
from graph_agent.llm.embedded.planning import TASK_TOOLS as TASK_TOOL_NAMES
from graph_agent.llm.embedded.planning import next_step
from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMMessage, LLMResponse, ToolDeclaration
from graph_agent.models.llm import select_declarations as select
from graph_agent.reply.forms import REPLY_FORM_DECLARATIONS as REPLY_FORMS
from graph_agent.task_server.declarations import TASK_TOOLS
from tests.llm.embedded.environment import TaskConversation


def _batches(batches: tuple[tuple[FunctionCall, ...], ...]) -> list[list[str]]:
    return [[call.name for call in batch] for batch in batches]


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("show my tasks", "I see 2 tasks:"),
        ('delete the task "pay rent"', "I don't see 'pay rent' on your list."),
        ("mark all as done", "Which specific task are you referring to?"),
    ],
)
def test_a_list_that_is_too_long_to_read_is_not_taken_for_the_whole(message: str, says: str) -> None:
    tasks = [{"id": text, "description": text, "status": "pending"} for text in ("call mom", "buy milk")]
    notice = "only the first 2 of 60 are shown"
    read = FunctionResponse("list_tasks", {"success": True, "data": {"tasks": tasks}, "truncated": notice})
    reply = next_step([], message, [read], TASK_TOOL_NAMES)
    assert isinstance(reply, Reply)
    assert reply.text.startswith(f"Your list is too long for me to read at once: {notice}.")
    assert says in reply.text


@pytest.mark.parametrize(
    ("message", "batches"),
    [
        ("add milk and show my list", [["list_tasks"], ["add_task"]]),
        ("show my list and add milk", [["list_tasks"], ["add_task"]]),
        ("show my tasks and then mark the first one complete", [["list_tasks"], ["complete_task"]]),
        ("list my tasks then complete the grocery one", [["list_tasks"], ["complete_task"]]),
        ("list my tasks and complete laundry", [["list_tasks"], ["complete_task"]]),
        ("add call mom and delete the groceries task", [["list_tasks"], ["add_task", "delete_task"]]),
        ("mark groceries as done and show my list", [["list_tasks"], ["complete_task"]]),
        ("rename do laundry to wash the towels and mark groceries as done", [["list_tasks"], ["update_task", "complete_task"]]),
        ("remind me to call mom. Remind me to call dad.", [["add_task", "add_task"]]),
        ("add these tasks: a1, b2, c3, d4, e5, f6 and g7", [["add_task"] * 5, ["add_task"] * 2]),
        ("complete 1 and 2", [["list_tasks"], ["complete_task", "complete_task"]]),
    ],
)
async def test_the_list_is_read_first_and_the_changes_follow_in_order(message: str, batches: list[list[str]]) -> None:
    turn = await TaskConversation.of("buy groceries", "do laundry").says(message)
    assert _batches(turn.batches) == batches


@pytest.mark.parametrize(
    ("message", "added"),
    [
        ("add milk, eggs and bread", ["milk", "eggs", "bread"]),
        ("add milk and bread", ["milk and bread"]),
        ("add buy milk, eggs and bread", ["buy milk, eggs and bread"]),
        ("add milk and bread as separate tasks", ["milk", "bread"]),
        ("add three tasks: call Jo, buy soap, sweep", ["call Jo", "buy soap", "sweep"]),
        ("add Recital, Sat 18:00, St Mary's", ["Recital, Sat 18:00, St Mary's"]),
        ('add a task called "literature review, part II"', ["literature review, part II"]),
        ("add the following to my list:\n- call Jo\n- buy soap, and milk", ["call Jo", "buy soap, and milk"]),
        ("add task buy pens and add task buy paper", ["buy pens", "buy paper"]),
        ("add delete old photos off phone", ["delete old photos off phone"]),
        ("add book babysitter then show me everything", ["book babysitter"]),
        ("add clean the house and then show the guests around", ["clean the house and then show the guests around"]),
        ("remind me to read the book and then list the names", ["read the book and then list the names"]),
    ],
)
async def test_an_enumeration_of_three_things_or_of_chores_becomes_several_tasks(message: str, added: list[str]) -> None:
    environment = TaskConversation()
    await environment.says(message)
    assert sorted(environment.open) == sorted(added)


async def test_the_first_one_is_not_the_task_added_a_moment_ago() -> None:
    environment = TaskConversation.of("b", "a")
    await environment.says("add c and mark the first one as done")
    assert environment.done == ["b"]


async def test_the_list_is_shown_as_it_is_after_the_changes() -> None:
    turn = await TaskConversation.of("b", "a").says("show my list, complete the first one and add c")
    assert turn.text.splitlines()[:4] == ["You have 3 tasks:", "1. [ ] c", "2. [x] b", "3. [ ] a"]


async def test_as_long_as_something_is_unclear_nothing_is_changed() -> None:
    environment = TaskConversation.of("buy milk", "buy oat milk", "walk the dog")
    turn = await environment.says("mark the dog one as done and delete the milk task")
    assert environment.done == []
    assert turn.kind == "question"
    assert turn.text.startswith("Nothing was changed yet.\nWhich task should I delete?")


async def test_a_part_that_is_not_understood_is_named_and_nothing_of_the_message_is_done() -> None:
    for message in ("mark buy milk as done and fly", "fly, and mark buy milk as done", "mark buy milk as done. fly!"):
        environment = TaskConversation.of("buy milk", "call mom")
        turn = await environment.says(message)
        assert (turn.kind, turn.called) == ("question", []), message
        assert turn.text.startswith("I didn't understand 'fly"), message
        assert "so nothing was changed" in turn.text


async def test_two_deletions_are_taken_one_at_a_time() -> None:
    environment = TaskConversation.of("a1", "b2")
    turn = await environment.says("delete the a1 task and delete the b2 task")
    assert (turn.kind, turn.text) == ("confirm", "Delete task 'a1'. Should I go ahead? Please answer yes or no.")
    assert environment.open == ["a1", "b2"]


async def test_the_list_is_readable() -> None:
    turn = await TaskConversation.of("buy milk", "call\nmom", completed=("buy milk",)).says("show my tasks")
    assert turn.text == "You have 2 tasks:\n1. [x] buy milk\n2. [ ] call mom"
    assert (await TaskConversation().says("show my tasks")).text == "Your list is empty: you have no tasks yet."
    assert (await TaskConversation().says("show completed tasks")).text == "You have no completed tasks."


async def test_a_completed_task_is_reported_as_already_done() -> None:
    turn = await TaskConversation.of("buy milk", completed=("buy milk",)).says("mark buy milk as done")
    assert (turn.text, turn.mutated) == ("'buy milk' is already marked as done.", False)


async def test_an_open_task_takes_precedence_over_a_completed_one() -> None:
    environment = TaskConversation.of("buy milk", "buy oat milk", completed=("buy milk",))
    await environment.says("i finished the milk task")
    assert environment.done == ["buy milk", "buy oat milk"]


async def test_nothing_is_completed_on_half_a_match() -> None:
    for message in ("mark grocery shopping as done", "complete wash the car"):
        turn = await TaskConversation.of("buy groceries", "wash the dishes").says(message)
        assert (turn.kind, turn.mutated) == ("question", False), message


async def test_a_task_that_has_not_all_the_words_is_only_asked_about() -> None:
    environment = TaskConversation.of("buy groceries", "wash the dishes")
    turn = await environment.says("delete the dirty dishes")
    assert (turn.kind, turn.mutated) == ("question", False)
    assert turn.text == "I don't see 'dirty dishes' on your list. Is it 'wash the dishes' that I should delete?"
    turn = await environment.says("yes")
    assert (turn.kind, turn.text) == ("confirm", "Delete task 'wash the dishes'. Should I go ahead? Please answer yes or no.")


async def test_the_verb_alone_does_not_name_a_task() -> None:
    turn = await TaskConversation.of("call mom", "buy milk").says("mark call as done")
    assert (turn.kind, turn.mutated) == ("question", False)
    assert "Is it 'call mom' that I should mark as done?" in turn.text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("TIMEOUT_ERROR", "I don't know if I could add 'call mom'. Please look at your list before you try again."),
        ("UNKNOWN_ERROR", "I don't know if I could add 'call mom'. Please look at your list before you try again."),
        ("DATABASE_ERROR", "I couldn't add 'call mom'."),
        ("TOOL_NOT_FOUND", "I couldn't add 'call mom'."),
    ],
)
async def test_an_unknown_outcome_is_distinguished_from_a_failure(code: str, text: str) -> None:
    environment = TaskConversation(
        failing={"add_task": {"success": False, "data": None, "error": "secret", "error_code": code}}
    )
    turn = await environment.says("add a task to call mom")
    assert (turn.kind, turn.text) == ("answer", text)


async def test_a_failed_listing_is_reported() -> None:
    environment = TaskConversation.of("a")
    for code in ("DATABASE_ERROR", "TIMEOUT_ERROR"):
        environment.failing["list_tasks"] = {"success": False, "data": None, "error": "secret", "error_code": code}
        for message in ("show my list", "delete a", "clear my list"):
            turn = await environment.says(message)
            assert turn.kind == "answer"
            assert "read your task list" in turn.text


@pytest.mark.parametrize("data", [None, [], {}, {"tasks": None}, {"tasks": [None, 1, {"id": 5}]}])
async def test_a_result_of_another_shape_is_an_empty_list(data: object) -> None:
    environment = TaskConversation(failing={"list_tasks": {"success": True, "data": data, "error": None, "error_code": None}})
    assert (await environment.says("show my list")).text == "Your list is empty: you have no tasks yet."
    assert (await environment.says("mark the first one as done")).kind == "question"


async def test_a_deletion_within_the_turn_is_reported() -> None:
    environment = TaskConversation.of("buy milk")
    environment.failing["delete_task"] = {"success": True, "data": {"deleted": True}, "error": None, "error_code": None}
    assert (await environment.says("delete the milk task")).text == "Deleted 'buy milk'."


async def test_only_offered_tools_are_called() -> None:
    environment = TaskConversation.of(
        "a",
    )
    environment.tools = [*select(TASK_TOOLS, ["add_task"]), *REPLY_FORMS]
    assert (await environment.says("add call mom")).called == ["add_task"]
    for message in ("show my list", "mark a as done", "delete the first one"):
        turn = await environment.says(message)
        assert (turn.kind, turn.called) == ("refusal", []), message


async def test_without_reply_forms_it_asks_and_declines_in_plain_text() -> None:
    environment = TaskConversation()
    environment.tools = list(TASK_TOOLS)
    asked, declined = await environment.says("groceries"), await environment.says("what's the weather?")
    assert asked.text.startswith("Would you like to add 'groceries'")
    assert "only help with task management" in declined.text
    assert (asked.kind, declined.kind) == ("answer", "answer")


async def test_the_response_is_that_of_a_model() -> None:
    adapter = EmbeddedAdapter()
    answer = await adapter.generate(
        [LLMMessage(role="user", content="add milk")], list(TASK_TOOLS), 0.0, 10, system_instruction="x"
    )
    assert answer == LLMResponse(
        function_calls=[FunctionCall(name="add_task", arguments={"description": "milk"})], finish_reason="tool_calls"
    )
    assert adapter.model == "embedded"


def test_declarations_are_chosen_by_name_in_order() -> None:
    adapter = EmbeddedAdapter()
    assert [tool.name for tool in adapter.get_tool_declarations(["list_tasks", "add_task"])] == ["list_tasks", "add_task"]
    with pytest.raises(ToolNotFoundError, match="no declaration for the tool 'fly'"):
        adapter.get_tool_declarations(["fly"])
    own = ToolDeclaration(name="fly", description="", parameters={})
    assert EmbeddedAdapter([own]).get_tool_declarations(["fly"]) == [own]


async def test_the_number_of_a_time_is_no_place_on_the_list() -> None:
    turn = await TaskConversation.of("a", "b", "c", "d", "e").says("cancel my reminder for 5")
    assert (turn.kind, turn.mutated) == ("question", False)


async def test_completing_and_deleting_in_one_message_are_two_changes() -> None:
    environment = TaskConversation.of("call mom", "the laundry")
    turn = await environment.says("mark the laundry as done and then delete the first one")
    assert (turn.kind, environment.done) == ("confirm", ["the laundry"])
    assert "'call mom'" in turn.text
