"""Approval requests and their answers: each transition is one transaction, by the clock of the database.

A request is open, then it ends once: approved with the claim of its closing decision, denied, cancelled or expired. Locks are
taken in the order turn, request, decision, as `RecordedTurn` has it. Rows carry a MAC, so that nobody who can only write to
the database adds an answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, delete, func, insert, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from graph_agent.chat.conversations.tables import approval_answers, approvals
from graph_agent.db import Database, DatabaseUnavailableError, delete_pages, insert_new
from graph_agent.due.table import DueTable, WorkKind
from graph_agent.errors import RecordUnavailableError, ServiceError, ServiceErrorCode
from graph_agent.models.approval import CLOCK_TOLERANCE, ApprovalAnswer, ApprovalState, KnownRequests
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import ApprovalRequest, ClosedRequest
from graph_agent.models.person import is_same_person
from graph_agent.models.record import DecisionRecord, RecordHeader
from graph_agent.policy.answer_evidence import AnswerEvidence
from graph_agent.record.tables import decision_logs
from graph_agent.record.tree.leaves import RecordKey, Sealer
from graph_agent.record.writer import RecordedTurn
from graph_agent.reply.fixed import denied_by

KEEP_REQUESTS = timedelta(days=30)
"""The time for which a request is kept after its end."""
LISTED = 200
"""The number of requests that a list has at most, the newest."""

_CLOSINGS = uuid.UUID("5f6d1c0e-93c7-4b63-9d0f-2b6a3f0e8c11")
_OPEN = approvals.c.state == ApprovalState.OPEN
_SEALED = ("id", "user_id", "conversation_id", "decision_id", "call_digest")
_ANSWER = ("approver", "approve", "role", "reason", "digest", "identity", "signature", "answered_at")


class NoticeKind(StrEnum):
    """The notices about an approval request that are sent to a webhook."""

    REQUESTED = "requested"
    REMINDER = "reminder"
    CLOSED = "closed"


def notice_key(request_id: str, kind: NoticeKind) -> str:
    """Return the key of a notice among the due work, which is its id for the receiver, too."""
    return f"{request_id}.{kind}"


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
        return self.state is ApprovalState.OPEN and self.closing_decision is None and self.in_time


class ApprovalStore:
    """The tables of approval requests.

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
        request are due with its opening and its end.
        """
        self.database = database
        self._due = DueTable(database)
        self._notices = notices
        self.evidence = evidence or AnswerEvidence()
        self._sealer = Sealer(record_key)
        self._origin = origin
        self._now = database.time()
        # A request that was made much later than now was made before the database's clock was set back.
        self._in_time = and_(approvals.c.expires_at > self._now, approvals.c.created_at <= database.time(CLOCK_TOLERANCE))

    async def known(self, call_digest: str, user_id: str, conversation_id: str) -> KnownRequests:
        """Return what is known about earlier requests; see `ApprovalRequests`. Raises `RecordUnavailableError`."""
        table = approvals.c

        def find(connection: Connection) -> KnownRequests:
            is_open = (table.user_id == user_id, _OPEN, self._in_time)
            count = connection.execute(select(func.count()).select_from(approvals).where(*is_open)).scalar_one()
            same = connection.execute(select(table.id).where(*is_open, table.call_digest == call_digest).limit(1)).scalar()
            denied = (table.state == ApprovalState.DENIED, table.conversation_id == conversation_id, self._in_time)
            refused = connection.execute(
                select(table.id).where(table.user_id == user_id, table.call_digest == call_digest, *denied).limit(1)
            ).scalar()
            answers = () if refused is None else self._answers(connection, [refused]).get(refused, ())
            denial = next((one for one in answers if not one.approve), None)
            return KnownRequests(
                origin=self._origin,
                evidence=self.evidence.required,
                same=same or "",
                denied="" if refused is None else (denied_by(denial) if denial is not None else "it was denied").lower(),
                open=count,
                at=connection.execute(select(self._now)).scalar_one(),
            )

        try:
            return await self.database.read(find)
        except (DatabaseUnavailableError, SQLAlchemyError) as exc:
            raise RecordUnavailableError("the requests cannot be read") from exc

    def open(self, connection: Connection, request: ApprovalRequest) -> None:
        """Store a new request, in the transaction that closes the decision which opens it."""
        action = request.action
        row = {
            "id": request.id,
            "user_id": request.user_id,
            "conversation_id": request.conversation_id,
            "decision_id": request.decision_id,
            "call_digest": request.call_digest,
            "request": request.to_json(),
        }
        times = {"created_at": action.created_at, "expires_at": action.expires_at}
        stored = {**row, **times, "state": ApprovalState.OPEN, "mac": self._macs_of_request(row)[0]}
        insert_new(connection, approvals, [stored])
        self._put_notice(connection, request.id, request.user_id, NoticeKind.REQUESTED)
        half = (action.expires_at - action.created_at) / 2
        self._put_notice(connection, request.id, request.user_id, NoticeKind.REMINDER, half)

    async def find(self, request_id: str) -> StoredRequest | None:
        """Return a request; None if there is none, or if it was not written by a process with the key."""
        return await self.database.read(lambda connection: self._one(connection, request_id))

    async def find_proven(self, request_id: str) -> tuple[StoredRequest | None, tuple[ApprovalState, str | None]]:
        """Return a request, and the state and the closing decision that it has by its answers and by the log.

        A decision of the log that closes it has closed it, and a denial ends it. Nothing but the claim of the closing decision
        approves a request.
        """

        def find(connection: Connection) -> tuple[StoredRequest | None, tuple[ApprovalState, str | None]]:
            # The log first: a decision that is there has been written to the row in the same commit.
            wanted = select(decision_logs.c.header).where(decision_logs.c.decision_id == closing_id(request_id))
            header = connection.execute(wanted).scalar()
            stored = self._one(connection, request_id)
            if stored is None:
                return None, (ApprovalState.OPEN, None)
            closed = None if header is None else RecordHeader.model_validate_json(header).context.approval
            if closed is not None:
                return stored, (closed.end, closing_id(request_id))
            if stored.closing_decision is not None:
                return stored, (stored.state, stored.closing_decision)
            if any(not one.approve for one in stored.answers):
                return stored, (ApprovalState.DENIED, None)
            return stored, (ApprovalState.OPEN if stored.state is ApprovalState.APPROVED else stored.state, None)

        return await self.database.read(find)

    async def list_open(self) -> list[StoredRequest]:
        """Return the open requests of all users, the oldest first."""
        return await self._listed(self._select().where(_OPEN).order_by(approvals.c.created_at))

    async def count_open(self) -> int:
        """Return the number of requests of all users that can still be approved."""
        wanted = select(func.count()).select_from(approvals).where(_OPEN, self._in_time)
        return await self.database.read(lambda connection: int(connection.execute(wanted).scalar_one()))

    async def list_of(self, user_id: str) -> list[StoredRequest]:
        """Return the requests of a user, the newest first."""
        own = approvals.c.user_id == user_id
        return await self._listed(self._select().where(own).order_by(approvals.c.created_at.desc()))

    async def list_ended(self) -> list[StoredRequest]:
        """Return the requests that have ended, the newest first."""
        return await self._listed(self._select().where(~_OPEN).order_by(approvals.c.ended_at.desc()))

    async def list_same(self, request: ApprovalRequest) -> list[StoredRequest]:
        """Return the other requests for the same call by the same user, the newest first."""
        table = approvals.c
        same = (table.user_id == request.user_id, table.call_digest == request.call_digest, table.id != request.id)
        return await self._listed(self._select().where(*same).order_by(table.created_at.desc()))

    async def unclosed(self) -> list[str]:
        """Return the requests that are open, or whose end has no closing decision yet, the oldest first."""
        wanted = (
            select(approvals.c.id).where(or_(_OPEN, approvals.c.closing_decision.is_(None))).order_by(approvals.c.created_at)
        )
        return await self.database.read(lambda connection: list(connection.execute(wanted.limit(1_000)).scalars()))

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

        The same answer again changes nothing. Raises `ServiceError`: APPROVAL_NOT_FOUND, ACCESS_DENIED for the requester,
        APPROVAL_CLOSED, APPROVAL_CONFLICT for another answer of the same person or for another digest.
        """
        return await self.database.write(lambda connection: self.answer_now(connection, request_id, answer))

    def answer_now(self, connection: Connection, request_id: str, answer: ApprovalAnswer) -> StoredRequest:
        """Store an answer in a transaction; see `answer`."""
        stored = self._locked(connection, request_id)
        if is_same_person(stored.request.user_id, answer.approver):
            raise ServiceError(ServiceErrorCode.ACCESS_DENIED, "Nobody answers a request of their own.")
        same = (one for one in stored.answers if is_same_person(one.approver, answer.approver))
        if (earlier := next(same, None)) is not None:
            if (earlier.approve, earlier.role, earlier.digest) == (answer.approve, answer.role, answer.digest):
                return stored
            raise ServiceError(
                ServiceErrorCode.APPROVAL_CONFLICT, "You have answered this request already. An answer is final."
            )
        if answer.digest != stored.request.digest:
            text = "The answer is about another text than that of this request. Read it again, then answer."
            raise ServiceError(ServiceErrorCode.APPROVAL_CONFLICT, text)
        # A late denial counts as long as the request has not ended.
        has_ended = stored.state is not ApprovalState.OPEN or stored.closing_decision is not None
        if has_ended or (answer.approve and not stored.in_time):
            raise closed_error(stored)
        answer = answer.replace(answered_at=stored.read_at)
        row = {name: getattr(answer, name) for name in _ANSWER}
        # A row of this person that does not count is no answer, and must not keep the person from giving one.
        table = approval_answers.c
        mine = delete(approval_answers).where(table.approval_id == request_id, table.approver == answer.approver)
        connection.execute(mine)
        connection.execute(
            insert(approval_answers).values(**row, approval_id=request_id, mac=self._macs_of_answer(request_id, answer)[0])
        )
        if not answer.approve:
            self._end(connection, stored, ApprovalState.DENIED)
        return self._locked(connection, request_id)

    async def cancel(self, request_id: str, user_id: str) -> StoredRequest:
        """End an open request of the user. Raises `ServiceError` as `answer`; another user's is not found."""

        def cancel_now(connection: Connection) -> StoredRequest:
            # Looked for before it is read, so that another user's is found no later than one that does not exist.
            own = (approvals.c.id == request_id, approvals.c.user_id == user_id)
            if connection.execute(select(approvals.c.id).where(*own)).first() is None:
                raise not_found()
            stored = self._locked(connection, request_id)
            if stored.state is ApprovalState.CANCELLED:
                return stored
            if stored.state is not ApprovalState.OPEN or stored.closing_decision is not None:
                raise closed_error(stored)
            self._end(connection, stored, ApprovalState.CANCELLED)
            return self._locked(connection, request_id)

        return await self.database.write(cancel_now)

    async def expire(self) -> int:
        """End the open requests whose time is over; return their number."""
        late = update(approvals).where(_OPEN, ~self._in_time).values(state=ApprovalState.EXPIRED, ended_at=self._now)

        def expire_late(connection: Connection) -> int:
            ended = connection.execute(late.returning(approvals.c.id, approvals.c.user_id)).all()
            for row in ended:
                self._put_closed(connection, row.id, row.user_id)
            return len(ended)

        return await self.database.write(expire_late)

    def claim(
        self, connection: Connection, request_id: str, decision_id: str, may_run: Callable[[StoredRequest], bool]
    ) -> ClosedRequest | None:
        """Claim the closing decision of a request, in the transaction that opens that decision; None if it is not to be closed.

        An open request that `may_run` with its answers is approved by the claim, and by nothing else: a row that is approved
        without a closing decision is not believed. The caller rolls back if there is none.
        """
        stored = self._one(connection, request_id, lock=True)
        if stored is None or stored.closing_decision is not None or stored.state is ApprovalState.APPROVED:
            return None
        end: ApprovalState = stored.state
        if end is ApprovalState.OPEN:
            if not stored.in_time or not may_run(stored):
                return None
            end = ApprovalState.APPROVED
            self._end(connection, stored, end)
        closed = update(approvals).where(approvals.c.id == request_id).values(closing_decision=decision_id)
        connection.execute(closed)
        return ClosedRequest(request=stored.request, answers=stored.answers, end=end, why=stored.why)

    async def set_right(self, stored: StoredRequest, state: ApprovalState, closing_decision: str | None) -> None:
        """Correct the row of a request that was changed from outside, unless it has been changed since it was read."""
        table = approvals.c
        as_read = (table.id == stored.request.id, table.state == stored.state)
        right = {"state": state, "closing_decision": closing_decision}
        ended_at = None if state is ApprovalState.OPEN else func.coalesce(table.ended_at, stored.read_at)
        corrected = update(approvals).where(*as_read).values(**right, ended_at=ended_at)
        await self.database.write(lambda connection: connection.execute(corrected).close())

    def _end(self, connection: Connection, stored: StoredRequest, state: ApprovalState) -> None:
        """End an open request whose row is locked, at the time at which it was read."""
        ended = {"state": state, "ended_at": stored.read_at}
        connection.execute(update(approvals).where(approvals.c.id == stored.request.id, _OPEN).values(**ended))
        self._put_closed(connection, stored.request.id, stored.request.user_id)

    def _put_closed(self, connection: Connection, request_id: str, user_id: str) -> None:
        """Make the notice of the end due, in place of those about the open request."""
        if self._notices:
            earlier = (notice_key(request_id, kind) for kind in (NoticeKind.REQUESTED, NoticeKind.REMINDER))
            self._due.remove(connection, WorkKind.NOTICE, *earlier)
        self._put_notice(connection, request_id, user_id, NoticeKind.CLOSED)

    def _put_notice(
        self, connection: Connection, request_id: str, user_id: str, kind: NoticeKind, after: timedelta = timedelta()
    ) -> None:
        if self._notices:
            self._due.put(connection, WorkKind.NOTICE, notice_key(request_id, kind), user_id=user_id, after=after)

    def _select(self) -> Select[Any]:
        return select(*approvals.c, self._now.label("read_at"), self._in_time.label("in_time"))

    async def _listed(self, wanted: Select[Any]) -> list[StoredRequest]:
        def find(connection: Connection) -> list[StoredRequest]:
            rows = connection.execute(wanted.limit(LISTED)).all()
            answers = self._answers(connection, [row.id for row in rows])
            found = [self._stored(row, answers.get(row.id, ())) for row in rows]
            return [one for one in found if one is not None]

        return await self.database.read(find)

    def _locked(self, connection: Connection, request_id: str) -> StoredRequest:
        stored = self._one(connection, request_id, lock=True)
        if stored is None:
            raise not_found()
        return stored

    def _one(self, connection: Connection, request_id: str, *, lock: bool = False) -> StoredRequest | None:
        one = approvals.c.id == request_id
        if lock:
            # A statement of its own: the time of a statement is that of its start, which may be long before it gets the lock.
            connection.execute(select(approvals.c.id).where(one).with_for_update()).close()
        row = connection.execute(self._select().where(one)).one_or_none()
        return None if row is None else self._stored(row, self._answers(connection, [request_id]).get(request_id, ()))

    def _answers(self, connection: Connection, request_ids: Sequence[str]) -> dict[str, tuple[ApprovalAnswer, ...]]:
        table, found = approval_answers.c, dict[str, tuple[ApprovalAnswer, ...]]()
        wanted = (
            select(approval_answers).where(table.approval_id.in_(list(request_ids))).order_by(table.answered_at, table.approver)
        )
        for row in connection.execute(wanted):
            answer = ApprovalAnswer(**{name: getattr(row, name) for name in _ANSWER})
            if row.mac in self._macs_of_answer(row.approval_id, answer):
                found[row.approval_id] = (*found.get(row.approval_id, ()), answer)
        return found

    def _stored(self, row: Row[Any], answers: tuple[ApprovalAnswer, ...]) -> StoredRequest | None:
        if row.mac not in self._macs_of_request(row._asdict()):
            return None
        request = ApprovalRequest.model_validate(row.request)
        if (row.created_at, row.expires_at) != (request.action.created_at, request.action.expires_at):
            return None
        if request.evidence == self.evidence.required:
            # A process with other keys cannot say which answers count, and decides nothing.
            answers = tuple(one for one in answers if self.evidence.problem_of(request, one) is None)
        ends = row.ended_at, row.closing_decision, row.why or ""
        return StoredRequest(request, row.state, answers, row.read_at, bool(row.in_time), row.created_at, *ends)

    def _macs_of_request(self, row: dict[str, Any]) -> list[str]:
        return self._sealer.macs("approval request", *(row[name] for name in _SEALED), text=canonical_json(row["request"]))

    def _macs_of_answer(self, request_id: str, answer: ApprovalAnswer) -> list[str]:
        return self._sealer.macs("approval answer", request_id, text=canonical_json(answer.to_json()))


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
            self._store.open(connection, request)


async def prune_approvals(database: Database, now: datetime) -> int:
    """Remove the requests that ended long ago, with their answers; return the number of requests."""
    table = approvals.c
    old = and_(table.closing_decision.is_not(None), table.ended_at < now - KEEP_REQUESTS)
    answers = delete(approval_answers).where(approval_answers.c.approval_id.in_(select(table.id).where(old)))
    await database.write(lambda connection: connection.execute(answers).close())
    return await delete_pages(database.write, table.id, old)


def open_ids(connection: Connection, user_id: str) -> list[str]:
    """Return the ids of the requests of a user that have not ended."""
    own = (approvals.c.user_id == user_id) & (approvals.c.state == ApprovalState.OPEN)
    return list(connection.execute(select(approvals.c.id).where(own).order_by(approvals.c.created_at)).scalars())


def erase_approvals(connection: Connection, user_id: str) -> None:
    """Remove the requests of a user. The user's answers to the requests of others stay: they belong to those."""
    own = select(approvals.c.id).where(approvals.c.user_id == user_id)
    connection.execute(delete(approval_answers).where(approval_answers.c.approval_id.in_(own)))
    connection.execute(delete(approvals).where(approvals.c.user_id == user_id))


def not_found() -> ServiceError:
    """Return the error for a request that does not exist, or that the caller may not see."""
    return ServiceError(ServiceErrorCode.APPROVAL_NOT_FOUND, "There is no such request for your approval.")


def closed_error(stored: StoredRequest) -> ServiceError:
    """Return the error for a request that has ended."""
    state = ApprovalState.EXPIRED if stored.state is ApprovalState.OPEN else stored.state
    return ServiceError(ServiceErrorCode.APPROVAL_CLOSED, f"This request has ended: {state}.")


def closing_id(request_id: str) -> str:
    """Return the id of the decision that closes a request: a request has one, whatever its row says."""
    return str(uuid.uuid5(_CLOSINGS, request_id))
