"""The questions that wait for people, whatever asked them: one inbox, one view and one answer for each.

A question to its requester is answered by a turn of its conversation, one to others by the service of approvals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from graph_agent.chat.answer import ChatAnswer, StartedTurn
from graph_agent.chat.approvals import ApprovalService
from graph_agent.chat.closed_records import load_closed
from graph_agent.chat.conversations.question_store import QuestionStore
from graph_agent.chat.page_keys import key_of, next_after
from graph_agent.chat.question_view import ApprovalView, QuestionList, QuestionSummary, summary_of_card
from graph_agent.chat.session import ChatStores
from graph_agent.errors import ServiceError, ServiceErrorCode, service_unavailable
from graph_agent.models.approval import ApproverIdentity
from graph_agent.models.decision import ConfirmationAnswer
from graph_agent.models.record import DecisionRecord
from graph_agent.question.approvals import error_of, not_found
from graph_agent.question.confirmations import action_of
from graph_agent.question.inbox import Which
from graph_agent.question.stored import StoredQuestion
from graph_agent.question.tables import Asks, QuestionState
from graph_agent.question.transitions import QuestionRefusedError, Refused
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn


@dataclass(frozen=True, slots=True)
class Person:
    """The user in whose name a question is answered or read."""

    user_id: str
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnswer:
    """An answer as a person gives it, about what has this `digest`."""

    yes: bool
    digest: str
    identity: ApproverIdentity = ApproverIdentity.ASSERTED
    role: str | None = None
    """For a question to others: the role in which the person answers; by default a role that is needed."""
    reason: str = ""
    """For a question to others: a no needs one."""
    signature: str = ""
    words: str | None = None
    """For a question to the requester: the message in its conversation, which is shown and not read."""


_LOOK_SECONDS = 1.0
"""The time between two looks at a question that a client waits for."""

Admission = Callable[[Callable[[], Awaitable[StartedTurn]]], Awaitable[StartedTurn]]
"""Starts the turn of an answer, once there is room for it."""


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question after an answer."""

    question: QuestionSummary
    reply: ChatAnswer | None
    """For a question to the requester: the answer of the turn that followed."""


class QuestionService:
    """Questions, as those who are asked and their requesters use them. Methods raise `ServiceError`."""

    def __init__(
        self,
        engine: LLMAgentEngine,
        stores: ChatStores,
        approvals: ApprovalService | None,
        start: Callable[..., Awaitable[StartedTurn]],
        load_answer: Callable[[str], Awaitable[ChatAnswer | None]],
    ) -> None:
        """`start` starts a turn of the chat, and `load_answer` returns the answer of one that has ended."""
        self._engine = engine
        self._store = QuestionStore(stores.audit.database, stores.turns.questions)
        self._approvals = approvals
        self._start = start
        self._load_answer = load_answer

    async def inbox(
        self, person: Person, which: Which = Which.FOR_ME, size: int = 50, before: str | None = None
    ) -> QuestionList:
        """Return a page of at most `size` questions; `before` is the `next` of the page before it."""
        after = None if before is None else key_of(before)
        page, titles, waiting = await self._store.page(which, person.user_id, person.roles, after, size)
        to_others = [one for one in page.questions if one.asks is Asks.OTHERS]
        requests = {one.id: one for one in await self._approvals.summaries(to_others)} if self._approvals else {}
        listed = [
            summary_of_card(one, titles.get(one.conversation_id, "")) if one.asks is Asks.REQUESTER else requests.get(one.id)
            for one in page.questions
        ]
        after_this = None if page.next is None else next_after(*page.next)
        return QuestionList(questions=[one for one in listed if one is not None], next=after_this, waiting=waiting)

    async def view(self, question_id: str, person: Person) -> QuestionSummary | ApprovalView:
        """Return everything about a question. Raises QUESTION_NOT_FOUND."""
        question, title = await self._store.find_own(question_id, person.user_id)
        if question is not None:
            return summary_of_card(question, title)
        return await self._to_others().view(question_id, person.user_id, person.roles)

    async def answer(
        self,
        question_id: str,
        person: Person,
        given: GivenAnswer,
        *,
        idem_key: str | None = None,
        arrived_at: float | None = None,
        admit: Admission = lambda begin: begin(),
    ) -> AnsweredQuestion:
        """Answer a question, and return what came of it. The same answer again changes nothing.

        A yes or no of the requester is a turn of the conversation, which `admit` starts and which is awaited. Raises
        QUESTION_NOT_FOUND, QUESTION_CLOSED, QUESTION_CONFLICT, the errors of `ApprovalService.answer`, and those of a turn.
        """
        question, title = await self._store.find_own(question_id, person.user_id)
        if question is None:
            answered = await self._to_others().answer(
                question_id,
                person.user_id,
                person.roles,
                approve=given.yes,
                digest=given.digest,
                identity=given.identity,
                role=given.role,
                reason=given.reason,
                signature=given.signature,
            )
            return AnsweredQuestion(answered, None)
        reply = await self._answered_before(question, given)
        if reply is None and not title:
            started = await admit(partial(self._answer_of_program, question, given.yes, person.roles))
            reply = started if isinstance(started, ChatAnswer) else await started.result()
        elif reply is None:
            card = action_of(question)
            answers = ConfirmationAnswer(pending_action=question_id, yes=given.yes, read=card.whole_digest)
            fields = {"answers": answers, "idem_key": idem_key, "arrived_at": arrived_at, "roles": person.roles}
            started = await admit(partial(self._start, person.user_id, given.words, **fields))
            reply = started if isinstance(started, ChatAnswer) else await started.result()
        return AnsweredQuestion(await self.view(question_id, person), reply)

    async def asked_by(self, decision_id: str, user_id: str) -> StoredQuestion | None:
        """Return the question that a decision of the user has asked, to whomever; None if it asked none."""
        return await self._store.find_asked(decision_id, user_id)

    async def wait(self, question_id: str, user_id: str) -> ChatAnswer | None:
        """Wait until a question to the user has ended; return the answer of the turn that followed its yes or no.

        None if it has ended in another way.
        """
        while True:
            question, _ = await self._store.find_own(question_id, user_id)
            if question is None or question.state_now is not QuestionState.OPEN:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        if question is None or question.state not in (QuestionState.APPROVED, QuestionState.DENIED):
            return None
        while True:
            assert question.closed_by is not None
            try:
                return await self._load_answer(question.closed_by)
            except ServiceError as exc:
                if exc.code is not ServiceErrorCode.REQUEST_IN_PROGRESS:
                    raise
            await asyncio.sleep(_LOOK_SECONDS)

    async def cancel(self, question_id: str, person: Person) -> QuestionSummary:
        """Withdraw a question about calls of the user. Raises QUESTION_NOT_FOUND, QUESTION_CLOSED."""
        question, title = await self._store.find_own(question_id, person.user_id)
        if question is None:
            return await self._to_others().cancel(question_id, person.user_id)
        return summary_of_card(await self._store.cancel(question_id, person.user_id), title)

    async def _answered_before(self, question: StoredQuestion, given: GivenAnswer) -> ChatAnswer | None:
        """Return the reply to the same answer; None if there is none yet. Raises `ServiceError` if it cannot be given."""
        if given.digest != question.digest:
            raise error_of(QuestionRefusedError(Refused.OTHER_TEXT, question))
        if question.is_open:
            return None
        for one in question.answers:
            if one.yes is not given.yes:
                raise error_of(QuestionRefusedError(Refused.OTHER_ANSWER, question))
            if question.closed_by is not None:
                reply = await self._load_answer(question.closed_by) or await self._load_plain(question.closed_by)
                if reply is not None:
                    return reply
        raise error_of(QuestionRefusedError(Refused.CLOSED, question))

    async def _answer_of_program(self, question: StoredQuestion, yes: bool, roles: tuple[str, ...]) -> ChatAnswer:
        """Run the turn of an answer to a question that was asked outside of chats, as by a graph: its resume reads the turn."""
        record = await load_closed(self._engine.audit, question.decision_id)
        if record is None:
            raise service_unavailable()
        # As it is signed: the record of the decision has it once asked, the row as it was asked last.
        asked = record.replace(decision=record.decision.replace(pending_action=action_of(question)))
        return _plain_answer((await self._engine.answer(FinishedTurn(asked), yes=yes, roles=roles)).record)

    async def _load_plain(self, decision_id: str) -> ChatAnswer | None:
        record = await load_closed(self._engine.audit, decision_id)
        return None if record is None else _plain_answer(record)

    def _to_others(self) -> ApprovalService:
        if self._approvals is None:
            raise not_found()
        return self._approvals


def _plain_answer(record: DecisionRecord) -> ChatAnswer:
    """Return the answer of a turn outside of chats, which has no message."""
    header, decision = record.header, record.decision
    return ChatAnswer(
        conversation_id=header.context.conversation_id,
        message_id=header.decision_id,
        decision_id=header.decision_id,
        reply=decision.reply,
        decision=decision,
        states=[str(one) for one in record.states],
    )
