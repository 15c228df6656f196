"""Turns: claims, leases and answers.

A claim is one INSERT that does nothing on conflict: with a turn of the same user and key, or with another running turn of the
conversation. A claim lasts until its lease expires; then any process may take the turn over, by compare-and-set on `attempt`.
A process whose attempt is no longer the current one can no longer write to the turn.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, TypedDict

from sqlalchemy import Connection, Row, func, select

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.conversations import turn_rows
from graph_agent.chat.conversations.reading import existing_conversation, owned_conversation
from graph_agent.chat.conversations.tables import Role, TurnState, turns
from graph_agent.chat.conversations.turn_rows import ClaimedTurn, TurnLimit
from graph_agent.clock import RandomIds
from graph_agent.db import DatabaseUnavailableError, closing_writes, read_pages
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.approval import ApprovalState
from graph_agent.models.authors import TextAuthor, TextAuthors
from graph_agent.models.canonical import digest
from graph_agent.models.decision import (
    ApprovalRequest,
    ConfirmationAnswer,
    DecisionContext,
    EarlierCall,
    Message,
    ShownQuestion,
)
from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import PlanChoice, RecordedPlan
from graph_agent.models.record import DecisionOpening
from graph_agent.models.stop import Sending
from graph_agent.models.undo import UndoneDecision
from graph_agent.ports import Clock, IdSource
from graph_agent.question import confirmations
from graph_agent.question.approvals import ApprovalStore, StoredRequest, closing_id
from graph_agent.question.stored import StoredQuestion
from graph_agent.question.transitions import Questions
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.reply import fixed

PAGE = 100
"""The abandoned turns that are read at a time."""
_TITLE_LENGTH = 80
_NO_USER = ""
_TRIES = 5
"""The number of attempts to insert a claim. Each may conflict with a turn that ends before it can be read."""


class MessageFields(TypedDict, total=False):
    """The fields of a `TurnRequest` that a message may have."""

    conversation_id: str | None
    idem_key: str | None
    answers: ConfirmationAnswer | None
    shown: ShownQuestion | None
    roles: tuple[str, ...]
    dry_run: bool
    time_zone: str
    job: str
    arrived_at: float | None


class WantedPlan(NamedTuple):
    """A decision that is to be done again, and what its user has chosen of the plan for it."""

    decision_id: str
    choice: PlanChoice
    found: RecordedPlan | None = None
    """The plan, once it is made from the record."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A message of a user. Without `conversation_id` it starts a conversation; without `idem_key` it is never a repetition."""

    user_id: str
    content: str
    conversation_id: str | None = None
    idem_key: str | None = None
    answers: ConfirmationAnswer | None = None
    shown: ShownQuestion | None = None
    """The question that the client shows; None if it does not say so."""
    roles: tuple[str, ...] = ()
    """The user's roles, for the conditions of the policy."""
    dry_run: bool = False
    """True to change nothing: the calls are only judged."""
    time_zone: str = ""
    """The name of the user's time zone, in which times are said. The same message from another one is the same message."""
    job: str = ""
    """The job of which this is a run: it begins a conversation. Empty for a message of the user."""
    called: tuple[FunctionCall, ...] = ()
    """The calls of a decision without a model, which `content` names."""
    undoes: UndoneDecision | None = None
    """The decision that the calls undo."""
    again: WantedPlan | None = None
    """The decision that is to be done again, by a plan that is asked about."""
    arrived_at: float | None = None
    """The time from which the deadline of the turn counts, in seconds of the clock's monotonic time; by default its start."""

    @property
    def body_digest(self) -> str:
        body: dict[str, Any] = {"conversation_id": self.conversation_id, "content": self.content}
        if self.answers is not None:
            read = [self.answers.read] if self.answers.read else []
            body["answers"] = [self.answers.pending_action, self.answers.yes, *read]
        if self.shown is not None:
            body["shown"] = self.shown.pending_action
        if self.dry_run:
            body["dry_run"] = True
        if self.job:
            body["job"] = self.job
        if self.undoes is not None:
            # The calls follow from it, and from the time.
            body["undoes"] = self.undoes.decision_id
        elif self.called:
            body["called"] = [call.to_json() for call in self.called]
        if self.again is not None:
            # The plan follows from them, and from the rules.
            body["again"] = [self.again.decision_id, self.again.choice.to_json()]
        return digest(body)

    @property
    def is_by_code(self) -> bool:
        """True if `content` is none of the user's words: it names calls, or a decision."""
        return bool(self.called) or self.undoes is not None or self.again is not None


@dataclass(frozen=True, slots=True)
class AbandonedTurn:
    """A running turn whose lease has expired: the same request (`same_request`), or one that blocks the conversation."""

    decision_id: str
    attempt: int
    same_request: bool = False


class ClosingTurn(NamedTuple):
    """The claimed closing decision of an approval request. It has no turn if the request was made in no chat."""

    decision_id: str
    turn: ClaimedTurn | None


OpenRecord = Callable[[str, DecisionContext, datetime], DecisionOpening]
"""Returns the opening row of a decision, by its id, its context and the time of the database.

Called in a transaction, which an exception rolls back.
"""


class TurnStore:
    """The turns table, with the messages of each turn.

    Every method is one transaction, and raises `ServiceError` SERVICE_UNAVAILABLE if the database does not answer.
    """

    def __init__(
        self, audit: DatabaseAuditWriter, *, clock: Clock, ids: IdSource, lease: timedelta, turns_per_minute: int
    ) -> None:
        self._database = audit.database
        self._audit = audit
        self.questions = Questions(audit.database, record_key=audit.record_key)
        """The questions to the users of the turns."""
        self._clock = clock
        self._ids = ids
        self._leases = turn_rows.LeaseStatements(audit.database, lease)
        self._limit = TurnLimit(audit.database)
        self._turns_per_minute = turns_per_minute
        self._owner = RandomIds().new()

    async def claim(self, request: TurnRequest, open_record: OpenRecord) -> ClaimedTurn | ChatAnswer | AbandonedTurn:
        """Insert the turn of `request` with its user message, or return the turn that exists in its place.

        The opening row of a new turn, which `open_record` composes, is inserted in the same commit. Raises `ServiceError`:
        CONVERSATION_NOT_FOUND, ACCESS_DENIED, RATE_LIMITED, IDEMPOTENCY_KEY_REUSED, REQUEST_IN_PROGRESS, CONVERSATION_BUSY,
        STOPPED.
        """
        for _ in range(_TRIES):
            try:
                claimed, opening = await self._database.write(lambda connection: self._claim(connection, request, open_record))
            except _ConflictError:
                found = await self._database.read(lambda connection: self._conflicting(connection, request))
                if found is not None:
                    return _resolve(found, request)
            else:
                self._audit.remember_texts(opening)
                return claimed
        raise busy()

    async def answered(self, request: TurnRequest) -> ChatAnswer | None:
        """Return the answer that the same request has got before; None if it is new. Raises as `claim`."""
        if request.idem_key is None:
            return None
        same = {"user": request.user_id, "key": request.idem_key}
        found = await self._database.read(
            lambda connection: connection.execute(self._leases.find_same_request, same).one_or_none()
        )
        resolved = None if found is None else _resolve(found, request)
        return resolved if isinstance(resolved, ChatAnswer) else None

    async def claim_closing(
        self,
        approvals: ApprovalStore,
        request: ApprovalRequest,
        may_run: Callable[[StoredRequest], bool],
        open_record: OpenRecord,
    ) -> ClosingTurn | None:
        """Claim the closing decision of an approval request; None if it is not to be closed now, or has been.

        It is a turn in the requester's conversation, outside the rate limit, or a decision of its own for a request that was
        made in no chat. Raises `ServiceError` CONVERSATION_BUSY while another turn of the conversation runs.
        """
        key = f" approval:{request.id}"  # no client can send the space
        decision_id = closing_id(request.id)

        opened: list[DecisionOpening] = []

        def claim(connection: Connection) -> tuple[ClosingTurn, DecisionOpening]:
            in_chat = existing_conversation(connection, request.user_id, request.conversation_id) is not None
            turn = {"id": decision_id, "user_id": request.user_id, "idem_key": key, "body_digest": request.digest}
            inserted_at = self._insert_turn(connection, turn, request.conversation_id) if in_chat else None
            if in_chat and inserted_at is None:
                raise _ConflictError
            now = inserted_at or self._clock.now()
            closed = approvals.claim(connection, request.id, decision_id, may_run)
            if closed is None:
                raise _NotToBeClosedError
            if closed.end is ApprovalState.APPROVED:
                # What only takes away goes on while it is stopped.
                action = closed.request.action
                self._audit.permit.require_none(connection, Sending(request.user_id, action.tool_name, changes=True))
            message = fixed.CLOSING_MESSAGES[closed.end]
            history: list[Message] = []
            claimed = None
            if in_chat:
                history = turn_rows.history(connection, request.conversation_id)
                self._insert_message(connection, decision_id, request.conversation_id, message, now, by_code=True)
                claimed = ClaimedTurn(decision_id, request.user_id, request.conversation_id, 1, now)
            context = DecisionContext(
                user_id=request.user_id,
                message=message,
                conversation_id=request.conversation_id,
                message_history=history,
                roles=request.user_roles,
                approval=closed,
            )
            opening = open_record(decision_id, context, now)
            opened[:] = [] if in_chat else [opening]
            self._audit.open(connection, opening)
            return ClosingTurn(decision_id, claimed), opening

        try:
            closing, opening = await self._database.write(claim)
        except _NotToBeClosedError:
            return None
        except _ConflictError:
            raise busy() from None
        except DatabaseUnavailableError:
            # It may be committed, and without a turn no lease shows that no process runs it.
            for opening in opened:
                self._audit.leave_open(decision_id, opening)
            raise
        self._audit.remember_texts(opening)
        return closing

    async def take_over(self, turn: AbandonedTurn) -> ClaimedTurn | None:
        """Claim the next attempt of a turn; None if another process was faster, or the lease has been renewed."""
        attempted = {"turn": turn.decision_id, "claimed_attempt": turn.attempt}
        owned = {"new_owner": self._owner, "new_attempt": turn.attempt + 1}

        def claim_next_attempt(connection: Connection) -> ClaimedTurn | None:
            if connection.execute(self._leases.take_over, {**attempted, **owned}).rowcount != 1:
                return None
            row = connection.execute(self._leases.find, attempted).one()
            whose = row.id, row.user_id, row.conversation_id
            claimed = ClaimedTurn(*whose, row.attempt, row.read_at, bool(row.stopped))
            return None if turn_rows.delete_without_record(connection, claimed) else claimed

        return await self._database.write(claim_next_attempt)

    async def expire(self, turn: ClaimedTurn) -> None:
        """Expire the lease now, so that a repeated request need not wait for it."""
        await self._database.write(lambda connection: connection.execute(self._leases.expire, turn.key).close())

    async def renew(self, claimed: Sequence[ClaimedTurn]) -> dict[str, bool]:
        """Renew the leases of these attempts in one commit; return those still claimed, and if their user has stopped them.

        It does not wait behind the writes of the turns themselves, which may be many.
        """

        def renew_each(connection: Connection) -> dict[str, bool]:
            rows = {turn.decision_id: connection.execute(self._leases.renew, turn.key).first() for turn in claimed}
            return {name: bool(row.stopped) for name, row in rows.items() if row is not None}

        with closing_writes():
            return await self._database.write(renew_each)

    async def stop(self, decision_id: str, user_id: str) -> bool:
        """Tell the process that runs a turn of the user to end it; False if none runs."""
        row = {"turn": decision_id, "user": user_id}
        return await self._database.write(lambda connection: connection.execute(turn_rows.STOP, row).rowcount == 1)

    async def answer(self, decision_id: str) -> ChatAnswer | None:
        """Return the answer of a turn; None if it has none."""
        return await self._database.read(lambda connection: turn_rows.stored_answer(connection, decision_id))

    async def files_of_question(self, pending_id: str, user_id: str) -> dict[str, str] | None:
        """Return the files of the process that asked the user the question `pending_id`; None if it was not asked."""

        def find(connection: Connection) -> dict[str, str] | None:
            asked = confirmations.find_confirmation(self.questions, connection, pending_id, user_id)
            return None if asked is None else confirmations.files_of(asked)

        return await self._database.read(find)

    async def abandoned(self) -> AsyncGenerator[AbandonedTurn]:
        """Yield the running turns whose lease has expired, oldest first."""
        key = turns.c.lease_until, turns.c.id
        async for rows in read_pages(self._database.read, self._leases.find_abandoned, *key, size=PAGE):
            for row in rows:
                yield AbandonedTurn(row.id, row.attempt)

    async def check_writable(self) -> None:
        """Count a turn of no user, which is one write."""
        await self._database.write(lambda connection: self._limit.count(connection, _NO_USER, sys.maxsize))

    async def open(self, user_id: str, about: str) -> str:
        """Begin a conversation without a turn, and return its id. `about` is the text of its title."""
        return await self._database.write(lambda connection: self._open(connection, user_id, about))

    def _open(self, connection: Connection, user_id: str, about: str) -> str:
        conversation_id, now = self._ids.new(), self._clock.now()
        title = " ".join(about.split())[:_TITLE_LENGTH]
        row = {"id": conversation_id, "user_id": user_id, "title": title, "created_at": now, "updated_at": now}
        turn_rows.INSERT_CONVERSATION.run(connection, row)
        return conversation_id

    async def count_open(self) -> int:
        """Return the number of running turns that this store has claimed."""
        own = turns.c.owner == self._owner, turns.c.state == TurnState.RUNNING
        wanted = select(func.count()).select_from(turns).where(*own)
        return await self._database.read(lambda connection: connection.execute(wanted).scalar_one())

    async def running(self, decision_ids: Sequence[str]) -> set[str]:
        """Return those of `decision_ids` that are running turns."""
        wanted = select(turns.c.id).where(turns.c.id.in_(list(decision_ids)), turns.c.state == TurnState.RUNNING)
        return await self._database.read(lambda connection: set(connection.execute(wanted).scalars()))

    def _claim(
        self, connection: Connection, request: TurnRequest, open_record: OpenRecord
    ) -> tuple[ClaimedTurn, DecisionOpening]:
        decision_id = self._ids.new()
        history: list[Message] = []
        unknown: tuple[EarlierCall, ...] = ()
        answers, shown = request.answers, request.shown
        asked_in = request.conversation_id
        if asked_in is None and answers is not None:
            asked = confirmations.find_confirmation(self.questions, connection, answers.pending_action, request.user_id)
            asked_in = None if asked is None else existing_conversation(connection, request.user_id, asked.conversation_id)
        if asked_in is None:
            conversation_id = self._open(connection, request.user_id, request.content)
        else:
            conversation_id = owned_conversation(connection, request.user_id, asked_in).id
        turn = {"id": decision_id, "user_id": request.user_id, "idem_key": request.idem_key, "body_digest": request.body_digest}
        now = self._insert_turn(connection, turn, conversation_id)
        if now is None:
            raise _ConflictError
        # After the claim, so that a request that was answered before gets its answer.
        self._audit.permit.require_none(connection, Sending(request.user_id))
        self._limit.count(connection, request.user_id, self._turns_per_minute)
        # Calls and dry runs answer no question: the one that waits in the conversation goes on waiting.
        asks_nothing = request.is_by_code or request.dry_run
        waiting: StoredQuestion | None = None
        if asked_in is not None and not asks_nothing:
            waiting = self._take_waiting(connection, decision_id, request.user_id, conversation_id)
        state_of = partial(
            confirmations.answer_state,
            self.questions,
            connection,
            user_id=request.user_id,
            conversation_id=conversation_id,
        )
        if answers is not None:
            answers = answers.replace(state=state_of(answers.pending_action))
        shown = shown or confirmations.shown_question(self.questions, connection, waiting)
        if shown is not None and shown.pending_action is not None:
            shown = shown.replace(state=state_of(shown.pending_action))
        if asked_in is not None:
            history = turn_rows.history(connection, conversation_id)
            unknown = turn_rows.unknown_calls(connection, conversation_id)
        by_code, in_card = request.is_by_code, request.answers is not None
        self._insert_message(connection, decision_id, conversation_id, request.content, now, by_code=by_code, in_card=in_card)
        context = DecisionContext(
            user_id=request.user_id,
            message=request.content,
            conversation_id=conversation_id,
            message_history=[] if by_code else history,
            pending_confirmation=None if waiting is None else confirmations.action_of(waiting),
            answers=answers,
            shown=None if asks_nothing else shown,
            roles=request.roles,
            dry_run=request.dry_run,
            time_zone=request.time_zone,
            job=request.job or _job_of_answer(waiting, answers),
            called=request.called,
            undoes=request.undoes,
            proposed=None if request.again is None else request.again.found,
            unknown=unknown,
        )
        opening = open_record(decision_id, context, now)
        self._audit.open(connection, opening)
        return ClaimedTurn(decision_id, request.user_id, conversation_id, 1, now), opening

    def _take_waiting(
        self, connection: Connection, decision_id: str, user_id: str, conversation_id: str
    ) -> StoredQuestion | None:
        """Return the question that waits in a conversation, which the turn has taken unless it is late."""
        waiting = self.questions.find_waiting(connection, conversation_id)
        if waiting is None or not waiting.in_time:
            return waiting
        if not self.questions.take(connection, waiting.id, decision_id, user_id, conversation_id):
            raise _ConflictError
        return waiting

    def _insert_turn(self, connection: Connection, turn: dict[str, Any], conversation_id: str) -> datetime | None:
        """Insert a claimed turn; return the time of the database, None if another turn is in its place."""
        row = {"conversation_id": conversation_id, "state": TurnState.RUNNING, "owner": self._owner, "attempt": 1}
        inserted = self._leases.claim.first(connection, {**turn, **row})
        return None if inserted is None else inserted.created_at

    def _insert_message(
        self,
        connection: Connection,
        decision_id: str,
        conversation_id: str,
        content: str,
        now: datetime,
        *,
        by_code: bool = False,
        in_card: bool = False,
    ) -> None:
        """Insert the message with which a turn begins, of the user or `by_code`. An answer to a card is shown on the card."""
        row = {"id": self._ids.new(), "conversation_id": conversation_id, "role": Role.USER, "content": content}
        authors = TextAuthors(message=TextAuthor.CODE, reply=[]).to_json() if by_code else None
        turn_rows.INSERT_MESSAGE.run(
            connection, {**row, "decision_id": decision_id, "created_at": now, "authors": authors, "in_card": in_card or None}
        )

    def _conflicting(self, connection: Connection, request: TurnRequest) -> Row[Any] | None:
        """Return the turn that prevents a claim: the same request, or the running turn of its conversation."""
        found = None
        if request.idem_key is not None:
            same = {"user": request.user_id, "key": request.idem_key}
            found = connection.execute(self._leases.find_same_request, same).one_or_none()
        if found is None and request.conversation_id is not None:
            running = {"conversation": request.conversation_id}
            found = connection.execute(self._leases.find_running, running).one_or_none()
        return found


def _job_of_answer(waiting: StoredQuestion | None, answers: ConfirmationAnswer | None) -> str:
    """Return the job whose run has asked the question that is answered by its id: the answer continues that run.

    Other words in its conversation are a message of the user, who is there and is asked.
    """
    answered = waiting is not None and answers is not None and answers.pending_action == waiting.id
    return confirmations.action_of(waiting).job if waiting is not None and answered else ""


class _NotToBeClosedError(Exception):
    """An approval request is not to be closed; the transaction is rolled back."""


class _ConflictError(Exception):
    """The claim conflicts with an existing turn; its transaction is rolled back."""


def _resolve(found: Row[Any], request: TurnRequest) -> ChatAnswer | AbandonedTurn:
    """Return the existing turn as the result of a claim. Raises `ServiceError` if the request must wait."""
    same_request = request.idem_key is not None and found.idem_key == request.idem_key
    if same_request and found.body_digest != request.body_digest:
        text = "This Idempotency-Key was used for another request."
        raise ServiceError(ServiceErrorCode.IDEMPOTENCY_KEY_REUSED, text)
    if found.state is TurnState.DONE:
        return ChatAnswer.model_validate(found.answer)
    if not found.expired:
        raise in_progress() if same_request else busy()
    return AbandonedTurn(found.id, found.attempt, same_request)


def in_progress() -> ServiceError:
    text = "This request is still being processed."
    return ServiceError(ServiceErrorCode.REQUEST_IN_PROGRESS, text, retry_after=1)


def busy() -> ServiceError:
    text = "Another message of this conversation is still being processed."
    return ServiceError(ServiceErrorCode.CONVERSATION_BUSY, text, retry_after=1)
