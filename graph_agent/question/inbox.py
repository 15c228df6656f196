"""Lists of questions, in pages: one indexed SELECT for each, the rights in its WHERE, so that no limit cuts before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, Subquery, exists, func, literal, or_, select, tuple_, union, union_all

from graph_agent.db import UtcDateTime
from graph_agent.models.person import is_same_person
from graph_agent.question.stored import StoredQuestion
from graph_agent.question.tables import Asks, QuestionState, answers, audience, questions
from graph_agent.question.transitions import Questions

PAGE = 50
"""The number of questions of a page."""
_SCANNED_PAGES = 40
"""The pages of ended questions that are read for one page, for a person who could answer few of them."""

Key = tuple[datetime, str]
"""The place of a question in a list: a time and its id."""

_Q = questions.c


class Which(StrEnum):
    """The lists of questions."""

    FOR_ME = "for_me"
    """Questions that wait for the user's answer, the oldest first."""
    OWN = "own"
    """The user's own to others, open and ended, the newest first."""
    ENDED = "ended"
    """Questions that have ended and that the user answered, or might have answered, the newest first."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of questions, and the key after which the next one begins; None after the last one."""

    questions: list[StoredQuestion]
    next: Key | None


def audience_of(user_id: str, roles: Sequence[str]) -> list[str]:
    """Return the names by which questions ask a person."""
    return [f"user:{user_id}", *(f"role:{role}" for role in roles)]


def waiting_for(
    store: Questions, connection: Connection, user_id: str, roles: Sequence[str], after: Key | None = None, size: int = PAGE
) -> Page:
    """Return what waits for an answer of a person, the oldest first: open, in time, not answered, not read by a running turn,
    and not the person's own if it asks others."""
    keys = _waiting_keys(store, user_id, roles, after, size)
    found = connection.execute(select(keys.c.opened_at, keys.c.id).order_by(keys.c.opened_at, keys.c.id).limit(size)).all()
    page = _page(store, connection, found, size)
    # SQL compares texts, and another spelling of an id is no other person.
    return Page([one for one in page.questions if _waits_for(one, user_id)], page.next)


def count_waiting_for(store: Questions, connection: Connection, user_id: str, roles: Sequence[str], most: int = 100) -> int:
    """Return the number of questions that wait for a person, at most `most`."""
    keys = _waiting_keys(store, user_id, roles, None, most)
    return int(connection.execute(select(func.count()).select_from(select(keys.c.id).limit(most).subquery())).scalar_one())


def asked_by(
    store: Questions, connection: Connection, user_id: str, asks: Asks, after: Key | None = None, size: int = PAGE
) -> Page:
    """Return the questions about the calls of a user, the newest first."""
    own: list[ColumnElement[bool]] = [_Q.user_id == user_id, _Q.asks == asks]
    return _page(store, connection, connection.execute(_newest(_Q.opened_at, own, after, size)).all(), size)


def ended_for(
    store: Questions, connection: Connection, user_id: str, roles: Sequence[str], after: Key | None = None, size: int = PAGE
) -> Page:
    """Return the questions that have ended and that a person answered, or might have answered, the newest first.

    Those are the ones to the person, and those to others whose `roles` in the subject name a role of the person.
    """
    found: list[StoredQuestion] = []
    for _ in range(_SCANNED_PAGES):
        page = _page(store, connection, connection.execute(_ended(user_id, after, size)).all(), size)
        for one in page.questions:
            assert one.ended_at is not None
            if one.asks is Asks.REQUESTER or _was_asked(one, user_id, roles):
                found.append(one)
            after = one.ended_at, one.id
            if len(found) == size:
                return Page(found, after)
        if page.next is None:
            return Page(found, None)
        after = page.next
    return Page(found, after)


PAGES: Final[dict[Which, Callable[..., Page]]] = {
    Which.FOR_ME: waiting_for,
    Which.OWN: lambda store, connection, user_id, _, *page: asked_by(store, connection, user_id, Asks.OTHERS, *page),
    Which.ENDED: ended_for,
}
"""Return a page of each list; the arguments are those of `waiting_for`."""


def count_open(store: Questions, connection: Connection, asks: Asks) -> int:
    """Return the number of open questions of all users that can still be answered by a yes."""
    open_ones = (_Q.state == QuestionState.OPEN, _Q.asks == asks, store.in_time)
    return int(connection.execute(select(func.count()).select_from(questions).where(*open_ones)).scalar_one())


def _waiting_keys(store: Questions, user_id: str, roles: Sequence[str], after: Key | None, size: int) -> Subquery:
    """Return the keys of what waits for a person, once each: one indexed range for each name by which a question asks."""
    parts = [select(_waiting(store, user_id, who, after, size).subquery()) for who in audience_of(user_id, roles)]
    return union(*parts).subquery()


def _waiting(store: Questions, user_id: str, who: str, after: Key | None, size: int) -> Select[Any]:
    """Return the SELECT of the keys of one range of the index."""
    answered = exists().where(answers.c.question_id == _Q.id, answers.c.person == user_id)
    wanted = (
        select(audience.c.opened_at, _Q.id)
        .join(questions, _Q.id == audience.c.question_id)
        .where(audience.c.who == who, _Q.state == QuestionState.OPEN, store.in_time, _Q.taken_by.is_(None))
        .where(or_(_Q.asks == Asks.REQUESTER, _Q.user_id != user_id), ~answered)
    )
    if after is not None:
        wanted = wanted.where(tuple_(audience.c.opened_at, audience.c.question_id) > _literal(after))
    return wanted.order_by(audience.c.opened_at, audience.c.question_id).limit(size)


def _ended(user_id: str, after: Key | None, size: int) -> Select[Any]:
    """Return the SELECT of the keys of ended questions: those to the user, and all to others about calls of other users."""
    own, others = (_Q.asks == Asks.REQUESTER, _Q.user_id == user_id), (_Q.asks == Asks.OTHERS, _Q.user_id != user_id)
    ranges = [_newest(_Q.ended_at, [_Q.ended_at.is_not(None), *whose], after, size).subquery() for whose in (own, others)]
    keys = union_all(*map(select, ranges)).subquery()
    return select(keys.c.ended_at, keys.c.id).order_by(keys.c.ended_at.desc(), keys.c.id.desc()).limit(size)


def _newest(time: ColumnElement[Any], conditions: Sequence[ColumnElement[bool]], after: Key | None, size: int) -> Select[Any]:
    wanted = select(time, _Q.id).where(*conditions)
    if after is not None:
        wanted = wanted.where(tuple_(time, _Q.id) < _literal(after))
    return wanted.order_by(time.desc(), _Q.id.desc()).limit(size)


def _page(store: Questions, connection: Connection, keys: Sequence[Any], size: int) -> Page:
    wanted = store.select().where(_Q.id.in_([key.id for key in keys]))
    stored = {one.id: one for one in store.macs.read(connection, connection.execute(wanted).all())} if keys else {}
    # A question with a wrong MAC is left out, and the next page still begins after it.
    return Page([stored[key.id] for key in keys if key.id in stored], (keys[-1][0], keys[-1].id) if len(keys) == size else None)


def _literal(key: Key) -> Any:
    return tuple_(literal(key[0], UtcDateTime()), literal(key[1]))


def _waits_for(question: StoredQuestion, user_id: str) -> bool:
    is_own = question.asks is Asks.OTHERS and is_same_person(question.user_id, user_id)
    return not is_own and not any(is_same_person(one.person, user_id) for one in question.answers)


def _was_asked(question: StoredQuestion, user_id: str, roles: Sequence[str]) -> bool:
    if is_same_person(question.user_id, user_id):
        return False
    named = (*question.subject.get("roles", ()), *question.subject.get("further_roles", ()))
    return any(role in named for role in roles) or any(is_same_person(one.person, user_id) for one in question.answers)
