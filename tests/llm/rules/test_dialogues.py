"""Conversations, told from beginning to end."""

from __future__ import annotations

from tests.llm.rules.world import World


async def test_a_bare_phrase_is_asked_about_and_yes_adds_it() -> None:
    world = World()
    asked = await world.says("groceries")
    assert (asked.kind, asked.reason, asked.called) == ("ask", "unclear_intent", [])
    assert asked.text == (
        "Would you like to add 'groceries' as a new task, or are you looking for an existing task about groceries?"
    )
    await world.says("add it")
    assert world.open == ["groceries"]


async def test_the_answer_to_a_bare_phrase_may_come_in_many_forms() -> None:
    for answer in ("yes", "yes please", "new task", "a new one", "the first", "yes add it", "Add it as a new task.", "1"):
        world = World()
        await world.says("milk and eggs")
        await world.says(answer)
        assert world.open == ["milk and eggs"], answer


async def test_a_bare_phrase_may_be_looked_for_or_dropped() -> None:
    world = World.of("buy groceries")
    await world.says("groceries")
    found = await world.says("the existing one")
    assert found.text == "Yes, 'buy groceries' is on your list, and still to do."
    await world.says("groceries")
    dropped = await world.says("neither")
    assert (dropped.kind, dropped.called) == ("answer", [])
    await world.says("groceries")
    await world.says("mark it as done")
    assert world.done == ["buy groceries"]


async def test_what_to_add_takes_the_next_phrase_but_not_a_greeting_or_another_request() -> None:
    world = World.of("water the plants")
    assert (await world.says("set a reminder")).text == "What should I add?"
    await world.says("to call mom tomorrow, please")
    assert world.open[0] == "call mom tomorrow"
    await world.says("add a task")
    assert (await world.says("hello")).kind == "answer"
    await world.says("add a task")
    assert (await world.says("show my list")).called == ["list_tasks"]
    await world.says("add a task")
    assert (await world.says("what's the weather like?")).kind == "decline"
    await world.says("add a task")
    await world.says("never mind")
    assert world.open == ["call mom tomorrow", "water the plants"]


async def test_several_matches_are_asked_about_and_settled_by_number_name_or_place() -> None:
    for answer in ("2", "the second one", "number two", "the oat one", "buy oat milk", "the last one"):
        world = World.of("buy milk", "buy oat milk")
        asked = await world.says("mark milk as done")
        assert (asked.kind, asked.reason) == ("ask", "multiple_matches")
        assert asked.text.splitlines()[1:] == ["1. buy milk", "2. buy oat milk"]
        await world.says(answer)
        assert world.done == ["buy oat milk"], answer


async def test_a_question_may_be_left_unanswered() -> None:
    world = World.of("buy milk", "buy oat milk")
    await world.says("delete milk")
    assert (await world.says("add buy bread to my list")).called == ["add_task"]
    await world.says("mark milk as done")
    assert (await world.says("none of them")).called == []
    await world.says("mark milk as done")
    assert (await world.says("what's the weather?")).kind == "decline"
    assert world.done == []


async def test_both_completes_all_that_were_listed() -> None:
    world = World.of("buy milk", "buy oat milk")
    await world.says("mark milk as done")
    await world.says("both")
    assert world.done == ["buy milk", "buy oat milk"]


async def test_the_number_means_the_list_the_user_saw() -> None:
    world = World.of("new", "done long ago", "old", completed=("done long ago",))
    await world.says("show pending tasks")
    await world.says("complete number 2")
    assert world.done == ["done long ago", "old"]


async def test_a_number_of_a_list_seen_before_never_means_another_task() -> None:
    world = World.of("buy milk", "buy milk and eggs")
    await world.says("show my tasks")
    world.tasks.pop(0)
    turn = await world.says("delete the first one")
    assert (turn.kind, turn.mutated) == ("ask", False)


async def test_it_means_the_task_just_spoken_of() -> None:
    world = World()
    await world.says("add a task to call mom")
    await world.says("mark it as done")
    assert world.done == ["call mom"]
    await world.says("rename it to call dad")
    assert world.done == ["call dad"]
    turn = await world.says("delete it")
    assert turn.text == "Delete 'call dad'? Please answer yes or no."


async def test_it_without_anything_spoken_of_is_asked_about() -> None:
    for message in ("that one", "it", "mark it as done", "delete that", "the other one", "complete this one"):
        turn = await World.of("a", "b").says(message)
        assert (turn.kind, turn.reason, turn.called) == ("ask", "missing_context", []), message


async def test_new_words_are_asked_for_and_taken() -> None:
    world = World.of("buy milk")
    asked = await world.says("change the milk task")
    assert asked.text == "What should 'buy milk' say instead?"
    await world.says("buy two litres of milk")
    assert world.open == ["buy two litres of milk"]


async def test_a_plan_is_offered_to_be_added() -> None:
    world = World()
    offered = await world.says("i need to clean the kitchen")
    assert (offered.kind, offered.text) == ("ask", "Would you like me to add 'clean the kitchen' as a task?")
    await world.says("sure")
    offered = await world.says("put milk on my shopping list")
    assert "I keep your task list only, not my shopping list." in offered.text
    await world.says("no")
    assert world.open == ["clean the kitchen"]


async def test_what_was_not_found_may_be_added() -> None:
    world = World()
    assert (await world.says("is vacuuming on my list?")).text == "No, I don't see 'vacuuming' on your list."
    await world.says("then add it")
    assert world.open == ["vacuuming"]


async def test_yes_and_no_mean_nothing_where_nothing_waits() -> None:
    world = World.of("a")
    for message in ("yes", "no", "ok", "sure", "nope", "go ahead"):
        turn = await world.says(message)
        assert (turn.kind, turn.called) == ("answer", []), message


async def test_a_deletion_refused_by_the_user_is_not_taken_up_again() -> None:
    world = World.of("buy milk", "call mom")
    assert (await world.says("delete milk")).kind == "confirm"
    assert (await world.says("show my list")).called == ["list_tasks"]
    assert (await world.says("yes")).called == []


async def test_emptying_the_list_leads_to_one_deletion_at_a_time() -> None:
    world = World.of("a", "b")
    asked = await world.says("clear my todo list")
    assert (asked.kind, asked.called) == ("ask", ["list_tasks"])
    assert (await world.says("all of them")).called == []
    asked = await world.says("clear my todo list")
    assert (await world.says("the second one")).text == "Delete 'b'? Please answer yes or no."
