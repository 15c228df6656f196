"""A confirmed call is compared with its question by value: a difference asks again and says what it is; other words do not."""

from __future__ import annotations

import pytest

from graph_agent.models.decision import AnswerState, DecisionType
from tests.loan_desk import DIFFERENT, EQUAL, EXTEND, Change, LoanDesk, Talk, conditions, describes, fails

ANEW = "It has changed since I asked, so nothing was done."


@pytest.mark.parametrize("described", [True, False], ids=["preview", "no preview"])
@pytest.mark.parametrize("kind", DIFFERENT)
async def test_a_value_that_has_changed_since_the_question_asks_again_and_is_said(kind: str, *, described: bool) -> None:
    desk = LoanDesk(description="camera 1" if described or kind == "preview" else "")
    talk = Talk(desk, conditions())
    await talk.say("extend it")
    change, sentence = DIFFERENT[kind]
    change(desk)
    again = await talk.say("yes")
    assert (again.decision.decision_type, desk.extended) == (DecisionType.REQUEST_CONFIRMATION, 0)
    assert again.decision.pending_action is not None
    assert again.decision.pending_action.changed_since == (ANEW, sentence)
    assert again.decision.reply.startswith(f"{ANEW} {sentence} Extend ")
    assert ((await talk.say("yes")).decision.decision_type, desk.extended) == (DecisionType.EXECUTE_PENDING, 1)


@pytest.mark.parametrize("described", [True, False], ids=["preview", "no preview"])
@pytest.mark.parametrize("change", EQUAL.values(), ids=EQUAL)
async def test_an_equal_value_in_other_words_does_not_ask_again(change: Change, *, described: bool) -> None:
    desk = LoanDesk(description="camera 1" if described else "")
    talk = Talk(desk, conditions())
    await talk.say("extend it")
    change(desk)
    assert ((await talk.say("yes")).decision.decision_type, desk.extended) == (DecisionType.EXECUTE_PENDING, 1)


async def test_a_fact_of_one_of_several_calls_asks_again_about_all_before_the_first_runs() -> None:
    desk = LoanDesk(description="camera 1")
    talk = Talk(desk, conditions(), EXTEND, ("extend", {"loan": 1, "due": "2027-02-15"}))
    await talk.say("extend both")
    desk.loan["status"] = "overdue"
    again = await talk.say("yes")
    assert (desk.extended, len(again.decision.pending_action.each if again.decision.pending_action else ())) == (0, 2)
    # Of the same object it is said once.
    assert again.decision.reply.count("Loan record status was 'open', and is now 'overdue'.") == 1


@pytest.mark.parametrize("described", [True, False], ids=["preview", "no preview"])
async def test_a_read_that_fails_after_the_yes_makes_no_call(*, described: bool) -> None:
    desk = LoanDesk(description="camera 1" if described else "")
    talk = Talk(desk, conditions())
    await talk.say("extend it")
    fails(desk)
    await talk.say("yes")
    assert desk.extended == 0


async def test_a_read_for_the_sentence_that_fails_after_the_yes_asks_again() -> None:
    desk = LoanDesk()
    talk = Talk(desk, None)
    await talk.say("extend it")
    fails(desk)
    again = (await talk.say("yes")).decision
    assert (again.decision_type, desk.extended) == (DecisionType.REQUEST_CONFIRMATION, 0)
    assert "Loan record item was 'camera', and is not known now." in again.reply
    assert "Extend loan 1 until 15 January 2027" in again.reply


async def test_what_could_not_be_read_at_the_question_and_is_known_now_asks_again() -> None:
    desk = LoanDesk(fails=True)
    talk = Talk(desk, None)
    await talk.say("extend it")
    desk.fails = False
    again = (await talk.say("yes")).decision
    assert (again.decision_type, desk.extended) == (DecisionType.REQUEST_CONFIRMATION, 0)
    assert "Loan record item is now 'camera'." in again.reply


async def test_an_argument_that_is_left_out_has_the_default_that_was_shown() -> None:
    desk = LoanDesk()
    talk = Talk(desk, conditions())
    asked = await talk.say("extend it")
    assert "by letter\n" in asked.decision.reply
    desk.way = "mail"
    talk.engine = talk.new_engine()
    other = await talk.say("yes")
    assert (other.decision.void_answer, desk.extended) == (AnswerState.OTHER_RULES, 0)


async def test_the_default_of_an_argument_and_its_value_are_the_same_call() -> None:
    shown = []
    for given in ({}, {"way": "letter"}, {"way": "mail"}):
        talk = Talk(LoanDesk(), conditions(), ("extend", {**EXTEND[1], **given}))
        await talk.say("extend it")
        assert talk.pending is not None
        shown.append(talk.pending.whole_digest)
    assert shown[0] == shown[1] != shown[2]


async def test_a_question_that_shows_no_value_that_has_changed_says_what_it_is() -> None:
    """Facts beside a preview are not shown, but the rules have judged by them."""
    desk = LoanDesk(description="camera 1")
    talk = Talk(desk, conditions())
    assert "open" not in (await talk.say("extend it")).decision.reply
    describes("camera 1")(desk)
    desk.loan["status"] = "overdue"
    assert "Loan record status was 'open', and is now 'overdue'." in (await talk.say("yes")).decision.reply
