"""The chat: claims a turn, has the engine run it, writes its answer.

Order of what is committed: claim and user message; the opening row; what the turn does; the terminal row; assistant message,
answer and waiting action together. A process may die between any two: the same request again, or the sweeper, goes on from
there, and nobody who lost the turn can write any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, runtime_checkable

from graph_agent.turn.refused import write_refused
from graph_agent.clock import RandomIds, SystemClock
from graph_agent.chat.conversations import (
    AbandonedTurn,
    AnsweredTurn,
    Conversation,
    ConversationPage,
    ConversationStore,
    HeldTurn,
    TurnRequest,
    TurnStore,
    busy,
    in_progress,
)
from graph_agent.db import Database
from graph_agent.turn.engine import LLMAgentEngine, StepListener
from graph_agent.errors import ConfigurationError, RecordUnavailableError, ServiceError, ServiceErrorCode, TurnTakenOverError
from graph_agent.turn.live import LiveTurn
from graph_agent.graph.stepping import Step
from graph_agent.models.base import Frozen
from graph_agent.models.decision import (
    MAX_MESSAGE_LENGTH,
    AgentDecision,
    DecisionContext,
    OutcomeCategory,
    content_problem,
    unstorable,
)
from graph_agent.models.record import DecisionRecord, RecordHeader
from graph_agent.reply.fixed import RATE_LIMIT_REPLY
from graph_agent.ports import Clock, IdSource
from graph_agent.deadlines import seen_through

_log = logging.getLogger(__name__)

LEASE_MARGIN = timedelta(seconds=5)
"""How much longer than a turn's deadline its lease is."""
ABANDONED_AFTER = timedelta(minutes=10)
"""A decision without a turn, as the command line makes them, is taken for dead this long after it was opened."""
NO_CONVERSATION = "none"
"""What stands in the log where a refused message belongs to no conversation."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_KEY = re.compile(r"[!-~]{1,255}")


class ChatAnswer(Frozen):
    """What a turn answered; `message_id` is the assistant's message."""

    conversation_id: str
    message_id: str
    decision_id: str
    reply: str
    decision: AgentDecision
    states: list[str]


@dataclass(frozen=True, slots=True)
class StartedTurn:
    """A turn under way: its steps, and the task that brings it to its end."""

    live: LiveTurn
    work: asyncio.Task[ChatAnswer]


@runtime_checkable
class KnowsOpenDecisions(Protocol):
    """An audit writer that can say which decisions were left open."""

    async def open_decisions(self, before: datetime, limit: int = 100) -> list[str]: ...


class ChatService:
    """Conversations over an engine. Any number of services may share one database, in one process or many.

    Every method raises `ServiceError`, whose text may be shown.
    """

    def __init__(
        self,
        engine: LLMAgentEngine,
        database: Database,
        *,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        turns_per_minute: int = 60,
    ) -> None:
        """`database` holds the migrated tables of `graph_agent.chat.conversations`; closing it is the caller's business."""
        self._engine = engine
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self._lease = timedelta(seconds=engine.config.timeout_seconds) + LEASE_MARGIN
        self._conversations = ConversationStore(database)
        self._turns = TurnStore(
            database, clock=self._clock, ids=self._ids, lease=self._lease, turns_per_minute=turns_per_minute
        )
        self._running: set[asyncio.Task[Any]] = set()
        self._live: dict[str, LiveTurn] = {}

    async def send(
        self,
        user_id: str,
        content: str,
        *,
        conversation_id: str | None = None,
        idem_key: str | None = None,
        on_step: StepListener | None = None,
    ) -> ChatAnswer:
        """Answer one message; without `conversation_id`, in a new conversation.

        The same `idem_key` with the same message gets the same answer, however often it is sent. A caller that is cancelled
        leaves a closed record behind.
        """
        held = await self._accepted(user_id, content, conversation_id, idem_key)
        if isinstance(held, AnsweredTurn):
            return ChatAnswer.model_validate(held.answer)
        return await self._supervised(self._run(held, _watched(held), on_step))

    async def start(
        self, user_id: str, content: str, *, conversation_id: str | None = None, idem_key: str | None = None
    ) -> StartedTurn | ChatAnswer:
        """Like `send`, but it returns once the turn has begun, and the turn goes on whatever becomes of the caller."""
        held = await self._accepted(user_id, content, conversation_id, idem_key)
        if isinstance(held, AnsweredTurn):
            return ChatAnswer.model_validate(held.answer)
        live = _watched(held)
        work = self._started(self._run(held, live, None))
        # How it ends is told by the live turn and the record; nobody waits for the task itself.
        work.add_done_callback(lambda ended: None if ended.cancelled() else ended.exception())
        await live.begun()
        return StartedTurn(live, work)

    def live(self, decision_id: str) -> LiveTurn | None:
        """The turn as it runs, if it runs in this process."""
        return self._live.get(decision_id)

    async def answer(self, decision_id: str) -> ChatAnswer | None:
        """What a turn answered; None where the decision was not made for a chat.

        Raises REQUEST_IN_PROGRESS while the turn runs, here or elsewhere.
        """
        if await self._turns.running([decision_id]):
            raise in_progress()
        answer = await self._turns.answer(decision_id)
        return None if answer is None else ChatAnswer.model_validate(answer)

    async def _accepted(
        self, user_id: str, content: str, conversation_id: str | None, idem_key: str | None
    ) -> HeldTurn | AnsweredTurn:
        """The turn for a message that may have one. What is refused for its content or its number is logged."""
        if conversation_id is not None:
            conversation_id = well_formed_id(conversation_id)
        if idem_key is not None and not _KEY.fullmatch(idem_key):
            text = "An Idempotency-Key has 1 to 255 printable ASCII characters and no spaces."
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, text)
        if problem := content_problem(content):
            if conversation_id is not None:
                await self._conversations.require(user_id, conversation_id)
            await self._refuse(user_id, conversation_id, content, OutcomeCategory.USER_INPUT, problem)
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, problem)
        request = TurnRequest(user_id, content, conversation_id, idem_key)
        try:
            return await self._hold(request)
        except ServiceError as exc:
            if exc.code is ServiceErrorCode.RATE_LIMITED:
                await self._refuse(user_id, conversation_id, content, OutcomeCategory.RATE_LIMITED, RATE_LIMIT_REPLY)
            raise

    async def conversations(self, user_id: str, limit: int = 50, before: str | None = None) -> ConversationPage:
        """The user's conversations, the most lately used first; `before` is the last one of the page before."""
        return await self._conversations.page(user_id, limit, None if before is None else well_formed_id(before))

    async def conversation(
        self, user_id: str, conversation_id: str, limit: int = 100, before: str | None = None
    ) -> Conversation:
        """One conversation with its last messages; `before` is the first message of the page after."""
        before = None if before is None else well_formed_id(before)
        return await self._conversations.one(user_id, well_formed_id(conversation_id), limit, before)

    async def sweep(self) -> int:
        """End what dead processes left, without asking the model; returns how many turns and decisions that were."""
        ended = 0
        for abandoned in await self._turns.abandoned():
            ended += await self._end_abandoned(abandoned)
        if isinstance(self._engine.audit, KnowsOpenDecisions):
            before = self._clock.now() - max(ABANDONED_AFTER, 2 * self._lease)
            left_open = await self._recorded(self._engine.audit.open_decisions(before))
            running = await self._turns.running(left_open)
            for decision_id in left_open:
                if decision_id not in running:
                    ended += await self._end_decision(decision_id)
        return ended

    async def aclose(self) -> None:
        """End every running turn, and wait until each has its terminal row and its answer."""
        await self._engine.aclose()
        if self._running:
            await asyncio.wait(set(self._running))

    async def _hold(self, request: TurnRequest) -> HeldTurn | AnsweredTurn:
        """The turn that `request` asks for: claimed, taken over from a dead process, or answered already."""
        for _ in range(3):
            found = await self._turns.claim(request)
            if not isinstance(found, AbandonedTurn):
                return found
            if found.same_request:
                if (taken := await self._turns.take_over(found)) is not None:
                    return taken
            else:
                # It bars the conversation: it gets its honest end, and this message its turn.
                await self._end_abandoned(found)
        raise busy()

    async def _supervised(self, work: Coroutine[Any, Any, ChatAnswer]) -> ChatAnswer:
        """Do `work` so that a caller who goes away still leaves a finished turn behind."""
        task = self._started(work)
        return await seen_through(task)

    def _started(self, work: Coroutine[Any, Any, ChatAnswer]) -> asyncio.Task[ChatAnswer]:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _run(self, turn: HeldTurn, live: LiveTurn, on_step: StepListener | None) -> ChatAnswer:
        self._live[turn.decision_id] = live
        try:
            answer = await self._decide(turn, live, on_step)
        except BaseException as exc:
            live.end(exc)
            raise
        else:
            live.end()
            return answer
        finally:
            self._live.pop(turn.decision_id, None)

    async def _decide(self, turn: HeldTurn, live: LiveTurn, on_step: StepListener | None) -> ChatAnswer:
        begun = False

        def noted(step: Step) -> None:
            nonlocal begun
            begun = True
            live.tell(step)
            if on_step is not None:
                on_step(step)

        try:
            finished = None
            if turn.attempt > 1:
                finished = await self._engine.finish(turn.decision_id, ask_model=True, on_step=noted)
            if finished is None:
                finished = await self._engine.run(_context(turn), decision_id=turn.decision_id, on_step=noted)
            return await self._complete(turn, finished.record)
        except asyncio.CancelledError:
            await self._end(turn)
            raise
        except TurnTakenOverError as exc:
            return await self._answered_elsewhere(turn, exc)
        except Exception as exc:
            await self._give_back(turn, begun=begun)
            if isinstance(exc, RecordUnavailableError):
                raise _unrecordable() from exc
            if isinstance(exc, ConfigurationError):
                _log.error("turns cannot be run: %s", exc)
                text = "The service is not ready. Please try again later."
                raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text, retry_after=5) from exc
            raise

    async def _complete(self, turn: HeldTurn, record: DecisionRecord) -> ChatAnswer:
        answer = ChatAnswer(
            conversation_id=turn.conversation_id,
            message_id=self._ids.new(),
            decision_id=turn.decision_id,
            reply=record.decision.reply,
            decision=record.decision,
            states=record.states,
        )
        stands = await self._turns.complete(turn, answer.message_id, record.decision, answer.to_json())
        return ChatAnswer.model_validate(stands)

    async def _answered_elsewhere(self, turn: HeldTurn, exc: TurnTakenOverError) -> ChatAnswer:
        answer = await self._turns.answer(turn.decision_id)
        if answer is None:
            raise in_progress() from exc
        return ChatAnswer.model_validate(answer)

    async def _give_back(self, turn: HeldTurn, *, begun: bool) -> None:
        """After a failure: undo the claim if nothing was begun, else leave the turn to whoever asks next."""
        try:
            if begun or turn.attempt > 1:
                # Nor may a turn be undone that was held before: its former holder may only be slow, and then begin it.
                await self._turns.expire(turn)
            else:
                await self._turns.release(turn)
        except ServiceError:
            _log.warning("turn %s stays held until its lease ends", turn.decision_id)

    async def _end_abandoned(self, abandoned: AbandonedTurn) -> bool:
        turn = await self._turns.take_over(abandoned)
        return turn is not None and await self._end(turn)

    async def _end(self, turn: HeldTurn) -> bool:
        """Bring a turn to its end without asking the model, and answer it."""
        try:
            finished = await self._engine.finish(turn.decision_id, ask_model=False)
            if finished is None:
                await self._open(turn)
                finished = await self._engine.finish(turn.decision_id, ask_model=False)
            assert finished is not None
            await self._complete(turn, finished.record)
        except TurnTakenOverError:
            return False
        except Exception:
            _log.exception("turn %s could not be ended", turn.decision_id)
            await self._give_back(turn, begun=True)
            return False
        return True

    async def _open(self, turn: HeldTurn) -> None:
        """Write the opening row that the turn's holder did not come to: now it never can, should it only be slow."""
        context = _context(turn)
        header, blobs = await self._header(context, turn.decision_id)
        # Where the holder was faster after all, its row stands, and is as good.
        with contextlib.suppress(TurnTakenOverError):
            await self._engine.audit.write_decision_log(
                decision_id=turn.decision_id,
                conversation_id=context.conversation_id,
                user_id=context.user_id,
                message=context.message,
                header=header,
                blobs=blobs,
            )

    async def _end_decision(self, decision_id: str) -> bool:
        try:
            return await self._engine.finish(decision_id, ask_model=False) is not None
        except Exception:
            _log.exception("decision %s could not be ended", decision_id)
            return False

    async def _refuse(
        self, user_id: str, conversation_id: str | None, content: str, outcome: OutcomeCategory, reply: str
    ) -> None:
        """Log a message that gets no turn."""
        context = DecisionContext(
            user_id=user_id, message=_storable(content), conversation_id=conversation_id or NO_CONVERSATION
        )
        try:
            header, blobs = await self._header(context, self._ids.new())
        except ConfigurationError as exc:
            raise _unrecordable() from exc
        await self._recorded(write_refused(self._engine.audit, header, blobs, outcome, reply))

    async def _header(self, context: DecisionContext, decision_id: str) -> tuple[RecordHeader, dict[str, str]]:
        """What a record of `context` starts from today, with the texts it names."""
        terms = await self._engine.prepare()
        return self._engine.header(context, terms, decision_id), terms.texts

    async def _recorded(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await work
        except RecordUnavailableError as exc:
            raise _unrecordable() from exc


def well_formed_id(text: str) -> str:
    """`text` in lower case, if it is a UUID as we write them; `ServiceError` INVALID_ID_FORMAT otherwise."""
    if not _UUID.fullmatch(text):
        raise ServiceError(ServiceErrorCode.INVALID_ID_FORMAT, "An id is a UUID of 36 characters.")
    return text.lower()


def _storable(content: str) -> str:
    """`content` as the log can keep it: cut, and written as JSON where it is blank or holds what is no text."""
    plain = content[:MAX_MESSAGE_LENGTH]
    if plain.strip() and unstorable(plain) is None:
        return plain
    return json.dumps(plain)[:MAX_MESSAGE_LENGTH]


def _watched(turn: HeldTurn) -> LiveTurn:
    return LiveTurn(turn.decision_id, turn.user_id)


def _context(turn: HeldTurn) -> DecisionContext:
    return DecisionContext(
        user_id=turn.user_id,
        message=turn.content,
        conversation_id=turn.conversation_id,
        message_history=list(turn.history),
        pending_confirmation=turn.pending,
    )


def _unrecordable() -> ServiceError:
    text = "The request cannot be recorded right now. Please try again later."
    return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text, retry_after=5)
