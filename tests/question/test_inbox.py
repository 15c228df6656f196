"""The lists of questions: what waits for a person, what a person asked, and what has ended."""

from __future__ import annotations

from graph_agent.question import inbox
from graph_agent.question.tables import Asks
from tests.question.conftest import Store


def test_a_person_sees_what_waits_for_each_role_and_for_the_person_the_oldest_first(store: Store) -> None:
    finance = store.ask()
    store.clock.advance(seconds=1)
    both = store.ask(who=["role:finance", "role:legal"])
    store.clock.advance(seconds=1)
    own = store.ask_requester(user="bob")
    store.ask(who=["role:intern"])
    assert store.waiting("bob", "finance", "legal") == [finance, both, own]
    assert store.waiting("bob", "legal") == [both, own]
    assert store.waiting("eve", "finance") == [finance, both]
    assert store.waiting("eve") == []


def test_nobody_sees_questions_of_their_own_among_those_to_answer(store: Store) -> None:
    store.ask(user="bob")
    asked = store.ask(user="ann")
    assert store.waiting("bob", "finance") == [asked]
    assert store.waiting("BOB", "finance") == [asked]


def test_what_is_answered_late_or_ended_waits_no_more(store: Store) -> None:
    answered, denied, kept = store.ask(), store.ask(), store.ask()
    store.answered(answered, "bob")
    store.answered(denied, "eve", yes=False)
    assert store.waiting("bob", "finance") == [kept]
    assert store.waiting("eve", "finance") == [answered, kept]
    store.clock.advance(hours=1)
    assert store.waiting("eve", "finance") == []


def test_the_newest_question_of_a_manager_is_shown_however_many_wait_for_others(store: Store) -> None:
    for user in range(60):
        for _ in range(5):
            store.ask(user=f"user{user}", who=["role:clerk"])
    store.clock.advance(seconds=1)
    newest = store.ask(who=["role:manager"])
    assert store.waiting("bob", "manager") == [newest]
    assert (
        store.database.read_now(lambda connection: inbox.count_waiting_for(store.questions, connection, "bob", ["manager"]))
        == 1
    )


def test_pages_show_every_question_once(store: Store) -> None:
    asked = []
    for user in range(7):
        asked += [store.ask(user=f"user{user}", who=["role:finance", "role:legal"]) for _ in range(5)]
        store.clock.advance(seconds=1)
    seen, after = list[str](), None
    while True:
        page = store.page("bob", "finance", "legal", after=after, size=4)
        seen += [one.id for one in page.questions]
        if (after := page.next) is None:
            break
    assert sorted(seen) == sorted(asked)
    assert len(seen) == len(set(seen))


def test_a_user_sees_what_the_user_asked_the_newest_first(store: Store) -> None:
    first = store.ask()
    store.clock.advance(seconds=1)
    second = store.ask()
    store.ask(user="eve")
    store.ask_requester()
    page = store.database.read_now(lambda connection: inbox.asked_by(store.questions, connection, "ann", Asks.OTHERS, size=1))
    assert [one.id for one in page.questions] == [second]
    rest = store.database.read_now(
        lambda connection: inbox.asked_by(store.questions, connection, "ann", Asks.OTHERS, after=page.next)
    )
    assert [one.id for one in rest.questions] == [first]


def test_ended_questions_are_shown_to_those_who_might_have_answered_them(store: Store) -> None:
    named = {user: store.ask(user=user, subject={"roles": [role]}) for user, role in (("ann", "finance"), ("eve", "legal"))}
    for asked in named.values():
        store.answered(asked, "joe", yes=False)

    def ended(user: str, *roles: str) -> list[str]:
        page = store.database.read_now(lambda connection: inbox.ended_for(store.questions, connection, user, roles))
        return [one.id for one in page.questions]

    assert ended("bob", "finance") == [named["ann"]]
    assert ended("joe") == [named["eve"], named["ann"]] or ended("joe") == [named["ann"], named["eve"]]
    assert ended("eve", "finance", "legal") == [named["ann"]]
    assert ended("bob") == []


def test_open_questions_are_counted_until_they_are_late(store: Store) -> None:
    for _ in range(3):
        store.ask()
    store.ask_requester()

    def count() -> int:
        return store.database.read_now(lambda one: inbox.count_open(store.questions, one, Asks.OTHERS))

    assert count() == 3
    store.clock.advance(hours=1)
    assert count() == 0
