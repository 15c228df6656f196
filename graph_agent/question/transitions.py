"""The transitions of questions: each is a step of the caller's transaction, by the clock of the database.

A question leaves OPEN once, by `_end` and by nothing else. Locks are taken in the order turn, question, decision, entries,
message, conversation; then due work. The lock comes first and the time is read in a statement of its own: on PostgreSQL the
time of a statement is that of its start, which may be long before it gets the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, delete, insert, or_, select, update

from graph_agent.db import Database, PreparedStatement, insert_into
from graph_agent.models.approval import MAX_OPEN_REQUESTS
from graph_agent.models.decision import MAX_TIMES_ASKED
from graph_agent.models.person import is_same_person
from graph_agent.question.stored import Answer, Macs, NewQuestion, StoredQuestion, new_columns
from graph_agent.question.tables import TOLERANCE, Asks, QuestionState, answers, audience, questions
from graph_agent.record.tree.leaves import RecordKey

_Q = questions.c
_IS_OPEN = and_(_Q.state == QuestionState.OPEN, _Q.closed_by.is_(None))


class Refused(StrEnum):
    """The reason for which a question is not asked, or an answer not stored."""

    TOO_MANY = "too many"
    """The requester has as many open questions to others as one may have."""
    SAME_CALL = "same call"
    """The same call waits already."""
    DENIED = "denied"
    """The same call was denied in the conversation, and its question would still be open."""
    NOT_FOUND = "not found"
    OWN = "own"
    """No user answers a question of their own to others."""
    NOT_ASKED = "not asked"
    """The question does not ask this role."""
    CLOSED = "closed"
    """It has ended, or a yes comes late."""
    OTHER_ANSWER = "other answer"
    """The person has given another answer. An answer is final."""
    OTHER_TEXT = "other text"
    """The answer is about another text than that of the question."""
    WEAK = "weak"
    """The evidence for who answers is weaker than the question needs."""


class QuestionRefusedError(Exception):
    """A transition does not apply. The caller rolls back, or has changed nothing yet."""

    def __init__(self, reason: Refused, question: StoredQuestion | None = None) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.question = question


class Questions:
    """The transitions, for the caller's transactions on one database."""

    def __init__(self, database: Database, *, record_key: RecordKey = None) -> None:
        """`record_key` makes the MACs of the rows."""
        self.database = database
        self.macs = Macs(record_key)
        self.now: ColumnElement[datetime] = database.time()
        self.in_time: ColumnElement[bool] = and_(_Q.expires_at > self.now, _Q.opened_at <= database.time(TOLERANCE))
        """The condition that a question is neither late nor opened before the clock was set back."""

    def select(self) -> Select[Any]:
        """Return the SELECT whose rows `Macs.read` reads."""
        return select(*_Q, self.now.label("read_at"), self.in_time.label("in_time"))

    def find(self, connection: Connection, question_id: str, *, lock: bool = False) -> StoredQuestion | None:
        """Return a question, locked if that is wanted; None if there is none, or if its MAC is wrong."""
        one = _Q.id == question_id
        if lock:
            connection.execute(select(_Q.id).where(one).with_for_update()).close()
        found = self.macs.read(connection, connection.execute(self.select().where(one)).all())
        return found[0] if found else None

    def ask(self, connection: Connection, question: NewQuestion, who: Sequence[str]) -> datetime:
        """Store a new question, in the transaction that closes the decision which asks; return when it was opened.

        `who` is its audience, as `user:ann` or `role:finance`. A question to the requester replaces the open one of its
        conversation. The same question again changes nothing. Raises `QuestionRefusedError`: TOO_MANY, SAME_CALL, DENIED.
        """
        if question.asks is Asks.REQUESTER:
            self.replace_waiting(connection, question.conversation_id, question.decision_id, but=question.id)
        elif question.renews is None and self._is_denied(connection, question):
            raise QuestionRefusedError(Refused.DENIED)
        else:
            # Late ones keep their slot and their call until something ends them, which nothing may do soon.
            self.expire_late(connection, question.user_id)
        slots = _slots_of(question)
        # More tries than there are slots: another transaction may take the one that is free here.
        for _ in range(MAX_OPEN_REQUESTS + 1):
            known = connection.execute(select(_Q.id, _Q.opened_at).where(_Q.id == question.id)).one_or_none()
            if known is not None:
                opened_at: datetime = known.opened_at
                return opened_at
            if question.asks is Asks.OTHERS:
                taken = self._taken_slots(connection, question)
                slots = [slot for slot in _slots_of(question) if slot not in taken]
                if not slots:
                    raise QuestionRefusedError(Refused.TOO_MANY)
            opened_at = connection.execute(select(self.now)).scalar_one()
            if self._insert(connection, question, opened_at, slot=slots[0], state=QuestionState.OPEN):
                self._set_audience(connection, question.id, opened_at, who)
                return opened_at
        raise QuestionRefusedError(Refused.TOO_MANY)

    def ask_in_vain(self, connection: Connection, question: NewQuestion, why: str) -> None:
        """Store a question that may not be asked, as void: the decision that asked is closed, and its user is to hear why."""
        now = connection.execute(select(self.now)).scalar_one()
        self._insert(connection, question, now, ended_at=now, why=why, state=QuestionState.VOID)

    def denied(
        self, connection: Connection, asks: Asks, call_digest: str, user_id: str, conversation_id: str
    ) -> StoredQuestion | None:
        """Return a question for the same calls that was denied in the conversation and would still be open."""
        same = (_Q.user_id == user_id, _Q.call_digest == call_digest, _Q.state == QuestionState.DENIED)
        wanted = self.select().where(*same, _Q.conversation_id == conversation_id, _Q.asks == asks)
        found = self.macs.read(connection, connection.execute(wanted.where(self.in_time).limit(1)).all())
        return found[0] if found else None

    def replace_waiting(self, connection: Connection, conversation_id: str, by: str, *, but: str = "") -> list[str]:
        """End what asks the requester in a conversation, for another question or a message of the decision `by`."""
        waits = (_Q.conversation_id == conversation_id, _Q.asks == Asks.REQUESTER, _IS_OPEN, _Q.id != but)
        found = connection.execute(select(_Q.id).where(*waits).with_for_update()).scalars().all()
        return [one for one in found if self._end(connection, one, QuestionState.REPLACED, by)]

    def take(self, connection: Connection, question_id: str, decision_id: str, user_id: str, conversation_id: str) -> bool:
        """Let a turn read the requester's answer, in its opening commit; False if the question does not wait any more.

        It waits if it is open and in time, in this conversation of this user, and if no other turn reads an answer.
        """
        waits = (_IS_OPEN, self.in_time, or_(_Q.taken_by.is_(None), _Q.taken_by == decision_id))
        own = (_Q.id == question_id, _Q.asks == Asks.REQUESTER, _Q.user_id == user_id, _Q.conversation_id == conversation_id)
        return connection.execute(update(questions).where(*own, *waits).values(taken_by=decision_id)).rowcount == 1

    def use(self, connection: Connection, question_id: str, decision_id: str, answer: Answer) -> bool:
        """End a question by the requester's answer, in the commit before its first call; False if that is not possible.

        It must have been taken by this decision. A yes must be in time, also now; a no counts late. The answer is stored.
        The same use again returns True.
        """
        question = self.find(connection, question_id, lock=True)
        if question is None or question.asks is not Asks.REQUESTER:
            return False
        state = QuestionState.APPROVED if answer.yes else QuestionState.DENIED
        if question.closed_by == decision_id:
            return question.state is state
        if not is_same_person(question.user_id, answer.person) or answer.digest != question.digest:
            return False
        if answer.evidence < question.least or question.taken_by != decision_id or (answer.yes and not question.in_time):
            return False
        if not self._end(connection, question_id, state, decision_id, _Q.taken_by == decision_id):
            return False
        # The requester's own spelling of the id: the constraint compares texts.
        self._store(connection, question, replace(answer, person=question.user_id))
        return True

    def drop(self, connection: Connection, question_id: str, decision_id: str) -> bool:
        """End a question that a turn leaves unanswered: as expired if it is late, or else as replaced by the turn that took it.

        The same again returns True.
        """
        mine = _Q.taken_by == decision_id
        if self._end(connection, question_id, QuestionState.EXPIRED, None, ~self.in_time, or_(_Q.taken_by.is_(None), mine)):
            return True
        if self._end(connection, question_id, QuestionState.REPLACED, decision_id, mine):
            return True
        dropped = select(_Q.id).where(_Q.id == question_id, _Q.closed_by == decision_id, _Q.state == QuestionState.REPLACED)
        return connection.execute(dropped).first() is not None

    def give_back(
        self, connection: Connection, question_id: str, decision_id: str, *, again: dict[str, Any] | None = None
    ) -> bool:
        """Let a question that its turn has not used wait for another answer; False if it does not.

        With `again`, the subject as it is signed anew, it is asked once more, as an unclear answer needs; False if it was asked
        as often as it may be. Its digest stays.
        """
        mine: list[ColumnElement[bool]] = [_Q.id == question_id, _IS_OPEN, _Q.taken_by == decision_id]
        changed: dict[str, Any] = {"taken_by": None}
        if again is not None:
            question = self.find(connection, question_id, lock=True)
            if question is None:
                return False
            mac = self.macs.of_question(replace(question, subject=again), question.opened_at)[0]
            mine.append(_Q.asked < MAX_TIMES_ASKED)
            changed |= {"asked": _Q.asked + 1, "subject": again, "mac": mac}
        return connection.execute(update(questions).where(*mine).values(**changed)).rowcount == 1

    def end_at_once(self, connection: Connection, question: NewQuestion, decision_id: str, answer: Answer | None) -> bool:
        """Store a question to the requester that was asked without this store, with its end; False if it has another end.

        It ends by the answer, or as replaced if there is none. One that is stored and open is used by the decision as if it
        were taken.
        """
        if self._store_ended(connection, question, decision_id, answer):
            return True
        stored = self.find(connection, question.id)
        conversation_id = question.conversation_id if stored is None else stored.conversation_id
        self.take(connection, question.id, decision_id, question.user_id, conversation_id)
        if answer is None:
            return self.drop(connection, question.id, decision_id)
        return self.use(connection, question.id, decision_id, answer)

    def find_waiting(self, connection: Connection, conversation_id: str) -> StoredQuestion | None:
        """Return the open question to the requester in a conversation, also a late one; None if there is none."""
        # Nearly no message comes to a question, so that this is the only statement then.
        found = _FIND_WAITING.first(connection, {"conversation": conversation_id})
        return None if found is None else self.find(connection, found.id)

    def find_asked(self, connection: Connection, decision_id: str, user_id: str) -> StoredQuestion | None:
        """Return the question about calls of this user that a decision has asked; None if there is none."""
        asked = self.select().where(_Q.user_id == user_id, _Q.decision_id == decision_id)
        found = self.macs.read(connection, connection.execute(asked).all())
        return found[0] if found else None

    def has_replaced(self, connection: Connection, conversation_id: str) -> bool:
        """True if a question to the requester in a conversation was replaced before its time was over."""
        replaced = (_Q.conversation_id == conversation_id, _Q.asks == Asks.REQUESTER, _Q.state == QuestionState.REPLACED)
        return connection.execute(select(_Q.id).where(*replaced, self.in_time).limit(1)).first() is not None

    def expire_waiting(self, connection: Connection, limit: int) -> int:
        """End up to `limit` late questions of any requesters that no turn has taken; return their number."""
        late = (_Q.asks == Asks.REQUESTER, _IS_OPEN, ~self.in_time, _Q.taken_by.is_(None))
        found = connection.execute(select(_Q.id).where(*late).limit(limit).with_for_update(skip_locked=True)).scalars().all()
        return sum(self.expire(connection, one) for one in found)

    def answer(
        self,
        connection: Connection,
        question_id: str,
        answer: Answer,
        counts: Callable[[StoredQuestion, Answer], bool] = lambda *_: True,
    ) -> StoredQuestion:
        """Store the answer of another person, and return the question; a denial ends it.

        The same answer again changes nothing. A late denial counts while the question is open, a late yes does not. The caller
        has checked that the person has the role. An answer whose evidence does not suffice, or that does not count, is none.
        Raises `QuestionRefusedError`.
        """
        question = self.find(connection, question_id, lock=True)
        if question is None or question.asks is not Asks.OTHERS:
            raise QuestionRefusedError(Refused.NOT_FOUND)
        if is_same_person(question.user_id, answer.person):
            raise QuestionRefusedError(Refused.OWN, question)
        mine = (one for one in question.answers if is_same_person(one.person, answer.person))
        earlier = next((one for one in mine if one.evidence >= question.least and counts(question, one)), None)
        if earlier is not None:
            if (earlier.yes, earlier.role, earlier.digest) == (answer.yes, answer.role, answer.digest):
                return question
            raise QuestionRefusedError(Refused.OTHER_ANSWER, question)
        if answer.digest != question.digest:
            raise QuestionRefusedError(Refused.OTHER_TEXT, question)
        if question.state is not QuestionState.OPEN or (answer.yes and not question.in_time):
            raise QuestionRefusedError(Refused.CLOSED, question)
        if answer.evidence < question.least:
            raise QuestionRefusedError(Refused.WEAK, question)
        asked = select(audience.c.who).where(audience.c.question_id == question_id, audience.c.who == f"role:{answer.role}")
        if connection.execute(asked).first() is None:
            raise QuestionRefusedError(Refused.NOT_ASKED, question)
        self._store(connection, question, answer)
        if not answer.yes:
            self._end(connection, question_id, QuestionState.DENIED, None)
        return self._again(connection, question_id)

    def cancel(self, connection: Connection, question_id: str, user_id: str, asks: Asks = Asks.OTHERS) -> StoredQuestion:
        """Withdraw a question about calls of the user.

        Raises `QuestionRefusedError`: NOT_FOUND, also for another user's; CLOSED, also while a turn reads its answer.
        """
        # Looked for before it is read, so that another user's is found no later than one that does not exist.
        own = (_Q.id == question_id, _Q.user_id == user_id, _Q.asks == asks)
        if connection.execute(select(_Q.id).where(*own)).first() is None:
            raise QuestionRefusedError(Refused.NOT_FOUND)
        question = self.find(connection, question_id, lock=True)
        if question is None:
            raise QuestionRefusedError(Refused.NOT_FOUND)
        if question.state is QuestionState.CANCELLED:
            return question
        if not self._end(connection, question_id, QuestionState.CANCELLED, None, _Q.taken_by.is_(None)):
            raise QuestionRefusedError(Refused.CLOSED, question)
        return self._again(connection, question_id)

    def claim(
        self, connection: Connection, question_id: str, decision_id: str, may_run: Callable[[StoredQuestion], bool]
    ) -> StoredQuestion | None:
        """Claim the decision that closes a question to others, in the transaction that opens it.

        None if it is not to be closed. An open question in time that `may_run` with its answers is approved by the claim, and
        by nothing else. One that has ended gets the decision that says so. The caller rolls back if there is none.
        """
        question = self.find(connection, question_id, lock=True)
        if question is None or question.asks is not Asks.OTHERS or question.closed_by is not None:
            return None
        if question.state is QuestionState.OPEN:
            if not question.in_time or not may_run(question):
                return None
            if not self._end(connection, question_id, QuestionState.APPROVED, decision_id, self.in_time):
                return None
            return self._again(connection, question_id)
        unclosed = (_Q.id == question_id, _Q.state == question.state, _Q.closed_by.is_(None))
        if connection.execute(update(questions).where(*unclosed).values(closed_by=decision_id)).rowcount != 1:
            return None
        return replace(question, closed_by=decision_id)

    def void(self, connection: Connection, question_id: str, why: str) -> bool:
        """End an open question whose calls the rules refuse now, with the reason as a clause."""
        return self._end(connection, question_id, QuestionState.VOID, None, why=why)

    def expire(self, connection: Connection, question_id: str) -> bool:
        """End a question whose time is over. One that a turn has taken waits: its turn uses it, or gives it back."""
        return self._end(connection, question_id, QuestionState.EXPIRED, None, ~self.in_time, _Q.taken_by.is_(None))

    def expire_late(self, connection: Connection, user_id: str) -> list[str]:
        """End the late questions of a user to others; return their ids."""
        late = (_Q.user_id == user_id, _Q.asks == Asks.OTHERS, _IS_OPEN, ~self.in_time)
        found = connection.execute(select(_Q.id).where(*late).with_for_update()).scalars().all()
        return [one for one in found if self.expire(connection, one)]

    def address(self, connection: Connection, question_id: str, who: Sequence[str]) -> None:
        """Write the audience of an open question anew, for other rules."""
        question = self.find(connection, question_id, lock=True)
        if question is not None and question.state is QuestionState.OPEN:
            connection.execute(_FORGET_AUDIENCE, {"question": question_id}).close()
            self._set_audience(connection, question_id, question.opened_at, who)

    def _end(
        self,
        connection: Connection,
        question_id: str,
        state: QuestionState,
        closed_by: str | None,
        *conditions: ColumnElement[bool],
        why: str | None = None,
    ) -> bool:
        """Leave OPEN, once; False if the question has ended, or does not meet the `conditions`."""
        ended = {"state": state, "closed_by": closed_by, "ended_at": self.now, "why": why, "slot": None, "taken_by": None}
        changed = update(questions).where(_Q.id == question_id, _IS_OPEN, *conditions).values(**ended)
        if connection.execute(changed).rowcount != 1:
            return False
        connection.execute(_FORGET_AUDIENCE, {"question": question_id}).close()
        return True

    def _is_denied(self, connection: Connection, question: NewQuestion) -> bool:
        named = (question.asks, question.call_digest, question.user_id, question.conversation_id)
        return self.denied(connection, *named) is not None

    def _store_ended(self, connection: Connection, question: NewQuestion, decision_id: str, answer: Answer | None) -> bool:
        """Store a question to the requester with its end; False if it is stored already."""
        now = connection.execute(select(self.now)).scalar_one()
        state = QuestionState.REPLACED
        if answer is not None:
            state = QuestionState.APPROVED if answer.yes else QuestionState.DENIED
        if not self._insert(connection, question, now, ended_at=now, closed_by=decision_id, state=state):
            return False
        if answer is not None:
            self._store(connection, self._again(connection, question.id), replace(answer, person=question.user_id))
        return True

    def _insert(self, connection: Connection, question: NewQuestion, opened_at: datetime, **row: Any) -> bool:
        """Insert a question that is asked for the first time; False if it is stored already, or another one has its slot."""
        row |= {"asked": 1, "opened_at": opened_at, "expires_at": question.expires_at}
        row["mac"] = self.macs.of_question(question, opened_at)[0]
        statement = insert_into(questions, connection.dialect.name).on_conflict_do_nothing()
        stored = statement.values(**new_columns(question), **row).returning(_Q.id)
        return connection.execute(stored).one_or_none() is not None

    def _store(self, connection: Connection, question: StoredQuestion, answer: Answer) -> None:
        # A row of this person that does not count is no answer, and must not keep the person from giving one.
        mine = (answers.c.question_id == question.id, answers.c.person == answer.person)
        connection.execute(delete(answers).where(*mine)).close()
        named = ("person", "yes", "digest", "role", "reason", "identity", "evidence", "signature")
        row = {name: getattr(answer, name) for name in named}
        whose = {"question_id": question.id, "asks": question.asks, "requester": question.user_id}
        mac = self.macs.of_answer(question.id, answer, question.read_at)[0]
        connection.execute(insert(answers).values(**row, **whose, answered_at=question.read_at, mac=mac)).close()

    def _taken_slots(self, connection: Connection, question: NewQuestion) -> set[int | None]:
        """Return the slots that the user's open questions have. Raises `QuestionRefusedError` SAME_CALL."""
        open_ones = (_Q.user_id == question.user_id, _Q.asks == Asks.OTHERS, _Q.state == QuestionState.OPEN)
        found = connection.execute(select(_Q.slot, _Q.call_digest).where(*open_ones)).all()
        if any(row.call_digest == question.call_digest for row in found):
            raise QuestionRefusedError(Refused.SAME_CALL)
        return {row.slot for row in found if row.slot is not None}

    def _set_audience(self, connection: Connection, question_id: str, opened_at: datetime, who: Sequence[str]) -> None:
        rows = [{"who": one, "opened_at": opened_at, "question_id": question_id} for one in dict.fromkeys(who)]
        if rows:
            connection.execute(insert(audience), rows).close()

    def _again(self, connection: Connection, question_id: str) -> StoredQuestion:
        question = self.find(connection, question_id)
        assert question is not None
        return question


_FIND_WAITING = PreparedStatement(
    select(_Q.id).where(
        _Q.conversation_id == bindparam("conversation"), _Q.asks == Asks.REQUESTER, _Q.state == QuestionState.OPEN
    )
)
_FORGET_AUDIENCE = delete(audience).where(audience.c.question_id == bindparam("question"))


def _slots_of(question: NewQuestion) -> list[int | None]:
    """Return the slots that a question may get. Only first questions to others have one."""
    if question.asks is Asks.REQUESTER or question.renews is not None:
        return [None]
    return [*range(1, MAX_OPEN_REQUESTS + 1)]
