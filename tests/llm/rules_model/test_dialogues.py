"""Conversations from their beginning to their end."""

from __future__ import annotations

import pytest

from graph_agent.llm.rules_model import replies
from tests.llm.rules_model.environment import Environment


async def test_a_bare_phrase_is_asked_about_and_yes_adds_it() -> None:
    environment = Environment()
    asked = await environment.says("groceries")
    assert (asked.kind, asked.reason, asked.called) == ("question", "unclear_intent", [])
    assert asked.text == (
        "Would you like to add 'groceries' as a new task, or are you looking for an existing task about groceries?"
    )
    await environment.says("add it")
    assert environment.open == ["groceries"]


async def test_the_answer_to_a_bare_phrase_may_come_in_many_forms() -> None:
    for answer in ("yes", "yes please", "new task", "a new one", "the first", "yes add it", "Add it as a new task.", "1"):
        environment = Environment()
        await environment.says("milk and eggs")
        await environment.says(answer)
        assert environment.open == ["milk and eggs"], answer


async def test_a_bare_phrase_may_be_looked_for_or_dropped() -> None:
    environment = Environment.of("buy groceries")
    await environment.says("groceries")
    found = await environment.says("the existing one")
    assert found.text == "'buy groceries' is on your list, still to do."
    await environment.says("groceries")
    dropped = await environment.says("neither")
    assert (dropped.kind, dropped.called) == ("answer", [])
    await environment.says("groceries")
    await environment.says("mark it as done")
    assert environment.done == ["buy groceries"]


async def test_what_to_add_takes_the_next_phrase_but_not_a_greeting_or_another_request() -> None:
    environment = Environment.of("water the plants")
    assert (await environment.says("set a reminder")).text == "What should I add?"
    await environment.says("to call mom tomorrow, please")
    assert environment.open[0] == "call mom tomorrow"
    await environment.says("add a task")
    assert (await environment.says("hello")).kind == "answer"
    await environment.says("add a task")
    assert (await environment.says("show my list")).called == ["list_tasks"]
    await environment.says("add a task")
    assert (await environment.says("what's the weather like?")).kind == "refusal"
    await environment.says("add a task")
    await environment.says("never mind")
    assert environment.open == ["call mom tomorrow", "water the plants"]


async def test_several_matches_are_asked_about_and_settled_by_number_name_or_place() -> None:
    for answer in ("2", "the second one", "number two", "the oat one", "buy oat milk", "the last one"):
        environment = Environment.of("buy milk", "buy oat milk")
        asked = await environment.says("mark milk as done")
        assert (asked.kind, asked.reason) == ("question", "multiple_matches")
        assert asked.text.splitlines()[1:] == ["1. buy milk", "2. buy oat milk"]
        await environment.says(answer)
        assert environment.done == ["buy oat milk"], answer


async def test_a_question_may_be_left_unanswered() -> None:
    environment = Environment.of("buy milk", "buy oat milk")
    await environment.says("delete milk")
    assert (await environment.says("add buy bread to my list")).called == ["add_task"]
    await environment.says("mark milk as done")
    assert (await environment.says("none of them")).called == []
    await environment.says("mark milk as done")
    assert (await environment.says("what's the weather?")).kind == "refusal"
    assert environment.done == []


async def test_both_completes_all_that_were_listed() -> None:
    environment = Environment.of("buy milk", "buy oat milk")
    await environment.says("mark milk as done")
    await environment.says("both")
    assert environment.done == ["buy milk", "buy oat milk"]


async def test_the_number_means_the_list_the_user_saw() -> None:
    environment = Environment.of("new", "done long ago", "old", completed=("done long ago",))
    await environment.says("show pending tasks")
    await environment.says("complete number 2")
    assert environment.done == ["done long ago", "old"]


async def test_a_number_of_a_list_seen_before_never_means_another_task() -> None:
    environment = Environment.of("buy milk", "buy milk and eggs")
    await environment.says("show my tasks")
    environment.tasks.pop(0)
    turn = await environment.says("delete the first one")
    assert (turn.kind, turn.mutated) == ("question", False)


async def test_it_means_the_task_just_spoken_of() -> None:
    environment = Environment()
    await environment.says("add a task to call mom")
    await environment.says("mark it as done")
    assert environment.done == ["call mom"]
    await environment.says("rename it to call dad")
    assert environment.done == ["call dad"]
    turn = await environment.says("delete it")
    assert turn.text == "Delete 'call dad'. Should I go ahead? Please answer yes or no."


async def test_it_without_anything_spoken_of_is_asked_about() -> None:
    for message in ("that one", "it", "mark it as done", "delete that", "the other one", "complete this one"):
        turn = await Environment.of("a", "b").says(message)
        assert (turn.kind, turn.reason, turn.called) == ("question", "missing_context", []), message


async def test_new_words_are_asked_for_and_taken() -> None:
    environment = Environment.of("buy milk")
    asked = await environment.says("change the milk task")
    assert asked.text == "What should 'buy milk' say instead?"
    await environment.says("buy two litres of milk")
    assert environment.open == ["buy two litres of milk"]


async def test_a_plan_is_offered_to_be_added() -> None:
    environment = Environment()
    offered = await environment.says("i need to clean the kitchen")
    assert (offered.kind, offered.text) == ("question", "Would you like me to add 'clean the kitchen' as a task?")
    await environment.says("sure")
    offered = await environment.says("put milk on my shopping list")
    assert "I keep only one list, your tasks, and not 'my shopping list'." in offered.text
    await environment.says("no")
    assert environment.open == ["clean the kitchen"]


async def test_what_was_not_found_may_be_added() -> None:
    environment = Environment()
    assert (await environment.says("is vacuuming on my list?")).text == "No, I don't see 'vacuuming' on your list."
    await environment.says("then add it")
    assert environment.open == ["vacuuming"]


async def test_yes_and_no_mean_nothing_where_nothing_waits() -> None:
    environment = Environment.of("a")
    for message in ("yes", "no", "ok", "sure", "nope", "go ahead"):
        turn = await environment.says(message)
        assert (turn.kind, turn.called) == ("answer", []), message


async def test_a_deletion_refused_by_the_user_is_not_taken_up_again() -> None:
    environment = Environment.of("buy milk", "call mom")
    assert (await environment.says("delete milk")).kind == "confirm"
    assert (await environment.says("show my list")).called == ["list_tasks"]
    assert (await environment.says("yes")).called == []


async def test_emptying_the_list_leads_to_one_deletion_at_a_time() -> None:
    environment = Environment.of("a", "b")
    asked = await environment.says("clear my todo list")
    assert (asked.kind, asked.called) == ("question", ["list_tasks"])
    again = await environment.says("all of them")
    assert (again.kind, again.text) == ("confirm", "Delete 'a'. Should I go ahead? Please answer yes or no.")
    assert environment.open == ["a", "b"]


async def test_all_tasks_are_completed_together_and_an_exception_is_left() -> None:
    environment = Environment.of("buy milk", "call mom", "pay rent")
    await environment.says("mark everything as done except rent")
    assert (environment.open, environment.done) == (["pay rent"], ["buy milk", "call mom"])
    await environment.says("complete everything")
    assert environment.open == []


async def test_only_the_completed_tasks_are_asked_about() -> None:
    for message in ("remove all completed tasks", "clear completed", "delete the finished ones"):
        environment = Environment.of("buy milk", "call mom", completed=("call mom",))
        turn = await environment.says(message)
        assert turn.text == "Delete 'call mom'. Should I go ahead? Please answer yes or no.", message


async def test_a_deletion_is_corrected_by_place_or_name() -> None:
    for answer in ("no wait, the third one", "no, the third", "no, rent", "sorry, not that one, the rent one"):
        environment = Environment.of("buy milk", "call mom", "pay rent")
        await environment.says("delete the first one")
        turn = await environment.says(answer)
        assert turn.text == "Delete 'pay rent'. Should I go ahead? Please answer yes or no.", answer


async def test_yes_to_which_one_takes_the_only_option_or_begins_with_the_first_deletion() -> None:
    environment = Environment.of("buy milk", "call mom")
    await environment.says("delete all my tasks")
    assert (await environment.says("yes")).text == "Delete 'buy milk'. Should I go ahead? Please answer yes or no."


async def test_a_time_changes_only_the_time_of_a_task() -> None:
    environment = Environment.of("dentist appointment thursday at 3", "buy milk")
    await environment.says("change the dentist appointment to Friday at 10")
    await environment.says("actually make it 11am")
    assert environment.open == ["dentist appointment Friday 11am", "buy milk"]


async def test_a_question_about_one_task_is_answered_from_the_list() -> None:
    environment = Environment.of("pay rent", "call mom", completed=("call mom",))
    assert (await environment.says("did i already pay rent?")).text == "'pay rent' is on your list, still to do."
    assert (await environment.says("have i called mom yet?")).text == "'call mom' is on your list, marked as done."
    await environment.says("what about the dentist?")
    await environment.says("add it")
    assert environment.open == ["dentist", "pay rent"]


async def test_a_change_is_corrected_by_naming_what_was_meant() -> None:
    environment = Environment.of("pay rent", "buy milk")
    await environment.says("add buy bread")
    await environment.says("no not bread, buns")
    assert environment.open == ["buy buns", "pay rent", "buy milk"]
    await environment.says("complete milk")
    await environment.says("not milk, rent")
    assert environment.done == ["pay rent", "buy milk"]


async def test_several_things_are_reported_together() -> None:
    environment = Environment.of("bread", "butter", "almond milk")
    await environment.says("bought bread and butter")
    await environment.says("got the milk")
    assert environment.done == ["bread", "butter", "almond milk"]


async def test_cancelling_what_was_just_done_deletes_a_new_task_and_else_says_that_it_cannot_be_undone() -> None:
    environment = Environment.of("buy milk")
    await environment.says("add buy bread")
    assert (await environment.says("cancel that")).text == "Delete 'buy bread'. Should I go ahead? Please answer yes or no."
    await environment.says("no")
    await environment.says("complete milk")
    assert (await environment.says("cancel that")).text.startswith("I can't undo a change.")


async def test_the_other_one_is_the_second_of_two_that_were_listed() -> None:
    environment = Environment.of("call dentist", "buy gift")
    await environment.says("show my tasks")
    await environment.says("complete the first one")
    await environment.says("and the other one is done too")
    assert environment.done == ["call dentist", "buy gift"]
    turn = await environment.says("delete the other one")
    assert turn.text == "Delete 'call dentist'. Should I go ahead? Please answer yes or no."


async def test_new_words_after_a_refused_deletion_change_the_task_that_was_shown() -> None:
    environment = Environment.of("fix lamp", "wash rug")
    await environment.says("delete fix lamp")
    await environment.says("no")
    turn = await environment.says("change it to fix desk lamp")
    assert (turn.kind, environment.open) == ("answer", ["fix desk lamp", "wash rug"])


async def test_a_new_time_instead_replaces_the_time_of_the_task_just_added() -> None:
    environment = Environment()
    await environment.says("remind me to pack the tent on saturday")
    await environment.says("make it friday instead")
    assert environment.open == ["pack the tent friday"]


async def test_a_correction_inside_a_message_adds_only_what_was_meant() -> None:
    environment = Environment()
    await environment.says("add call mum, no wait, call dad")
    assert environment.open == ["call dad"]


async def test_another_list_is_not_taken_for_the_task_list() -> None:
    for message in (
        "add mop to my household list",
        "i need oranges added to my grocery list",
        "take milk off my shopping list",
    ):
        environment = Environment.of("buy milk")
        turn = await environment.says(message)
        assert "I keep only one list" in turn.text, message
        assert environment.open == ["buy milk"], message


async def test_what_was_said_before_tells_which_task_is_meant() -> None:
    environment = Environment.of("clean the kitchen", "clean the bathroom")
    await environment.says("i cleaned")
    await environment.says("the bathroom")
    await environment.says("the other one too")
    assert environment.open == []
    await environment.says("add pack the suitcase")
    await environment.says("also find the charger")
    await environment.says("i packed it")
    assert environment.open == ["find the charger"]
    await environment.says("remind me to call the vet at 5")
    await environment.says("make it 6")
    assert environment.open[0] == "call the vet at 6"


async def test_the_rest_is_what_is_still_open_and_a_place_shows_the_list() -> None:
    environment = Environment.of("wash the car", "mow the lawn", "call the bank", completed=("call the bank",))
    await environment.says("show my tasks")
    assert "You have 2 pending tasks" in (await environment.says("what about the rest")).text
    assert "2. [ ] mow the lawn" in (await environment.says("what's the second one on my list")).text


async def test_what_cannot_be_done_is_said_and_nothing_changes() -> None:
    environment = Environment.of("wash the car", "mow the lawn")
    await environment.says("1 and 2 are done")
    assert "can't mark a task as not done" in (await environment.says("oops, not 2")).text
    for message in ("will you ring then?", "wake me at 7 tomorrow", "will you ping me when it's time to call the bank?"):
        assert "no alarm" in (await environment.says(message)).text, message
    await environment.says("remove everything")
    kept = await environment.says("ok no, keep them")
    assert (kept.text, environment.done) == ("All right, nothing was changed.", ["wash the car", "mow the lawn"])


async def test_both_and_all_mean_what_was_just_changed_together() -> None:
    for message in ("mark it all done", "all done", "both are done", "mark them as done"):
        environment = Environment.of("wash the car", "mow the lawn")
        await environment.says("show my tasks")
        await environment.says("add buy bread and add call the bank")
        await environment.says(message)
        assert (environment.open, environment.done) == (["wash the car", "mow the lawn"], ["call the bank", "buy bread"]), (
            message
        )


async def test_what_it_is_not_and_what_it_is_correct_the_task_just_added() -> None:
    for message in ("the present isn't for dad it's for uncle bill", "it's not for dad, it's for uncle bill"):
        environment = Environment()
        await environment.says("remind me to buy a present for dad")
        await environment.says(message)
        assert environment.open == ["buy a present for uncle bill"], message


async def test_the_other_one_corrects_which_task_was_meant() -> None:
    environment = Environment.of("fix lamp", "fix door")
    await environment.says("mark the fix task as done")
    await environment.says("1")
    await environment.says("no i meant the other one")
    assert environment.done == ["fix lamp", "fix door"]
    environment = Environment.of("fix lamp", "fix door")
    await environment.says("delete the fix task")
    await environment.says("1")
    turn = await environment.says("no i meant the other one")
    assert turn.text == "Delete 'fix door'. Should I go ahead? Please answer yes or no."


async def test_new_words_instead_of_an_answer_to_a_deletion_change_the_task() -> None:
    environment = Environment.of("fix lamp", "wash rug")
    await environment.says("delete fix lamp")
    await environment.says("no, change it to fix desk lamp")
    assert environment.open == ["fix desk lamp", "wash rug"]


async def test_three_things_are_three_tasks_but_a_chore_with_three_things_is_one() -> None:
    environment = Environment()
    await environment.says("add eggs, butter and flour to my list")
    assert environment.open == ["flour", "butter", "eggs"]
    assert (await environment.says("i got the eggs")).text == "Marked 'eggs' as done."
    await environment.says("add buy candles, matches and a torch")
    assert environment.open == ["buy candles, matches and a torch", "flour", "butter"]


async def test_the_shown_status_and_the_day_of_a_task_change_with_a_short_answer() -> None:
    environment = Environment.of("dentist on monday", "send the invoice", "clean the fridge")
    await environment.says("the dentist is on tuesday now")
    await environment.says("at 3pm")
    assert environment.open == ["dentist on tuesday at 3pm", "send the invoice", "clean the fridge"]
    await environment.says("mark the invoice done")
    await environment.says("oops wrong one, i meant the fridge")
    assert environment.done == ["send the invoice", "clean the fridge"]
    assert (await environment.says("and the open ones")).text == "You have 1 pending task:\n1. [ ] dentist on tuesday at 3pm"


@pytest.mark.parametrize(
    ("tasks", "messages", "after"),
    [
        (["wash car"], ["need milk", "also eggs"], ["eggs", "milk", "wash car"]),
        (["dentist tuesday 3pm"], ["dentist moved to thursday", "and 4pm not 3"], ["dentist thursday 4pm"]),
        (["dentist thursday 3pm"], ["dentist moved to friday", "its at 2.30 sorry"], ["dentist friday at 2.30"]),
        (["mow lawn", "put bins out"], ["mark bins done", "oh no thats wrong it was the lawn i did"], []),
        (["tidy toys", "run"], ["remove toys", "hmm actually keep it and just mark it done"], ["run"]),
        (["run"], ["add sort shed", "actually call it sort the shed with dave"], ["sort the shed with dave", "run"]),
        (["run"], ["add buy ham and add call nan", "oops not the ham we have some", "yes"], ["call nan", "run"]),
        (
            ["run", "book haircut"],
            ["change haircut to long haircut", "put wednesday on it"],
            ["run", "book long haircut wednesday"],
        ),
        (["run"], ["add: print map, book train", "the second one by friday"], ["book train by friday", "print map", "run"]),
        (["run"], ["call plumber at 8", "i mean 8:30"], ["call plumber at 8:30", "run"]),
        (["run"], ["add dentist", "for leo", "tues 4.15"], ["dentist for leo tues 4.15", "run"]),
        (["clean lamp", "clean rug", "run"], ["delete the clean tasks", "not the lamp", "yes"], ["clean lamp", "run"]),
        (["sand door", "run", "swim"], ["whats the 2nd thing", "thats done"], ["sand door", "swim"]),
        (
            ["ask karin", "run"],
            ["karin said so thats done", "hm actually not. add call karin"],
            ["call karin", "ask karin", "run"],
        ),
        (["fix gate", "wash windows", "run"], ["mark the gate as done", "sorry not the gate, the windows"], ["run"]),
        (["run"], ["add clean car and clean bike", "the first one is done already", "remove the other", "yes"], ["run"]),
        (["pay rent", "pay gas", "pay phone"], ["mark the pay ones done", "just gas and phone"], ["pay rent"]),
        (["run"], ["add a task", "take out trash", "and another", "do dishes"], ["do dishes", "take out trash", "run"]),
        (["run"], ["did i add call plumber", "no? then add it"], ["call plumber", "run"]),
        (["call bob"], ["rename call bob to call rob", "change it back to call bob"], ["call bob"]),
        (["order pizza", "run"], ["the pizza one, change to order 2 pizzas"], ["order 2 pizzas", "run"]),
        (["iron shirts", "run"], ["delete iron shirts", "yes", "oh wait i need that back"], ["iron shirts", "run"]),
        (
            ["run"],
            ["add water plants every evening", "make that every other evening"],
            ["water plants every other evening", "run"],
        ),
        (["buy bread", "run"], ["add milk", "is milk there", "great. and bread?", "ok got both"], ["run"]),
        (["pack bag", "fix tap"], ["ive done two of them"], ["pack bag", "fix tap"]),
        (["pack bag", "fix tap"], ["packed!"], ["fix tap"]),
        (["call mum", "run"], ["have i called mum", "no i did, mark it"], ["run"]),
        (
            ["call mum", "pick up ida"],
            ["have i called mum", "what's the weather", "yes she's home now, check it off"],
            ["call mum", "pick up ida"],
        ),
        (["buy milk", "run"], ["the milk should be soy milk"], ["soy milk", "run"]),
        (["run"], ["add football boots for ben", "add size 2 to it"], ["football boots for ben size 2", "run"]),
        (["tidy playroom", "kettle"], ["ive done the kettle", "whats left", "done that too"], []),
        (
            ["run"],
            ["add bins out at 7 tonight", "ok. change it to 8 then, lea gets home later"],
            ["bins out at 8 tonight", "run"],
        ),
        (["run"], ["add measure the window for blinds", "sorry, windows"], ["measure the windows for blinds", "run"]),
        (["run"], ["add check bed 4 drip at 3pm", "sorry i meant bed 6"], ["check bed 6 drip at 3pm", "run"]),
        (["run"], ["add rsvp to sara", "and book a hotel for it"], ["book a hotel for it", "rsvp to sara", "run"]),
        (["order gloves size m", "run"], ["change the gloves one to size L"], ["order gloves size L", "run"]),
        (["by bandages", "run"], ["theres a typo, it should be buy bandages"], ["buy bandages", "run"]),
        (["call bob", "run"], ["finished em all"], []),
        (
            ["run"],
            ["add meet tom at the station at 5", "no, the airport", "actually 6"],
            ["meet tom at the airport at 6", "run"],
        ),
        (["run"], ["add email anna about the contract", "i meant hanna"], ["email hanna about the contract", "run"]),
        (["run"], ["add order 2 pizzas for friday", "saturday i mean"], ["order 2 pizzas for saturday", "run"]),
        (["run"], ["add lunch with kim", "no, dinner", "with tim not kim"], ["dinner with tim", "run"]),
        (["run"], ["add pay 50 euro to max", "make that 60 euro", "to moritz"], ["pay 60 euro to moritz", "run"]),
        (["run"], ["add book room 12", "room 14 sorry", "for monday"], ["book room 14 for monday", "run"]),
        (["run"], ["add email the report to anna", "no, the new slides"], ["email the new slides to anna", "run"]),
        (["rye bread", "bread and butter", "run"], ["delete the bread task", "bread and butter", "yes"], ["rye bread", "run"]),
        (["run"], ["add call mom", "thanks for that", "ok thx for the help", "for real"], ["call mom", "run"]),
        (["run"], ["add call mom", "for tomorrow i mean"], ["call mom for tomorrow", "run"]),
        (["sign sheet", "order ink"], ["delete 2", "no 1", "no leave it, i signed it so tick it off"], ["order ink"]),
    ],
)
async def test_short_turns_mean_what_they_follow(tasks: list[str], messages: list[str], after: list[str]) -> None:
    environment = Environment.of(*tasks)
    for message in messages:
        await environment.says(message)
    assert environment.open == after


async def test_a_question_about_a_word_follows_another() -> None:
    environment = Environment.of("worm the dog", "groom the dog", "buy cat litter")
    await environment.says("anything for the dog")
    assert (await environment.says("and the cat?")).text == "'buy cat litter' is on your list, still to do."
    assert (await environment.says("dog stuff?")).text.startswith("I see 2 tasks like that:")


async def test_an_alarm_is_declined_and_the_reply_says_why() -> None:
    turn = await Environment().says("set an alarm for 6:30")
    assert (turn.kind, turn.text) == ("refusal", replies.fixed("alarm").text)


async def test_a_yes_with_a_request_asks_about_both_deletions() -> None:
    environment = Environment.of("sand the door", "lay the carpet")
    await environment.says("delete sand the door")
    turn = await environment.says("yes and delete the carpet one too")
    assert [call.name for call in turn.batches[-1]] == ["delete_task", "delete_task"]


@pytest.mark.parametrize(
    "answer", ["not sure about that", "not that i know", "no its ok", "hmm not now", "and so on", "no worries"]
)
@pytest.mark.parametrize("before", ["mark write as done", "delete the write task"])
async def test_an_answer_that_names_no_option_chooses_none(before: str, answer: str) -> None:
    environment = Environment.of("write a letter", "write a song")
    await environment.says(before)
    turn = await environment.says(answer)
    assert (environment.done, turn.kind == "confirm") == ([], False)


@pytest.mark.parametrize("before", ["add call tom", "mark buy milk as done", "change buy milk to buy oat milk", "show my list"])
async def test_short_remarks_change_nothing(before: str) -> None:
    remarks = (
        "im sorry|i am so sorry|not sorry|no worries|sorry about that|sorry for the trouble|make it quick|"
        "make it stop|make it work|call it a day|call it quits|set it up|make it so|make that happen|with pleasure|"
        "for the record|for free|no problem|no idea|no way|no kidding|me too|you too|same here too|love you too|"
        "and you|and then|and me|and so on|and why|no its ok|i mean yes|it was fine|it should be fine|rather not|"
        "instead of what|i wanted that|thanks for that|cool too|great work|what a day|no its fine|"
        "actually thats fine|that works|for now|in fact|to be honest|from now on"
    )
    for remark in remarks.split("|"):
        environment = Environment.of("buy milk", "pay rent")
        await environment.says(before)
        tasks = [environment.open, environment.done]
        turn = await environment.says(remark)
        assert ([environment.open, environment.done], turn.kind == "confirm") == (tasks, False), remark
