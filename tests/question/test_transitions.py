"""Each transition of a question, and what it refuses, on both databases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from graph_agent.models.approval import ApproverIdentity
from graph_agent.question.stored import Answer
from graph_agent.question.tables import Asks, Evidence
from graph_agent.question.transitions import Refused
from tests.question.conftest import Store


def test_a_question_to_others_is_approved_by_the_claim_of_its_closing_decision(store: Store) -> None:
    asked = store.ask()
    assert store.claim(asked) is None
    assert store.answered(asked) == "open"
    assert store.claim(asked) == "approved"
    found = store.find(asked)
    assert (found.state, found.closed_by, [one.person for one in found.answers]) == ("approved", "closing", ["bob"])
    assert store.claim(asked, "another") is None


def test_a_question_that_needs_two_people_waits_for_the_second(store: Store) -> None:
    asked = store.ask()
    store.answered(asked, "bob")
    assert store.claim(asked, needed=2) is None
    assert store.state(asked) == "open"
    store.answered(asked, "eve")
    assert store.claim(asked, needed=2) == "approved"


def test_a_denial_ends_a_question_and_its_closing_decision_says_so_once(store: Store) -> None:
    asked = store.ask()
    assert store.answered(asked, yes=False, reason="no") == "denied"
    assert store.claim(asked) == "denied"
    assert store.claim(asked, "another") is None
    assert store.find(asked).closed_by == "closing"


def test_only_its_requester_withdraws_a_question(store: Store) -> None:
    asked = store.ask()
    assert store.run("cancel", asked, "bob") is Refused.NOT_FOUND
    assert store.run("cancel", asked, "ann").state == "cancelled"
    assert store.run("cancel", asked, "ann").state == "cancelled"
    assert store.answered(asked) is Refused.CLOSED
    assert store.claim(asked) == "cancelled"


def test_a_question_that_has_ended_is_not_withdrawn(store: Store) -> None:
    asked = store.ask()
    store.answered(asked, yes=False)
    assert store.run("cancel", asked, "ann") is Refused.CLOSED


def test_a_late_yes_does_not_count_and_a_late_denial_does(store: Store) -> None:
    asked = store.ask()
    store.clock.advance(hours=1)
    assert store.answered(asked) is Refused.CLOSED
    assert store.answered(asked, yes=False) == "denied"


def test_an_approved_question_that_is_late_is_not_carried_out(store: Store) -> None:
    asked = store.ask()
    store.answered(asked)
    store.clock.advance(hours=1)
    assert store.claim(asked) is None
    assert store.run("expire", asked)
    assert store.claim(asked) == "expired"


def test_a_question_expires_when_its_time_is_over_and_not_before(store: Store) -> None:
    asked = store.ask()
    store.clock.advance(minutes=59)
    assert not store.run("expire", asked)
    store.clock.advance(minutes=1)
    assert store.find(asked).state_now == "expired"
    assert store.run("expire", asked)
    assert not store.run("expire", asked)


def test_a_question_never_becomes_valid_again_after_the_clock_was_set_back(store: Store) -> None:
    asked = store.ask()
    store.clock.advance(hours=-2)
    assert store.answered(asked) is Refused.CLOSED
    assert store.run("expire", asked)
    store.clock.advance(hours=2)
    assert store.answered(asked) is Refused.CLOSED


def test_the_rules_end_a_question_as_void_with_their_reason(store: Store) -> None:
    asked = store.ask()
    assert store.run("void", asked, "the tool is no longer listed")
    assert (store.find(asked).state, store.find(asked).why) == ("void", "the tool is no longer listed")
    assert store.claim(asked) == "void"


def test_nobody_answers_a_question_of_their_own_in_whatever_spelling(store: Store) -> None:
    asked = store.ask()
    assert store.answered(asked, "ann") is Refused.OWN
    assert store.answered(asked, "Аnn") is Refused.OWN


def test_one_answer_of_a_person_is_final(store: Store) -> None:
    asked = store.ask(who=["role:finance", "role:legal"])
    assert store.answered(asked, "bob") == "open"
    assert store.answered(asked, "bob") == "open"
    assert store.answered(asked, "bob", yes=False) is Refused.OTHER_ANSWER
    assert store.answered(asked, "BOB", role="legal") is Refused.OTHER_ANSWER
    assert len(store.find(asked).answers) == 1


def test_an_answer_counts_only_for_the_text_that_was_shown(store: Store) -> None:
    asked = store.ask()
    assert store.answered(asked, digest="another") is Refused.OTHER_TEXT


def test_an_answer_counts_only_in_a_role_that_is_asked(store: Store) -> None:
    asked = store.ask()
    assert store.answered(asked, role="intern") is Refused.NOT_ASKED


def test_weaker_evidence_than_a_question_needs_is_refused(store: Store) -> None:
    asked = store.ask(least=Evidence.SIGNED_IN)
    assert store.answered(asked) is Refused.WEAK
    assert store.answered(asked, identity=ApproverIdentity.KEY) is Refused.WEAK
    assert store.answered(asked, identity=ApproverIdentity.TOKEN) == "open"
    assert store.answered(asked, "eve", identity=ApproverIdentity.KEY, signature="signed") == "open"


def test_an_unknown_question_is_not_answered(store: Store) -> None:
    asked = store.ask()
    answer = store.an_answer(asked, "bob", role="finance")
    assert store.run("answer", "unknown", answer) is Refused.NOT_FOUND
    waiting = store.ask_requester()
    assert store.run("answer", waiting, answer) is Refused.NOT_FOUND


def test_a_user_has_five_open_questions_and_an_ended_or_late_one_makes_place(store: Store) -> None:
    asked = [store.ask() for _ in range(5)]
    assert store.ask() is Refused.TOO_MANY
    assert store.ask(user="eve") == store.find("q7").id
    store.answered(asked[2], yes=False)
    replaced = store.ask()
    assert store.state(replaced) == "open"
    assert store.ask() is Refused.TOO_MANY
    store.clock.advance(hours=1)
    assert store.state(store.ask()) == "open"
    assert [store.state(one) for one in (*asked, replaced)] == ["expired", "expired", "denied", "expired", "expired", "expired"]


def test_the_same_call_waits_once(store: Store) -> None:
    asked = store.ask(call_digest="pay")
    assert store.ask(call_digest="pay") is Refused.SAME_CALL
    store.run("cancel", asked, "ann")
    assert store.state(store.ask(call_digest="pay")) == "open"


def test_a_denied_call_stays_denied_in_its_conversation_until_its_question_would_have_expired(store: Store) -> None:
    store.answered(store.ask(call_digest="pay"), yes=False)
    assert store.ask(call_digest="pay") is Refused.DENIED
    assert store.state(store.ask(call_digest="pay", conversation_id="other")) == "open"
    store.clock.advance(hours=1)
    assert store.state(store.ask(call_digest="pay")) == "open"


def test_a_question_that_may_not_be_asked_is_void_at_once_and_still_gets_its_closing_decision(store: Store) -> None:
    question = store.new()
    store.run("ask_in_vain", question, "five requests are open")
    assert (store.find(question.id).state, store.find(question.id).why) == ("void", "five requests are open")
    assert store.claim(question.id) == "void"


def test_an_approved_question_is_asked_anew_at_most_three_times_and_needs_no_place(store: Store) -> None:
    asked = [store.ask(call_digest="pay")]
    for number in (1, 2, 3):
        store.answered(asked[-1])
        assert store.claim(asked[-1], f"closing-{number}") == "approved"
        if number == 1:
            for _ in range(5):
                store.ask()
        asked.append(store.ask(call_digest="pay", renewals=number, renews=asked[-1]))
    assert [store.state(one) for one in asked] == ["approved", "approved", "approved", "open"]


def test_asking_again_with_the_same_id_changes_nothing(store: Store) -> None:
    question = store.new()
    first = store.run("ask", question, ["role:finance"])
    store.clock.advance(minutes=1)
    assert store.run("ask", question, ["role:finance"]) == first
    store.answered(question.id, yes=False)
    store.run("ask", question, ["role:finance"])
    assert store.state(question.id) == "denied"


def test_a_yes_of_the_requester_is_used_by_the_turn_that_took_it(store: Store) -> None:
    asked = store.ask_requester()
    assert not store.use(asked, "turn")
    assert store.take(asked, "turn")
    assert store.use(asked, "turn")
    assert store.use(asked, "turn")
    found = store.find(asked)
    assert (found.state, found.closed_by, [one.person for one in found.answers]) == ("approved", "turn", ["ann"])


def test_a_no_of_the_requester_ends_the_question_also_late(store: Store) -> None:
    asked = store.ask_requester()
    store.take(asked, "turn")
    store.clock.advance(hours=1)
    assert store.use(asked, "turn", yes=False)
    assert store.state(asked) == "denied"


def test_a_yes_that_was_read_in_time_and_is_used_late_is_given_back_and_expires(store: Store) -> None:
    asked = store.ask_requester()
    store.take(asked, "turn")
    store.clock.advance(hours=1)
    assert not store.use(asked, "turn")
    assert not store.run("expire", asked)  # Its turn still has it.
    assert store.run("give_back", asked, "turn")
    assert store.run("expire", asked)
    assert store.state(asked) == "expired"


def test_two_turns_do_not_take_the_same_question(store: Store) -> None:
    asked = store.ask_requester()
    assert store.take(asked, "first")
    assert store.take(asked, "first")
    assert not store.take(asked, "second")
    assert not store.use(asked, "second")
    assert not store.run("give_back", asked, "second")
    assert store.run("give_back", asked, "first")
    assert store.take(asked, "second")


def test_only_an_open_question_in_time_of_the_conversations_user_is_taken(store: Store) -> None:
    asked = store.ask_requester()
    assert not store.run("take", asked, "turn", "eve", "c-ann")
    assert not store.run("take", asked, "turn", "ann", "c-other")
    assert not store.take(store.ask(), "turn")
    store.clock.advance(hours=1)
    assert not store.take(asked, "turn")


def test_a_late_question_that_its_turn_leaves_unanswered_expires(store: Store) -> None:
    asked = store.ask_requester()
    store.take(asked, "turn")
    store.clock.advance(hours=1)
    assert not store.run("drop", store.ask_requester(conversation_id="other"), "turn")
    assert store.run("drop", asked, "turn")
    assert (store.find(asked).state, store.find(asked).closed_by) == ("expired", None)


def test_late_questions_to_requesters_are_ended_unless_a_turn_reads_the_answer(store: Store) -> None:
    taken, late = store.ask_requester(), store.ask_requester("bob")
    others = store.ask()
    store.take(taken, "turn")
    store.clock.advance(hours=1)
    soon = store.ask_requester("eve")
    assert [store.run("expire_waiting", 1) for _ in range(2)] == [1, 0]
    assert [store.state(one) for one in (taken, late, others, soon)] == ["open", "expired", "open", "open"]


def test_the_question_that_waits_in_a_conversation_is_found_also_late(store: Store) -> None:
    def waiting() -> str | None:
        found = store.database.read_now(lambda connection: store.questions.find_waiting(connection, "c-ann"))
        return None if found is None else found.id

    store.ask()
    assert waiting() is None
    asked = store.ask_requester()
    store.clock.advance(hours=1)
    assert waiting() == asked
    store.run("expire", asked)
    assert waiting() is None


@pytest.mark.parametrize(("yes", "state"), [(True, "approved"), (False, "denied"), (None, "replaced")])
def test_a_question_that_was_asked_without_the_store_is_stored_with_its_end(store: Store, yes: bool | None, state: str) -> None:
    question = store.new(Asks.REQUESTER)
    answer = None if yes is None else Answer(person="ann", yes=yes, digest=question.digest)
    waits = store.ask_requester()
    assert store.run("end_at_once", question, "turn", answer)
    assert store.run("end_at_once", question, "turn", answer)
    assert not store.run("end_at_once", question, "other", answer)
    found = store.find(question.id)
    assert (found.state, found.closed_by, len(found.answers)) == (state, "turn", 0 if yes is None else 1)
    # It takes no question's place that waits in the conversation.
    assert store.state(waits) == "open"
    asked = store.find(waits)
    again = None if answer is None else Answer(person="ann", yes=bool(yes), digest=asked.digest)
    assert store.run("end_at_once", asked, "later", again)
    assert store.state(waits) == state


def test_other_words_replace_the_question_that_a_turn_has_taken(store: Store) -> None:
    asked = store.ask_requester()
    store.take(asked, "turn")
    assert store.run("drop", asked, "turn")
    assert (store.find(asked).state, store.find(asked).closed_by) == ("replaced", "turn")


def test_a_new_question_of_a_conversation_replaces_the_open_one(store: Store) -> None:
    first = store.ask_requester()
    second = store.ask_requester()
    assert (store.state(first), store.state(second)) == ("replaced", "open")
    assert store.find(first).closed_by == "asking-2"
    assert store.state(store.ask_requester(conversation_id="other")) == "open"
    assert store.state(second) == "open"


def test_an_unclear_answer_is_asked_again_at_most_three_times(store: Store) -> None:
    asked = store.ask_requester()
    digest = store.find(asked).digest
    for turn, again in (("one", True), ("two", True), ("three", False)):
        store.take(asked, turn)
        assert store.run("give_back", asked, turn, again={"signed in": turn}) is again
    found = store.find(asked)
    assert (found.asked, found.subject, found.digest) == (3, {"signed in": "two"}, digest)
    assert store.run("drop", asked, "three")


def test_the_requesters_answer_names_what_was_shown_and_has_the_evidence(store: Store) -> None:
    asked = store.ask_requester(least=Evidence.SIGNED_IN)
    store.take(asked, "turn")
    assert not store.use(asked, "turn", identity=ApproverIdentity.TOKEN, digest="another")
    assert not store.use(asked, "turn")
    assert store.use(asked, "turn", identity=ApproverIdentity.TOKEN)


@pytest.mark.parametrize("end", ["denied", "cancelled", "void", "expired", "approved"])
def test_what_has_ended_never_changes_again(store: Store, end: str) -> None:
    asked = store.ask()
    if end == "denied":
        store.answered(asked, yes=False)
    elif end == "cancelled":
        store.run("cancel", asked, "ann")
    elif end == "void":
        store.run("void", asked, "why")
    elif end == "approved":
        store.answered(asked)
        store.claim(asked)
    else:
        store.clock.advance(hours=1)
        store.run("expire", asked)
    before = store.find(asked)
    assert before.state == end
    assert store.answered(asked, "eve") is Refused.CLOSED
    assert store.answered(asked, "eve", yes=False) is Refused.CLOSED
    assert not store.run("void", asked, "later")
    assert not store.run("expire", asked)
    assert store.find(asked) == before
    assert store.sql(f"SELECT count(*) FROM audience WHERE question_id = '{asked}'") == [(0,)]


@pytest.mark.parametrize(
    "change",
    [
        "user_id = 'eve'",
        "rules = 'lax'",
        "least = 1",
        "expires_at = '2099-01-01T00:00:00.000000+00:00'",
        "subject = '{}'",
        "digest = 'other'",
        "call_digest = 'other'",
        "conversation_id = 'other'",
        "opened_at = '2001-01-01T00:00:00.000000+00:00'",
    ],
)
def test_a_question_that_was_changed_from_outside_does_not_exist(store: Store, change: str) -> None:
    asked = store.ask(least=Evidence.SIGNED_IN)
    store.sql(f"UPDATE questions SET {change} WHERE id = '{asked}'")
    assert store.database.read_now(lambda connection: store.questions.find(connection, asked)) is None
    assert store.claim(asked) is None
    assert store.waiting("bob", "finance") == []


@pytest.mark.parametrize("change", ["yes = 'true'", "role = 'legal'", "person = 'eve'", "evidence = 3, signature = 'x'"])
def test_an_answer_that_was_changed_from_outside_does_not_count(store: Store, change: str) -> None:
    asked = store.ask()
    store.answered(asked)
    boolean = change.replace("'true'", "1" if store.database.dialect == "sqlite" else "true")
    if change.startswith("yes"):
        # A denial that became a yes would have ended the question.
        store.sql(f"UPDATE answers SET yes = {'0' if store.database.dialect == 'sqlite' else 'false'}")
        boolean = "role = 'finance'"
    store.sql(f"UPDATE answers SET {boolean}")
    assert store.find(asked).answers == ()
    assert store.claim(asked) is None


def test_a_process_with_another_key_sees_no_question(open_store: Callable[..., Store]) -> None:
    asked = open_store().ask()
    other = open_store(key=b"other")
    assert other.database.read_now(lambda connection: other.questions.find(connection, asked)) is None
