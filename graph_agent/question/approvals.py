"""Approval requests: the questions to others about one exact call each, with what is due about them.

A request is open, then it ends once: approved with the claim of its closing decision, denied, cancelled or expired. An approval
makes it due to be decided, in the lane of the rules under which it was asked: a process with other rules does so only if none
has, and under both. Its expiry, and any other end, make it due to be ended, by any process.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, and_, delete, exists, func, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from graph_agent.db import Database, DatabaseUnavailableError, delete_pages
from graph_agent.db.database import DELETED_AT_ONCE
from graph_agent.due.table import DueTable, WorkKind
from graph_agent.errors import RecordUnavailableError, ServiceError, ServiceErrorCode
from graph_agent.models.approval import ApprovalAnswer, ApprovalState, KnownRequests, RequiredEvidence
from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.decision import ApprovalRequest, ClosedRequest
from graph_agent.models.record import DecisionRecord, RecordHeader
from graph_agent.models.rules_digests import RulesDigests
from graph_agent.models.stop import Sending, Stop
from graph_agent.policy.answer_evidence import AnswerEvidence
from graph_agent.question import inbox
from graph_agent.question.stored import Answer, NewQuestion, StoredQuestion
from graph_agent.question.tables import Asks, Evidence, QuestionState, answers, audience, questions
from graph_agent.question.transitions import QuestionRefusedError, Questions, Refused
from graph_agent.record.rules_head import find_head
from graph_agent.record.tables import decision_logs
from graph_agent.record.tree.leaves import RecordKey, Sealer
from graph_agent.record.writer import RecordedTurn
from graph_agent.reply.fixed import denied_by

KEEP_QUESTIONS = timedelta(days=30)
"""The time for which a question is kept after its end."""
LISTED = 200
"""The number of requests that a list for the operator has at most."""

_COPIED = "it was open when the database was copied, and is decided where it was made"
_STOPPED = "the operator has ended what waited during a stop"
_CLOSINGS = uuid.UUID("5f6d1c0e-93c7-4b63-9d0f-2b6a3f0e8c11")
_Q = questions.c
_IN_VAIN = {
    Refused.TOO_MANY: "as many requests as you may have were opened at the same time",
    Refused.SAME_CALL: "the same call was requested at the same time, and waits already",
    Refused.DENIED: "the same call was denied at the same time",
}


class NoticeKind(StrEnum):
    """The notices about an approval request that are sent to a webhook."""

    REQUESTED = "requested"
    REMINDER = "reminder"
    CLOSED = "closed"


def notice_key(request_id: str, kind: NoticeKind) -> str:
    """Return the key of a notice among the due work, which is its id for the receiver, too."""
    return f"{request_id}.{kind}"


def rules_digest(rules: RulesDigests, evidence: RequiredEvidence) -> str:
    """Return the digest of rules without the definitions of tools: the lane of what they decide first."""
    return digest([rules.constitution, rules.conditions, evidence.to_json()])


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request as it is stored, with the answers whose MACs are valid and that have the evidence which they need."""

    request: ApprovalRequest
    state: ApprovalState
    answers: tuple[ApprovalAnswer, ...]
    read_at: datetime
    """The time of the database, by which it is `in_time`; if its row was locked, after the wait for the lock."""
    in_time: bool
    created_at: datetime
    ended_at: datetime | None
    closing_decision: str | None
    why: str = ""

    @property
    def is_open(self) -> bool:
        """True if it can still be approved."""
        return self.state is ApprovalState.OPEN and self.in_time


class ApprovalStore:
    """The approval requests of a database.

    Methods raise `ServiceError` SERVICE_UNAVAILABLE if the database does not answer.
    """

    def __init__(
        self,
        database: Database,
        *,
        record_key: RecordKey = None,
        origin: str = "",
        evidence: AnswerEvidence | None = None,
        notices: bool = False,
    ) -> None:
        """`record_key` makes the MACs of the rows; `origin` is that of the log, which requests name.

        `evidence` is what answers need in this process; by default an asserted one counts. With `notices`, those about a
        request become due with its opening and its end, for the webhook of a server.
        """
        self.database = database
        self.evidence = evidence or AnswerEvidence()
        self._questions = Questions(database, record_key=record_key)
        self._sealer = Sealer(record_key)
        self._due = DueTable(database)
        self._origin = origin
        self._notices = notices

    async def known(self, call_digest: str, user_id: str, conversation_id: str) -> KnownRequests:
        """Return what is known about earlier requests; see `ApprovalRequests`. Raises `RecordUnavailableError`."""

        def find(connection: Connection) -> KnownRequests:
            own = (_Q.user_id == user_id, _Q.asks == Asks.OTHERS, _Q.state == QuestionState.OPEN, self._questions.in_time)
            found = connection.execute(select(_Q.id, _Q.call_digest, _Q.renewals).where(*own)).all()
            denied = self._questions.denied(connection, Asks.OTHERS, call_digest, user_id, conversation_id)
            denial = None if denied is None else next((one for one in self.request_of(denied).answers if not one.approve), None)
            return KnownRequests(
                origin=self._origin,
                evidence=self.evidence.required,
                same=next((one.id for one in found if one.call_digest == call_digest), ""),
                denied="" if denied is None else (denied_by(denial) if denial is not None else "it was denied").lower(),
                open=sum(one.renewals == 0 for one in found),
                at=connection.execute(select(self._questions.now)).scalar_one(),
            )

        try:
            return await self.database.read(find)
        except (DatabaseUnavailableError, SQLAlchemyError) as exc:
            raise RecordUnavailableError("the requests cannot be read") from exc

    def open(self, connection: Connection, request: ApprovalRequest, renews: str | None = None) -> None:
        """Store a new request, in the transaction that closes the decision which opens it.

        One that may not be opened, because another transaction was faster, ends as void, and its user reads why.
        """
        question = question_of(request, renews)
        if connection.execute(select(_Q.id).where(_Q.id == question.id)).first() is not None:
            return
        try:
            self._questions.ask(connection, question, [f"role:{role}" for role in request.counted_roles])
        except QuestionRefusedError as refused:
            self._questions.ask_in_vain(connection, question, _IN_VAIN[refused.reason])
            self._due.put(connection, WorkKind.END, request.id, user_id=request.user_id)
            return
        now = connection.execute(select(self._questions.now)).scalar_one()
        left = max(request.action.expires_at - now, timedelta())
        self._due.put(connection, WorkKind.END, request.id, user_id=request.user_id, after=left)
        self._put_notice(connection, request.id, request.user_id, NoticeKind.REQUESTED)
        self._put_notice(connection, request.id, request.user_id, NoticeKind.REMINDER, left / 2)

    async def find(self, request_id: str) -> StoredRequest | None:
        """Return a request; None if there is none, or if it was not written by a process with the key."""
        return await self.database.read(lambda connection: self._find(connection, request_id))

    def of_user(self, connection: Connection, user_id: str, request_ids: Sequence[str]) -> dict[str, StoredRequest]:
        """Return those of these requests that the user has made, by their ids."""
        wanted = self._questions.select().where(_Q.id.in_(list(request_ids)), _Q.user_id == user_id, _Q.asks == Asks.OTHERS)
        found = self._questions.macs.read(connection, connection.execute(wanted).all()) if request_ids else []
        return {one.id: self.request_of(one) for one in found}

    async def find_proven(self, request_id: str) -> tuple[StoredRequest | None, tuple[ApprovalState, str | None]]:
        """Return a request, and the state and the closing decision that it has by its answers and by the log.

        A decision of the log that closes it has closed it, and a denial ends it. Nothing but the claim of the closing decision
        approves a request.
        """

        def find(connection: Connection) -> tuple[StoredRequest | None, tuple[ApprovalState, str | None]]:
            # The log first: a decision that is there has been written to the row in the same commit.
            wanted = select(decision_logs.c.header).where(decision_logs.c.decision_id == closing_id(request_id))
            header = connection.execute(wanted).scalar()
            stored = self._find(connection, request_id)
            if stored is None:
                return None, (ApprovalState.OPEN, None)
            closed = None if header is None else RecordHeader.model_validate_json(header).context.approval
            if closed is not None:
                return stored, (closed.end, closing_id(request_id))
            if stored.closing_decision is None and any(not one.approve for one in stored.answers):
                return stored, (ApprovalState.DENIED, None)
            return stored, (stored.state, stored.closing_decision)

        return await self.database.read(find)

    async def list_open(self) -> list[StoredRequest]:
        """Return open requests of all users, the oldest first, for their operator."""
        wanted = self._questions.select().where(_Q.asks == Asks.OTHERS, _Q.state == QuestionState.OPEN)

        def find(connection: Connection) -> list[StoredRequest]:
            rows = connection.execute(wanted.order_by(_Q.opened_at, _Q.id).limit(LISTED)).all()
            return [self.request_of(one) for one in self._questions.macs.read(connection, rows)]

        return await self.database.read(find)

    async def list_same(self, request: ApprovalRequest) -> list[StoredRequest]:
        """Return the other requests for the same call by the same user, the newest first."""
        same = (_Q.user_id == request.user_id, _Q.call_digest == request.call_digest, _Q.id != request.id)
        wanted = self._questions.select().where(*same, _Q.asks == Asks.OTHERS).order_by(_Q.opened_at.desc()).limit(LISTED)
        return await self.database.read(
            lambda connection: [
                self.request_of(one) for one in self._questions.macs.read(connection, connection.execute(wanted).all())
            ]
        )

    async def count_open(self) -> int:
        """Return the number of requests of all users that can still be approved."""
        return await self.database.read(lambda connection: inbox.count_open(self._questions, connection, Asks.OTHERS))

    async def count_changed(self) -> int:
        """Return the number of the newest open requests whose rows are not as this service has written them."""
        wanted = self._questions.select().where(_Q.asks == Asks.OTHERS, _Q.state == QuestionState.OPEN)

        def find(connection: Connection) -> int:
            rows = connection.execute(wanted.order_by(_Q.opened_at.desc()).limit(LISTED)).all()
            return len(rows) - len(self._questions.macs.read(connection, rows))

        return await self.database.read(find)

    async def decided_at(self, decision_ids: Sequence[str]) -> list[datetime]:
        """Return when those of these decisions were opened that were, in the order of the ids."""
        wanted = select(decision_logs.c.decision_id, decision_logs.c.created_at).where(
            decision_logs.c.decision_id.in_(list(decision_ids))
        )
        found = await self.database.read(
            lambda connection: {row.decision_id: row.created_at for row in connection.execute(wanted)}
        )
        return [found[one] for one in decision_ids if one in found]

    async def answer(self, request_id: str, answer: ApprovalAnswer) -> StoredRequest:
        """Store an answer, whose time is set to that of the database; a denial ends the request.

        The same answer again changes nothing. Raises `ServiceError`: QUESTION_NOT_FOUND, ACCESS_DENIED for the requester,
        QUESTION_CLOSED, QUESTION_CONFLICT for another answer of the same person or for another digest.
        """
        return await self.database.write(lambda connection: self.answer_now(connection, request_id, answer))

    def answer_now(self, connection: Connection, request_id: str, answer: ApprovalAnswer) -> StoredRequest:
        """Store an answer in a transaction; see `answer`."""
        given = Answer(
            person=answer.approver,
            yes=answer.approve,
            digest=answer.digest,
            role=answer.role,
            reason=answer.reason,
            identity=answer.identity,
            signature=answer.signature,
        )
        try:
            question = self._questions.answer(connection, request_id, given, self._counts)
        except QuestionRefusedError as refused:
            raise error_of(refused) from refused
        if question.state is QuestionState.OPEN:
            self._due.put(connection, WorkKind.DECIDE, request_id, lane=question.rules, user_id=question.user_id)
        else:
            self._ended(connection, question)
        return self.request_of(question)

    async def cancel(self, request_id: str, user_id: str) -> StoredRequest:
        """End an open request of the user. Raises `ServiceError` as `answer`; another user's is not found."""

        def cancel_now(connection: Connection) -> StoredRequest:
            try:
                question = self._questions.cancel(connection, request_id, user_id)
            except QuestionRefusedError as refused:
                raise error_of(refused) from refused
            if question.closed_by is None:
                self._ended(connection, question)
            return self.request_of(question)

        return await self.database.write(cancel_now)

    async def void_refused(self, request_id: str, why: str, rules: str) -> bool:
        """End a request that the rules with this digest refuse if an operator has activated them; False if they are followed.

        A process that follows its own files says nothing about others, which may have the rules under which it was asked.
        """

        def void(connection: Connection) -> bool:
            head = find_head(connection, self._sealer)
            if head is None or not head.binds or head.digest != rules:
                return False
            question = self._questions.find(connection, request_id, lock=True)
            if question is None or not self._questions.void(connection, request_id, why):
                return False
            self._ended(connection, question)
            return True

        return await self.database.write(void)

    async def void_covered(self, stop: Stop) -> int:
        """End the open requests for calls that a stop covers, and return their number: after it they must be asked anew."""
        wanted = self._questions.select().where(_Q.asks == Asks.OTHERS, _Q.state == QuestionState.OPEN)

        def void(connection: Connection) -> int:
            found = self._questions.macs.read(connection, connection.execute(wanted.order_by(_Q.id).with_for_update()).all())
            covered = [one for one in found if stop.covers(Sending(one.user_id, _tool_of(one), changes=True))]
            ended = [one for one in covered if self._questions.void(connection, one.id, _STOPPED)]
            for one in ended:
                self._ended(connection, one)
            return len(ended)

        return await self.database.write(void)

    async def expire(self, request_id: str) -> bool:
        """End a request whose time is over; False if it is not, or has ended."""
        return await self.database.write(lambda connection: self._questions.expire(connection, request_id))

    def claim(
        self, connection: Connection, request_id: str, decision_id: str, may_run: Callable[[StoredRequest], bool]
    ) -> ClosedRequest | None:
        """Claim the closing decision of a request, in the transaction that opens that decision; None if it is not to be closed.

        An open request that `may_run` with its answers is approved by the claim, and by nothing else. The caller rolls back if
        there is none.
        """
        closed = self._questions.claim(connection, request_id, decision_id, lambda one: may_run(self.request_of(one)))
        if closed is None:
            return None
        for kind in (WorkKind.DECIDE, WorkKind.END):
            self._due.remove(connection, kind, request_id)
        if closed.state is QuestionState.APPROVED:
            self._put_notice(connection, request_id, closed.user_id, NoticeKind.CLOSED)
        stored = self.request_of(closed)
        return ClosedRequest(request=stored.request, answers=stored.answers, end=stored.state, why=stored.why)

    async def set_right(self, stored: StoredRequest, state: ApprovalState, closing_decision: str | None) -> None:
        """Correct the row of a request that was changed from outside, unless it has been changed since it was read."""
        as_read = (_Q.id == stored.request.id, _Q.state == QuestionState(stored.state))
        right = {"state": QuestionState(state), "closed_by": closing_decision, "slot": None}
        corrected = update(questions).where(*as_read).values(**right, ended_at=func.coalesce(_Q.ended_at, self._questions.now))

        def correct(connection: Connection) -> None:
            connection.execute(corrected).close()
            self._due.put(connection, WorkKind.END, stored.request.id, user_id=stored.request.user_id)

        await self.database.write(correct)

    def _ended(self, connection: Connection, question: StoredQuestion) -> None:
        """Make the closing decision of a request due that has ended without its call."""
        self._due.remove(connection, WorkKind.DECIDE, question.id)
        self._due.put(connection, WorkKind.END, question.id, user_id=question.user_id)
        self._put_notice(connection, question.id, question.user_id, NoticeKind.CLOSED)

    def _put_notice(
        self, connection: Connection, request_id: str, user_id: str, kind: NoticeKind, after: timedelta = timedelta()
    ) -> None:
        if self._notices:
            if kind is NoticeKind.CLOSED:
                self._due.remove(connection, WorkKind.NOTICE, notice_key(request_id, NoticeKind.REMINDER))
            self._due.put(connection, WorkKind.NOTICE, notice_key(request_id, kind), user_id=user_id, after=after)

    def _find(self, connection: Connection, request_id: str) -> StoredRequest | None:
        question = self._questions.find(connection, request_id)
        return None if question is None or question.asks is not Asks.OTHERS else self.request_of(question)

    def _counts(self, question: StoredQuestion, answer: Answer) -> bool:
        request = ApprovalRequest.model_validate(question.subject)
        if request.evidence != self.evidence.required:
            # A process with other keys cannot say which answers count, and decides nothing.
            return True
        return self.evidence.problem_of(request, _approval_answer(question, answer)) is None

    def request_of(self, question: StoredQuestion) -> StoredRequest:
        """Return a question to others as a request, with the answers that count."""
        given = [one for one in question.answers if one.evidence >= question.least and self._counts(question, one)]
        return StoredRequest(
            ApprovalRequest.model_validate(question.subject),
            ApprovalState(question.state),
            tuple(_approval_answer(question, one) for one in given),
            question.read_at,
            question.in_time,
            question.opened_at,
            question.ended_at,
            question.closed_by,
            question.why,
        )


class OpensRequests(RecordedTurn):
    """Stores the request with which a decision ends that belongs to no chat."""

    def __init__(self, store: ApprovalStore) -> None:
        self._store = store

    def end_close(self, connection: Connection, record: DecisionRecord) -> None:
        if (request := record.decision.approval) is None:
            return
        wanted = select(decision_logs.c.record).where(decision_logs.c.decision_id == record.header.decision_id)
        # Another process may have closed the decision with another end.
        if connection.execute(wanted).scalar_one() == canonical_json(record.to_json()):
            self._store.open(connection, request, renewed_by(record))


def renewed_by(record: DecisionRecord) -> str | None:
    """Return the request that a closing decision opens anew; None for any other decision."""
    closed = record.header.context.approval
    return None if closed is None else closed.request.id


async def prune_questions(database: Database, now: datetime) -> int:
    """Remove the questions that ended long ago, with their answers; return the number of questions.

    Late questions to requesters end now: nothing else may come that ends them.
    """
    store = Questions(database)
    while await database.write(lambda connection: store.expire_waiting(connection, DELETED_AT_ONCE)):
        pass
    later = questions.alias("later")
    closed = or_(_Q.closed_by.is_not(None), _Q.asks == Asks.REQUESTER)
    # A question that was asked anew is kept as long as the one that renews it.
    old = and_(closed, _Q.ended_at < now - KEEP_QUESTIONS, ~exists().where(later.c.renews == _Q.id))
    pruned = 0
    while removed := await _prune_pages(database, old):
        pruned += removed
    return pruned


async def _prune_pages(database: Database, old: Any) -> int:
    ids = select(_Q.id).where(old)
    await delete_pages(database.write, answers.c.question_id, answers.c.question_id.in_(ids))
    return await delete_pages(database.write, _Q.id, old, ~exists().where(answers.c.question_id == _Q.id))


def void_copied(database: Database) -> int:
    """End the open requests of a copied database, whose calls the database that was copied may make; return their number.

    Their users read why, by the closing decision that is due.
    """
    due = DueTable(database)
    open_ones = (_Q.asks == Asks.OTHERS, _Q.state == QuestionState.OPEN)

    def end(connection: Connection) -> int:
        found = connection.execute(select(_Q.id, _Q.user_id).where(*open_ones)).all()
        for row in found:
            Questions(database).void(connection, row.id, _COPIED)
            due.remove(connection, WorkKind.DECIDE, row.id)
            due.put(connection, WorkKind.END, row.id, user_id=row.user_id)
        return len(found)

    return database.write_now(end)


def open_ids(connection: Connection, user_id: str) -> list[str]:
    """Return the ids of the requests of a user that have not ended."""
    own = (_Q.user_id == user_id, _Q.asks == Asks.OTHERS, _Q.state == QuestionState.OPEN)
    return list(connection.execute(select(_Q.id).where(*own).order_by(_Q.opened_at)).scalars())


def erase_questions(connection: Connection, user_id: str) -> None:
    """Remove the questions about calls of a user. The user's answers to those of others stay: they belong to those."""
    own = select(_Q.id).where(_Q.user_id == user_id)
    connection.execute(delete(answers).where(answers.c.question_id.in_(own)))
    connection.execute(delete(audience).where(audience.c.question_id.in_(own)))
    connection.execute(delete(questions).where(_Q.user_id == user_id))


def not_found() -> ServiceError:
    """Return the error for a question that does not exist, or that the caller may not see."""
    return ServiceError(ServiceErrorCode.QUESTION_NOT_FOUND, "There is no such question.")


def closing_id(request_id: str) -> str:
    """Return the id of the decision that closes a request: a request has one, whatever its row says."""
    return str(uuid.uuid5(_CLOSINGS, request_id))


def question_of(request: ApprovalRequest, renews: str | None) -> NewQuestion:
    """Return the question of a request, which may renew an earlier one. A renewal of one that is not known is a new one."""
    rules = request.action.asked_under
    return NewQuestion(
        id=request.id,
        asks=Asks.OTHERS,
        user_id=request.user_id,
        conversation_id=request.conversation_id,
        decision_id=request.decision_id,
        subject=request.to_json(),
        digest=request.digest,
        call_digest=request.call_digest,
        rules=rules_digest(rules, request.evidence),
        tools=digest(rules.tools),
        least=_least(request.evidence),
        expires_at=request.action.expires_at,
        renewals=request.renewals if renews is not None else 0,
        renews=renews,
    )


def _approval_answer(question: StoredQuestion, answer: Answer) -> ApprovalAnswer:
    return ApprovalAnswer(
        approver=answer.person,
        approve=answer.yes,
        role=answer.role,
        reason=answer.reason,
        digest=answer.digest,
        identity=answer.identity,
        signature=answer.signature,
        answered_at=answer.answered_at or question.read_at,
    )


def _tool_of(question: StoredQuestion) -> str:
    return ApprovalRequest.model_validate(question.subject).action.tool_name


def _least(evidence: RequiredEvidence) -> Evidence:
    if evidence.approver_keys:
        return Evidence.SIGNED
    return Evidence.SIGNED_IN if evidence.sign_in else Evidence.ASSERTED


def error_of(refused: QuestionRefusedError) -> ServiceError:
    """Return the error for a transition that does not apply."""
    question, code = refused.question, ServiceErrorCode
    match refused.reason:
        case Refused.OTHER_ANSWER:
            return ServiceError(code.QUESTION_CONFLICT, "You have answered this question already. An answer is final.")
        case Refused.OTHER_TEXT:
            text = "The answer is about another text than that of this question. Read it again, then answer."
            return ServiceError(code.QUESTION_CONFLICT, text)
        case Refused.CLOSED if question is not None:
            return ServiceError(code.QUESTION_CLOSED, f"This question has ended: {question.state_now}.")
        case Refused.OWN:
            return ServiceError(code.ACCESS_DENIED, "Nobody answers a request of their own.")
        case Refused.WEAK:
            return ServiceError(
                code.VALIDATION_ERROR, "The answer does not count: its approver has not signed in, or not signed."
            )
    return not_found()
