"""Cards: several calls that wait for one yes, what is done after it, and how the model goes on."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.errors import ToolErrorCode
from graph_agent.models.decision import AfterYes, AnswerState, DecisionType, OutcomeCategory, PendingAction, PendingCall
from graph_agent.models.llm import LLMResponse
from graph_agent.models.tools import ToolResult
from graph_agent.testing import OrderDesk, says
from tests.desk import asked, cancel, card_desk, card_talk, get, note_on, refund
from tests.scripted_turns import calls, done, failed

END, EXPLAIN, GO_ON = AfterYes
FAILED = failed(ToolErrorCode.TOOL_EXECUTION_ERROR, "The gift card balance is not enough.")
UNKNOWN = failed(ToolErrorCode.TIMEOUT_ERROR, "no answer")


def conversation(finished: Any) -> list[Any]:
    """Return the messages of the model as pairs of role and text or arguments, without the first one."""
    assert finished.turn.request is not None
    return [
        (one.role, one.content or [call.arguments for call in one.function_calls or []] or one.function_response.response)
        for one in finished.turn.request.messages
    ]


@pytest.mark.parametrize("after_yes", AfterYes)
async def test_one_yes_confirms_all_calls_of_a_card_in_their_order(after_yes: AfterYes) -> None:
    talk = card_talk(calls(cancel("1"), note_on("2"), refund("3")), says("All is done."), after_yes=after_yes)
    question = await talk.say("cancel and pay back")
    assert asked(question) == [("cancel_order", "1"), ("add_note", "2"), ("refund", "3")]
    assert question.decision.reply == (
        "3 actions, in this order:\n1. Cancel order: 'order 1 (placed)'\n2. Add note\n  Order: '2'\n  Text: 'called'\n"
        "3. Refund\n  Amount: 5\n  Order: '3'\nShould I go ahead with all of them? Please answer yes or no."
    )
    assert talk.desk.sent == []

    pending = question.decision.pending_action
    assert pending is not None
    ended = await talk.say("yes")
    assert talk.made == asked(question)
    assert talk.desk.keys == [pending.id, f"{pending.id}:2", f"{pending.id}:3"]
    assert (ended.decision.decision_type, ended.decision.outcome_category) == (
        DecisionType.EXECUTE_PENDING,
        OutcomeCategory.TASK_COMPLETED,
    )
    assert len(ended.decision.effects) == 3
    assert ended.decision.reply.startswith("Done: Cancel order: 'order 1 (placed)'")
    assert ended.decision.reply.endswith("All is done.") is (after_yes is GO_ON)
    assert ended.decision.confirmed == (pending.id if after_yes is GO_ON else "")


async def test_before_the_first_asked_call_all_runs_and_what_follows_it_waits() -> None:
    talk = card_talk(calls(get("1"), note_on("1"), cancel("2"), get("2"), note_on("3")), says("Done."), after_yes=EXPLAIN)
    question = await talk.say("go")
    assert (talk.made, asked(question)) == (
        [("get_order", "1"), ("add_note", "1")],
        [("cancel_order", "2"), ("add_note", "3")],
    )
    assert talk.dispositions() == ["executed", "executed", "awaiting", "skipped", "awaiting"]
    # A read was left out: the model goes on after the yes.
    assert question.decision.pending_action is not None
    assert question.decision.pending_action.then is GO_ON
    assert (await talk.say("yes")).decision.reply.endswith("\n\nDone.")


async def test_the_same_call_is_asked_about_once_and_a_surplus_is_refused_before() -> None:
    talk = card_talk(calls(cancel("1"), cancel("1"), refund("1"), refund("2"), refund("3")))
    question = await talk.say("go")
    assert asked(question) == [("cancel_order", "1"), ("refund", "1"), ("refund", "2")]
    assert talk.dispositions() == ["awaiting", "skipped", "awaiting", "awaiting", "refused"]
    assert question.decision.notices == ["Not done: refund (amount 5, order '3'). At most 2 per message (constitution)."]


@pytest.mark.parametrize(
    ("batch", "shown"),
    [
        (["1", "x" * 5_000, "3"], ["1"]),
        (["x" * 5_000, "2"], ["x" * 5_000]),
    ],
)
async def test_a_call_that_cannot_be_shown_in_full_is_asked_about_alone(batch: list[str], shown: list[str]) -> None:
    talk = card_talk(calls(*map(cancel, batch)), desk=OrderDesk(ledger=True))
    question = await talk.say("go")
    assert [order for _, order in asked(question)] == shown
    pending = question.decision.pending_action
    assert pending is not None
    assert (pending.by_id_only, pending.then) == (len(shown[0]) > 4_000, GO_ON)


async def test_an_object_that_an_unasked_change_has_touched_is_asked_about_with_a_line_that_says_so() -> None:
    talk = card_talk(calls(note_on("1"), cancel("2"), cancel("1")))
    question = await talk.say("go")
    assert question.decision.reply.startswith("Already done: Add note (order '1', text 'called'). 2 actions, in this order:")


async def test_a_confirmed_change_does_not_count_as_changed_before_a_later_question() -> None:
    talk = card_talk(calls(cancel("1")), calls(refund("1")), says("Done."), after_yes=GO_ON)
    await talk.say("go")
    question = await talk.say("yes")
    assert asked(question) == [("refund", "1")]
    assert question.decision.pending_action is not None
    assert question.decision.pending_action.changed_before == ""
    assert question.decision.reply == (
        "Done: Cancel order: 'order 1 (placed)'.\n\nRefund\n  Amount: 5\n  Order: '1'\n"
        "Should I go ahead? Please answer yes or no."
    )
    assert question.decision.effects == ["Cancel order: 'order 1 (placed)'"]


@pytest.mark.parametrize("after_yes", AfterYes)
@pytest.mark.parametrize("outcome", [FAILED, done({"text": "Error: no balance"})])
async def test_it_stops_at_the_first_call_that_is_not_certainly_done(outcome: ToolResult, after_yes: AfterYes) -> None:
    desk = card_desk({"2": outcome}, ledger=False)
    talk = card_talk(calls(cancel("1"), cancel("2"), cancel("3")), says("The second failed."), after_yes=after_yes, desk=desk)
    await talk.say("go")
    ended = await talk.say("yes")
    assert talk.made == [("cancel_order", "1"), ("cancel_order", "2")]
    assert talk.dispositions() == ["executed", "executed", "skipped"]
    third = "Not done: cancel order: 'order 3 (placed)' (the action before it was not done)."
    assert ended.decision.decision_type is DecisionType.EXECUTE_PENDING
    assert ended.decision.outcome_category is OutcomeCategory.TASK_COMPLETED
    assert ended.decision.reply.startswith("Done: Cancel order: 'order 1 (placed)'")
    if after_yes is END:
        assert ended.decision.reply.endswith(third)
        return
    assert ended.decision.reply.endswith("The second failed.")
    assert third in ended.decision.notices
    second = "Not done: cancel order: 'order 2 (placed)' (it failed)."
    assert (second in ended.decision.notices) is (not outcome.success)


@pytest.mark.parametrize("after_yes", AfterYes)
async def test_after_an_unknown_outcome_code_has_the_last_word(after_yes: AfterYes) -> None:
    desk = card_desk({"2": UNKNOWN}, ledger=False)
    talk = card_talk(calls(cancel("1"), cancel("2"), cancel("3")), after_yes=after_yes, desk=desk)
    await talk.say("go")
    ended = await talk.say("yes")
    assert talk.made == [("cancel_order", "1"), ("cancel_order", "2")]
    assert ended.decision.reply.split("\n\n")[-2:] == [
        "Not known whether this was done: Cancel order: 'order 2 (placed)'. Please check before you try again.",
        "Not done: cancel order: 'order 3 (placed)' (the action before it was not done).",
    ]
    assert ended.turn is not None
    assert ended.turn.adapter_calls == 0


async def test_if_one_object_has_changed_nothing_runs_and_the_whole_card_is_asked_anew() -> None:
    talk = card_talk(calls(cancel("1"), note_on("9"), cancel("2")))
    first = await talk.say("go")
    talk.desk.orders["2"]["status"] = "packed"
    again = await talk.say("yes")
    assert (asked(again), talk.desk.sent) == (asked(first), [])
    assert again.decision.reply.startswith(
        "It has changed since I asked, so nothing was done. "
        "What it acts on was 'order 2 (placed)', and is now 'order 2 (packed)'. 3 actions, in this order:"
    )
    assert "order 2 (packed)" in again.decision.reply
    assert again.decision.confirmed == ""
    await talk.say("yes")
    assert talk.made == asked(first)


@pytest.mark.parametrize("gone", ["1", "2"])
async def test_if_one_object_is_gone_the_rest_is_asked_anew(gone: str) -> None:
    talk = card_talk(calls(cancel("1"), cancel("2"), note_on("3")))
    await talk.say("go")
    del talk.desk.orders[gone]
    again = await talk.say("yes")
    left = ("cancel_order", "2" if gone == "1" else "1")
    assert (asked(again), talk.desk.sent) == ([left, ("add_note", "3")], [])
    assert again.decision.notices == [f"Not done: cancel order (order '{gone}'). It was not found."]


async def test_an_object_that_changes_while_the_card_runs_is_asked_about_with_the_rest() -> None:
    desk = card_desk()
    desk.before = lambda _: desk.orders["2"].update(status="packed")
    talk = card_talk(calls(cancel("1"), cancel("2"), note_on("3")), desk=desk)
    await talk.say("go")
    again = await talk.say("yes")
    assert (talk.made, asked(again)) == ([("cancel_order", "1")], [("cancel_order", "2"), ("add_note", "3")])
    assert again.decision.reply.startswith(
        "Done: Cancel order: 'order 1 (placed)'.\n\n"
        "This has changed since I asked, so it was not done. "
        "What it acts on was 'order 2 (placed)', and is now 'order 2 (packed)'. "
        "2 actions, in this order:\n1. Cancel order: 'order 2 (packed)'"
    )
    assert again.decision.confirmed == talk.turns[0].decision.pending_action.id  # type: ignore[union-attr]  # it asked
    await talk.say("yes")
    assert talk.made == [("cancel_order", "1"), ("cancel_order", "2"), ("add_note", "3")]


async def test_the_model_reads_what_was_done_before_the_question_and_after_the_yes() -> None:
    talk = card_talk(calls(note_on("0"), cancel("1")), says("Both are done."), after_yes=GO_ON)
    await talk.say("go")
    ended = await talk.say("yes")
    assert conversation(ended)[-5:] == [
        ("user", "yes"),
        ("assistant", [note_on("0")[1], cancel("1")[1]]),
        ("function", {"success": True, "note": "done already, before the user was asked"}),
        ("function", {"success": True, "data": {"order_id": "1"}}),
        ("assistant", ended.decision.reply),
    ]


async def test_one_yes_is_for_one_run_of_each_call() -> None:
    repeated = [note_on("0"), cancel("1"), note_on("5")]
    script = [calls(note_on("0"), cancel("1"), note_on("5")), calls(*repeated), calls(*repeated), says("Done.")]
    talk = card_talk(*script, after_yes=GO_ON)
    await talk.say("go")
    ended = await talk.say("yes")
    assert talk.made == [("add_note", "0"), ("cancel_order", "1"), ("add_note", "5")]
    assert talk.dispositions()[:5] == ["executed", "executed", "refused", "repeated", "repeated"]
    assert ended.decision.notices[0] == "Not done: add note (order '0', text 'called'). It was done before I asked you."


async def test_what_was_done_before_an_earlier_question_is_not_repeated_after_a_later_one() -> None:
    script = [
        calls(note_on("0"), cancel("1")),
        calls(cancel("2")),
        calls(note_on("0"), cancel("1"), cancel("2")),
        says("Done."),
    ]
    talk = card_talk(*script, after_yes=GO_ON)
    await talk.say("go")
    await talk.say("yes")
    await talk.say("yes")
    assert talk.made == [("add_note", "0"), ("cancel_order", "1"), ("cancel_order", "2")]
    assert talk.dispositions() == ["executed", "refused", "refused", "repeated"]


async def test_anything_else_that_is_asked_makes_a_new_card() -> None:
    desk = card_desk({"2": FAILED})
    script = [calls(cancel("1"), cancel("2"), cancel("3")), calls(cancel("3")), says("The third too.")]
    talk = card_talk(*script, desk=desk)
    await talk.say("go")
    question = await talk.say("yes")
    assert asked(question) == [("cancel_order", "3")]
    assert question.decision.notices == ["Not done: cancel order: 'order 2 (placed)' (it failed)."]
    assert question.decision.confirmed
    pending = question.decision.pending_action
    assert pending is not None
    assert [one.arguments["order_id"] for one in pending.done_before] == ["1"]
    ended = await talk.say("yes")
    assert talk.made == [("cancel_order", "1"), ("cancel_order", "2"), ("cancel_order", "3")]
    assert ended.decision.decision_type is DecisionType.EXECUTE_PENDING


@pytest.mark.parametrize(
    ("last", "decided"),
    [
        (says("Both are done."), DecisionType.EXECUTE_PENDING),
        (calls(("decline", {"text": "I cannot do more."})), DecisionType.EXECUTE_PENDING),
        (LLMResponse(finish_reason="error"), DecisionType.EXECUTE_PENDING),
        (calls(("ask_user", {"question": "Anything else?", "reason": "missing_context"})), DecisionType.ASK_CLARIFICATION),
        (calls(cancel("4")), DecisionType.REQUEST_CONFIRMATION),
    ],
)
async def test_the_type_says_how_the_turn_ended_and_the_effects_what_was_done(last: LLMResponse, decided: Any) -> None:
    talk = card_talk(calls(cancel("1"), cancel("2")), last, after_yes=GO_ON)
    question = await talk.say("go")
    ended = await talk.say("yes")
    assert ended.decision.decision_type is decided
    assert question.decision.pending_action is not None
    assert ended.decision.confirmed == question.decision.pending_action.id
    assert len(ended.decision.effects) == 2
    assert ended.decision.reply.startswith("Done: Cancel order: 'order 1 (placed)'")


async def test_if_the_model_fails_after_the_yes_code_reports_and_says_that_it_could_not_go_on() -> None:
    desk = card_desk({"2": FAILED})
    script = [calls(cancel("1"), cancel("2"), cancel("3")), calls(note_on("7")), LLMResponse(finish_reason="error")]
    talk = card_talk(*script, desk=desk)
    await talk.say("go")
    ended = await talk.say("yes")
    assert ended.decision.reply.split("\n\n")[-4:] == [
        "Not done: cancel order: 'order 2 (placed)' (it failed).",
        "Not done: cancel order: 'order 3 (placed)' (the action before it was not done).",
        "I could not go on after that.",
        "Already done: Add note (order '7', text 'called').",
    ]
    assert ended.decision.notices == []
    assert ended.decision.outcome_category is OutcomeCategory.TASK_COMPLETED


async def test_the_confirmed_calls_are_the_first_round_of_the_limit() -> None:
    script = [calls(cancel("1")), *(calls(note_on(str(n))) for n in range(3))]
    talk = card_talk(*script, after_yes=GO_ON, max_iterations=3)
    await talk.say("go")
    ended = await talk.say("yes")
    assert talk.made == [("cancel_order", "1"), ("add_note", "0"), ("add_note", "1")]
    assert ended.record.iterations == 3
    assert "That request is too complex." in ended.decision.reply


@pytest.mark.parametrize("then", AfterYes)
async def test_with_one_round_the_turn_ends_with_the_confirmed_calls(then: AfterYes) -> None:
    talk = card_talk(calls(cancel("1")), after_yes=then, max_iterations=1)
    await talk.say("go")
    assert (await talk.say("yes")).decision.reply.startswith("Done: Cancel order")


@pytest.mark.parametrize("after_yes", AfterYes)
async def test_after_a_no_nothing_is_done_and_the_model_is_not_asked(after_yes: AfterYes) -> None:
    talk = card_talk(calls(cancel("1"), cancel("2")), after_yes=after_yes)
    await talk.say("go")
    ended = await talk.say("no")
    assert (ended.decision.decision_type, talk.desk.sent) == (DecisionType.CANCEL_PENDING, [])


async def test_a_card_is_used_up_expires_and_is_dropped_as_one() -> None:
    talk = card_talk(calls(cancel("1"), cancel("2")), says("Which ones?"))
    question = await talk.say("go")
    other = await talk.say("what is the weather?")
    assert other.decision.notices == [
        "Not done: 2 actions, in this order: 1. Cancel order: 'order 1 (placed)' 2. Cancel order: 'order 2 (placed)'."
    ]
    talk.turns.append(question)
    pending = question.decision.pending_action
    assert pending is not None
    late = await talk.engine.answer(question, yes=True)
    assert (late.decision.void_answer, talk.desk.sent) == (AnswerState.USED, [])


@pytest.mark.parametrize(
    "changes",
    [
        {"calls": ()},
        {"then": GO_ON},
        {"done_before": ()},
        {"calls": (PendingCall(tool_name="cancel_order", arguments={"order_id": "1"}, description="x"),) * 2},
    ],
)
async def test_every_part_of_a_card_is_signed(changes: dict[str, Any]) -> None:
    talk = card_talk(calls(note_on("0"), cancel("1"), cancel("2")), says("Nothing is waiting."), after_yes=EXPLAIN)
    question = await talk.say("go")
    pending = question.decision.pending_action
    assert pending is not None
    forged = await talk.engine.run(
        question.record.header.context.replace(message="yes", pending_confirmation=pending.replace(**changes))
    )
    assert forged.decision.reply == "Nothing is waiting."
    assert talk.made == [("add_note", "0")]


def test_a_card_begins_with_its_first_call_and_has_several() -> None:
    call = PendingCall(tool_name="add_note", arguments={}, description="Note")
    named = {
        "id": "p",
        "tool_name": "cancel_order",
        "arguments": {},
        "description": "Cancel",
        "created_at": "2026-01-01T00:00:00Z",
    }
    for given in ((call,), (call, call)):
        with pytest.raises(ValueError, match="the first of them is in tool_name and arguments"):
            PendingAction.model_validate({**named, "expires_at": "2026-01-01T00:05:00Z", "calls": given})
