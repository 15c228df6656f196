"""What the tables themselves refuse, whoever writes to them."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import IntegrityError

from tests.question.conftest import Store

NO = {"sqlite": "0", "postgresql": "false"}


@pytest.mark.parametrize(
    "change",
    [
        "state = 'approved', ended_at = opened_at, slot = NULL",  # approved without its closing decision
        "closed_by = 'closing'",  # closed while it is open
        "ended_at = opened_at",  # ended while it is open
        "state = 'denied', slot = NULL",  # ended without a time
        "state = 'denied', ended_at = opened_at",  # ended, and it keeps its slot
        "slot = 6",
        "slot = NULL",
        "asked = 4",
        "renewals = 4",
        "renewals = 1, slot = NULL",  # a renewal of nothing
        "least = 4",
        "state = 'elsewhere'",
        "taken_by = 'turn'",  # only the requester's are taken by turns
        "renews = 'unknown', renewals = 1, slot = NULL",
    ],
)
def test_a_question_cannot_get_a_state_that_does_not_exist(store: Store, change: str) -> None:
    asked = store.ask()
    with pytest.raises(IntegrityError):
        store.sql(f"UPDATE questions SET {change} WHERE id = '{asked}'")


def test_one_decision_closes_at_most_one_question(store: Store) -> None:
    first, second = store.ask(), store.ask()
    for asked in (first, second):
        store.answered(asked)
    assert store.claim(first) == "approved"
    with pytest.raises(IntegrityError):
        store.claim(second)
    assert store.state(second) == "open"


def test_two_questions_of_the_requester_never_wait_in_one_conversation(store: Store) -> None:
    store.ask_requester()
    second = store.ask_requester(conversation_id="other")
    with pytest.raises(IntegrityError):
        store.sql(f"UPDATE questions SET conversation_id = 'c-ann' WHERE id = '{second}'")


def test_a_user_never_has_two_open_questions_in_one_slot_or_about_one_call(store: Store) -> None:
    store.ask(call_digest="pay")
    second = store.ask()
    for change in ("slot = 1", "call_digest = 'pay'"):
        with pytest.raises(IntegrityError):
            store.sql(f"UPDATE questions SET {change} WHERE id = '{second}'")


def test_a_question_is_renewed_once(store: Store) -> None:
    asked = store.ask()
    store.answered(asked)
    store.claim(asked)
    store.ask(renewals=1, renews=asked)
    other = store.ask()
    with pytest.raises(IntegrityError):
        store.sql(f"UPDATE questions SET renewals = 1, renews = '{asked}', slot = NULL WHERE id = '{other}'")


@pytest.mark.parametrize(
    "change",
    [
        "person = 'ann'",  # its requester answers a question to others
        "asks = 'requester'",
        "digest = 'other'",
        "requester = 'eve'",
        "question_id = 'unknown'",
        "evidence = 0",
    ],
)
def test_an_answer_is_about_what_was_shown_and_of_a_person_who_is_asked(store: Store, change: str) -> None:
    store.answered(store.ask())
    with pytest.raises(IntegrityError):
        store.sql(f"UPDATE answers SET {change}")


def test_nobody_else_answers_a_question_to_its_requester(store: Store) -> None:
    asked = store.ask_requester()
    store.take(asked, "turn")
    store.use(asked, "turn")
    with pytest.raises(IntegrityError):
        store.sql("UPDATE answers SET person = 'bob'")


def test_an_answered_question_is_not_deleted_before_its_answers(store: Store) -> None:
    asked = store.ask()
    store.answered(asked)
    with pytest.raises(IntegrityError):
        store.sql(f"DELETE FROM questions WHERE id = '{asked}'")


def test_one_person_answers_a_question_once(store: Store) -> None:
    asked = store.ask()
    store.answered(asked)
    columns = "question_id, asks, requester, digest, yes, role, reason, identity, evidence, signature, answered_at, mac"
    with pytest.raises(IntegrityError):
        store.sql(f"INSERT INTO answers (person, {columns}) SELECT person, {columns} FROM answers")
