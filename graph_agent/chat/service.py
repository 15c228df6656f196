"""The chat service: claims a turn for each message, lets the engine run it, and stores the answer.

The order of the commits: claim, user message and opening row together; the calls of the turn; terminal row, assistant message,
answer and question together. If a process dies between two of them, the same request or the worker of another process continues
from there. A process that has lost its claim can no longer write.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Unpack

from graph_agent.chat.answer import ChatAnswer, StartedTurn
from graph_agent.chat.approval_notices import ApprovalNotices, Webhook
from graph_agent.chat.approvals import ApprovalService
from graph_agent.chat.conversations.reading import Conversation, ConversationPage, ConversationStore
from graph_agent.chat.conversations.turn_rows import ClaimedTurn
from graph_agent.chat.conversations.turns import MessageFields, TurnRequest, TurnStore, WantedPlan, busy, in_progress
from graph_agent.chat.endings import TurnEndings
from graph_agent.chat.leases import LEASE, LeaseKeeper
from graph_agent.chat.maintenance import MaintenanceJob, MaintenanceJobs
from graph_agent.chat.mandates import MandateService
from graph_agent.chat.questions import QuestionService
from graph_agent.chat.recovery import TurnRecovery
from graph_agent.chat.session import ChatSession, ChatStores
from graph_agent.chat.settling import OutcomeSettler
from graph_agent.clock import RandomIds, SystemClock
from graph_agent.db import DatabaseUnavailableError
from graph_agent.due.table import DUE_NOW
from graph_agent.due.worker import DueWorker
from graph_agent.errors import (
    ConfigurationError,
    RecordUnavailableError,
    ServiceError,
    ServiceErrorCode,
    service_not_ready,
    service_unavailable,
)
from graph_agent.models.decision import (
    ConfirmationAnswer,
    DecisionContext,
    OutcomeCategory,
    PendingAction,
    again_message,
    content_problem,
)
from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import JOB_NAME, JOB_NAME_RULE, PlanChoice
from graph_agent.models.record import DecisionOpening, DecisionRecord
from graph_agent.models.undo import UndoneDecision
from graph_agent.net.loop_throttle import LoopThrottle
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.ports import Clock, IdSource
from graph_agent.question.approvals import ApprovalStore
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.reply.fixed import RATE_LIMIT_REPLY
from graph_agent.turn.engine import WHOLE_PLAN, LLMAgentEngine
from graph_agent.turn.handle import TurnHandle
from graph_agent.turn.hooks import TurnHook
from graph_agent.turn.reading import Reading
from graph_agent.turn.run import OpenedTurn, TurnStart
from graph_agent.turn.undo import Undoable, load_own

_log = logging.getLogger(__name__)

NO_CONVERSATION = "none"
"""The conversation id of a refused message that belongs to no conversation."""

_ANSWER_UNKNOWN = "It is not known whether your message arrived. Look at the conversation before you send it again."

PREPARE_SECONDS = 60.0
"""The time between two looks at what due work needs: the rules in force, and the maintenance."""
LOGGED_PER_MINUTE = 10
"""The refusals of one user that one server logs in a minute; the others are only counted."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_KEY = re.compile(r"[!-~]{1,255}")


class ChatService:
    """Conversations over an engine. Any number of services may share one database, in one process or many.

    Every method raises `ServiceError`, whose text may be shown to the user.
    """

    def __init__(
        self,
        engine: LLMAgentEngine,
        *,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        turns_per_minute: int = 60,
        processes: int = 1,
        maintenance: Sequence[MaintenanceJob] = (),
        settler: OutcomeSettler | None = None,
        endings: TurnEndings | None = None,
        disclosure: str | None = None,
        files: Mapping[str, str] | None = None,
        approval_messages: int = 0,
        webhook: Webhook | None = None,
    ) -> None:
        """The database of the engine's record has the migrated tables of `graph_agent.chat.conversations` too.

        `processes` is the number of processes that share the limit on logged refusals. `maintenance` is what one of the
        processes of the database does once a minute, in this order; one job that fails stops no other. `settler` settles
        unknown outcomes while this service serves due work. `endings` has the notifications of the processes, if there are any.
        `disclosure` comes with the first answer of a conversation. `files` are those of the rules of this process, by option:
        they are stored with its questions, for the operator. `approval_messages` is the number of messages before the
        one that asked for a call that its approvers see. Notices about requests are posted to the `webhook` while this service
        serves due work.

        Raises `ConfigurationError` for an engine with another audit writer.
        """
        self.endings = endings or TurnEndings()
        if not isinstance(engine.audit, DatabaseAuditWriter):
            raise ConfigurationError("a chat service needs an engine whose audit writer is a DatabaseAuditWriter")
        self._engine = engine
        clock, ids = clock or SystemClock(), ids or RandomIds()
        self._turns = turns = TurnStore(engine.audit, clock=clock, ids=ids, lease=LEASE, turns_per_minute=turns_per_minute)
        leases = LeaseKeeper(turns, clock=clock)
        throttle = LoopThrottle()
        approvals = engine.ports.approvals if isinstance(engine.ports.approvals, ApprovalStore) else None
        self._conversations = ConversationStore(engine.audit.database, turns.questions, approvals)
        self._stores = ChatStores(
            engine.audit,
            turns,
            leases,
            self.endings,
            throttle,
            clock,
            ids,
            approvals,
            approval_messages,
            disclosure,
            files or {},
        )
        self._refused = _RefusalLimit(clock, processes)
        self.refusals: Counter[OutcomeCategory] = Counter()
        """The messages for which this service started no turn, whether they were logged or only counted."""
        self._recovery = TurnRecovery(engine, self._stores)
        self.approvals = None if approvals is None else ApprovalService(engine, self._stores, approvals)
        """The requests for the approval of other people, if they are stored."""
        self.questions = QuestionService(engine, self._stores, self.approvals, self.start, self.answer)
        """Whatever waits for a person, and its answers."""
        self.mandates = MandateService(engine, self._stores)
        """The plans that users have agreed to."""
        self.notices = None if approvals is None or webhook is None else ApprovalNotices(approvals, webhook, clock)
        works = (each for each in (self.notices, settler) if each is not None)
        handlers = [] if self.approvals is None else self.approvals.handlers
        self._jobs = MaintenanceJobs(engine.audit.database, maintenance)
        cleaning, overdue = [self._recovery.handler, self._jobs.handler], [self._recovery.overdue]
        handlers = [*handlers, *(each.handler for each in works), *cleaning]
        self._worker = DueWorker(engine.audit.database, handlers, clock, overdue)
        self._cleaner = DueWorker(engine.audit.database, cleaning, clock, overdue)

    async def send(
        self,
        user_id: str,
        content: str | None = None,
        *,
        hooks: Iterable[TurnHook] = (),
        **fields: Unpack[MessageFields],
    ) -> ChatAnswer:
        """Answer one message; without `conversation_id`, in a new conversation. `fields` are those of `TurnRequest`.

        `answers` is the user's answer to a pending action, by its id: it belongs to the action's conversation, and `content`
        is then only shown there. `shown` is the question that the client shows: a typed yes answers no other one. Conditions of
        the policy see the user's `roles`. The same `idem_key` with the same message gets the same answer, however often it is
        sent. With the name of a `job` the message is a run of it, under the user's standing plans for that job. If the caller
        is cancelled, the turn is ended and its record closed first. A `dry_run` judges calls; it changes nothing and answers no
        question.
        """
        started = await self._start(TurnRequest(user_id, _words_of(content, fields.get("answers")), **fields), hooks)
        return started if isinstance(started, ChatAnswer) else await started.result()

    async def call(
        self,
        user_id: str,
        called: Sequence[FunctionCall],
        *,
        conversation_id: str | None = None,
        idem_key: str | None = None,
        roles: tuple[str, ...] = (),
    ) -> ChatAnswer:
        """Make a decision without a model in a conversation, or in a new one; see `LLMAgentEngine.call`.

        A question that waits for the user in the conversation goes on waiting, unless a call asks another one.
        """
        try:
            content = DecisionContext.for_calls(user_id, called, conversation_id or NO_CONVERSATION).message
        except (ValueError, TypeError, RecursionError) as exc:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, "The calls cannot be recorded.") from exc
        request = TurnRequest(user_id, content, conversation_id, idem_key, roles=roles, called=tuple(called))
        started = await self._start(request)
        return started if isinstance(started, ChatAnswer) else await started.result()

    async def record_reading(self, user_id: str, conversation_id: str | None, reading: Reading) -> tuple[str, str]:
        """Record what a client reads of a server beside its calls, in a conversation or in a new one; see `LLMAgentEngine`.

        Returns the ids of the conversation and of the decision.
        """
        try:
            conversation_id = conversation_id or await self._turns.open(user_id, f"read a {reading.kind}")
            record = await self._engine.record_reading(user_id, conversation_id, reading)
        except RecordUnavailableError as exc:
            raise service_unavailable() from exc
        except ConfigurationError as exc:
            raise service_not_ready() from exc
        return conversation_id, record.header.decision_id

    async def undo(
        self,
        user_id: str,
        decision_id: str,
        *,
        idem_key: str | None = None,
        roles: tuple[str, ...] = (),
        arrived_at: float | None = None,
    ) -> ChatAnswer:
        """Ask the user about the undo of a decision of theirs, in its conversation; see `LLMAgentEngine.undo`.

        Without that conversation, as after a call of the command line, it is a new one. The yes is an answer like any other.
        """
        started = await self.start_undo(user_id, decision_id, idem_key=idem_key, roles=roles, arrived_at=arrived_at)
        return started if isinstance(started, ChatAnswer) else await started.result()

    async def start_undo(
        self,
        user_id: str,
        decision_id: str,
        *,
        idem_key: str | None = None,
        roles: tuple[str, ...] = (),
        arrived_at: float | None = None,
    ) -> StartedTurn:
        """Like `undo`, but return once the turn has begun."""
        decision_id = well_formed_id(decision_id)
        same = UndoneDecision(decision_id=decision_id, calls=())
        content = DecisionContext.for_calls(user_id, (), NO_CONVERSATION, undoes=same).message
        conversation_id = await self._conversation_of(user_id, decision_id)
        asked = TurnRequest(user_id, content, conversation_id, idem_key, roles=roles, undoes=same, arrived_at=arrived_at)
        request = _well_formed(asked)
        if (before := await self._turns.answered(request)) is not None:
            # What it has undone meanwhile cannot be undone again.
            return before
        record, found = await self.undoable(user_id, decision_id)
        zone = record.header.context.said_in
        return await self._start(replace(request, called=found.called, undoes=found.decision(decision_id), time_zone=zone))

    async def undoable(self, user_id: str, decision_id: str) -> tuple[DecisionRecord, Undoable]:
        """Return a decision of the user, and what can be undone of it now. Raises `ServiceError` DECISION_NOT_FOUND."""
        try:
            return await self._engine.undoable(well_formed_id(decision_id), user_id)
        except RecordUnavailableError as exc:
            raise service_unavailable() from exc
        except ConfigurationError as exc:
            raise service_not_ready() from exc

    async def start_again(
        self,
        user_id: str,
        decision_id: str,
        choice: PlanChoice = WHOLE_PLAN,
        *,
        idem_key: str | None = None,
        roles: tuple[str, ...] = (),
        arrived_at: float | None = None,
    ) -> StartedTurn:
        """Start a turn that asks about a plan to do a decision of the user again; see `LLMAgentEngine.propose`.

        It is in the conversation of the decision, or without that one in a new conversation, as an undo is.
        """
        decision_id = well_formed_id(decision_id)
        conversation_id = await self._conversation_of(user_id, decision_id)
        wanted, content = WantedPlan(decision_id, choice), again_message(decision_id)
        asked = TurnRequest(user_id, content, conversation_id, idem_key, roles=roles, again=wanted, arrived_at=arrived_at)
        request = _well_formed(asked)
        if (before := await self._turns.answered(request)) is not None:
            # The rules may admit another plan meanwhile.
            return before
        found = await self.mandates.repeatable(user_id, decision_id, choice.job)
        return await self._start(replace(request, again=wanted._replace(found=found.proposed(choice))))

    async def again(
        self, user_id: str, decision_id: str, choice: PlanChoice = WHOLE_PLAN, *, roles: tuple[str, ...] = ()
    ) -> ChatAnswer:
        """Like `start_again`, but return the answer, which has the question."""
        started = await self.start_again(user_id, decision_id, choice, roles=roles)
        return started if isinstance(started, ChatAnswer) else await started.result()

    async def _conversation_of(self, user_id: str, decision_id: str) -> str | None:
        """Return the conversation of a closed decision of the user, if it still exists."""
        try:
            record = await load_own(self._engine.audit, decision_id, user_id)
        except RecordUnavailableError as exc:
            raise service_unavailable() from exc
        return await self._conversations.existing(user_id, record.header.context.conversation_id)

    async def start(
        self,
        user_id: str,
        content: str | None = None,
        *,
        stepwise: bool = False,
        **fields: Unpack[MessageFields],
    ) -> StartedTurn:
        """Like `send`, but return once the turn has begun; it then continues, whether or not the caller is cancelled.

        With `stepwise` each node but the first waits for `request_step`.
        """
        started = await self._start(TurnRequest(user_id, _words_of(content, fields.get("answers")), **fields))
        if not isinstance(started, ChatAnswer):
            # The turn has not taken a step yet, so no call is missed.
            started.follow_progress()
            if stepwise:
                started.requested = asyncio.Semaphore(0)
            await started.begun()
        return started

    def live(self, decision_id: str) -> TurnHandle[object] | None:
        """Return the run of a turn if it runs in this process."""
        return self._engine.running(decision_id)

    async def stop(self, decision_id: str, user_id: str) -> bool:
        """End a running turn of the user as interrupted: in another process within three seconds. False if none runs."""
        run = self.live(decision_id)
        if run is not None and run.user_id == user_id:
            run.cancel()
            return True
        return await self._turns.stop(decision_id, user_id)

    async def answer(self, decision_id: str) -> ChatAnswer | None:
        """Return the answer of a turn; None if the decision was not made for a chat.

        Raises REQUEST_IN_PROGRESS while the turn runs, in this process or another.
        """
        if await self._turns.running([decision_id]):
            raise in_progress()
        return await self._turns.answer(decision_id)

    async def conversations(self, user_id: str, limit: int = 50, before: str | None = None) -> ConversationPage:
        """Return the user's conversations, the last used first; `before` is the last one of the previous page."""
        return await self._conversations.page(user_id, limit, None if before is None else well_formed_id(before))

    async def conversation(
        self, user_id: str, conversation_id: str, limit: int = 100, before: str | None = None
    ) -> Conversation:
        """Return one conversation with its last messages; `before` is the first message of the next page."""
        before = None if before is None else well_formed_id(before)
        return await self._conversations.one(user_id, well_formed_id(conversation_id), limit, before)

    async def pending_action(self, user_id: str, conversation_id: str | None) -> PendingAction | None:
        """Return the action that waits for the user in a conversation; None if none does. Raises as `conversation`."""
        if conversation_id is None:
            return None
        return await self._conversations.waiting(user_id, well_formed_id(conversation_id))

    async def files_of_question(self, pending_id: str, user_id: str) -> dict[str, str] | None:
        """Return the files of the process that asked the user the question `pending_id`, by option; None if none has."""
        return await self._turns.files_of_question(pending_id, user_id)

    def listen(self) -> AbstractAsyncContextManager[None]:
        """Receive the notifications of the processes of the database in this context: ends of turns, and due work.

        Without notifications followers and the worker only look now and then.
        """
        notifications = self.endings.notifications
        return nullcontext() if notifications is None else notifications.listen(self._receive)

    def _receive(self, message: str) -> None:
        if message == DUE_NOW:
            self._worker.wake()
        else:
            self.endings.receive(message)

    async def serve_due_forever(self) -> None:
        """Do what is due, and finish the turns of processes that have died, until this is cancelled."""
        serving = asyncio.create_task(self._worker.serve_forever())
        try:
            while True:
                try:
                    await self._prepare()
                except ServiceError as exc:
                    _log.warning("due work is prepared later: %s", exc.code)
                except Exception:
                    _log.exception("due work could not be prepared")
                await asyncio.sleep(PREPARE_SECONDS)
        finally:
            serving.cancel()
            await asyncio.wait({serving})

    async def serve_due(self) -> int:
        """Do what is due for this process until nothing is, and finish what dead processes left open; return their number.

        No model is asked. A server does so all the time: see `serve_due_forever`.
        """
        await self._prepare()
        return await self._worker.serve()

    async def recover_turns(self) -> int:
        """Finish the turns that dead processes left open, and do the maintenance that is due; return the number of works.

        Every process does so, also a short-lived command, so that the first of the others notices a dead one; the claim of a
        turn decides which process finishes it.
        """
        await self._jobs.add()
        await self._recovery.put_left_open()
        return await self._cleaner.serve()

    async def _prepare(self) -> None:
        """Let maintenance and what was left open be due, and read the rules whose requests this process decides."""
        await self._jobs.add()
        if self.approvals is not None:
            with suppress(ServiceError):
                await self.approvals.prepare()
        await self._recovery.put_left_open()

    async def open_turns(self) -> int:
        """Return the number of turns that are claimed by this service and have no answer yet."""
        return await self._turns.count_open()

    async def check_writable(self) -> None:
        """Commit a row to the database, always the same one. Raises `ServiceError` SERVICE_UNAVAILABLE."""
        await self._turns.check_writable()

    async def aclose(self) -> None:
        """End every running turn, and wait until each has its terminal row and its answer."""
        if self.approvals is not None:
            await self.approvals.aclose()
        await self._engine.aclose()

    async def _start(self, request: TurnRequest, hooks: Iterable[TurnHook] = ()) -> StartedTurn:
        request = _well_formed(request)
        session_of = partial(ChatSession, self._stores, since=self._stores.clock.monotonic(), arrived_at=request.arrived_at)
        accepting = asyncio.ensure_future(self._accept(request))
        try:
            return self._run(await asyncio.shield(accepting), session_of, hooks)
        except asyncio.CancelledError:
            # The claim is committed in any case, and with it the opening row: the turn is ended and its record closed.
            with suppress(ServiceError):
                run = self._run(await accepting, session_of, hooks)
                if not isinstance(run, ChatAnswer):
                    run.cancel()
                    await run.ended()
            raise

    def _run(
        self,
        accepted: tuple[ClaimedTurn, TurnStart] | ChatAnswer,
        session_of: Callable[[ClaimedTurn], ChatSession],
        hooks: Iterable[TurnHook],
    ) -> StartedTurn:
        if isinstance(accepted, ChatAnswer):
            return accepted
        turn, start = accepted
        run = self._engine.start(start, session_of(turn), turn.decision_id, user_id=turn.user_id, hooks=hooks)
        if turn.stopped:
            run.cancel()
        return run

    async def _accept(self, request: TurnRequest) -> tuple[ClaimedTurn, TurnStart] | ChatAnswer:
        """Claim the turn of a message. A message that is refused for its content or the rate limit is logged."""
        if problem := content_problem(request.content):
            if request.conversation_id is not None:
                await self._conversations.require(request.user_id, request.conversation_id)
            await self._refuse(request, OutcomeCategory.USER_INPUT, problem)
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, problem)
        try:
            return await self._claim(request)
        except ServiceError as exc:
            if exc.code is ServiceErrorCode.RATE_LIMITED:
                await self._refuse(request, OutcomeCategory.RATE_LIMITED, RATE_LIMIT_REPLY)
            raise

    async def _claim(self, request: TurnRequest) -> tuple[ClaimedTurn, TurnStart] | ChatAnswer:
        """Return the turn that `request` asks for: claimed, taken over from a dead process, or answered already."""
        snapshot: PolicySnapshot | ConfigurationError
        try:
            snapshot = await self._engine.prepare()
        except ConfigurationError as exc:
            # A request that was answered before gets its answer in spite of it.
            snapshot = exc
        opened: list[OpenedTurn] = []

        def open_record(decision_id: str, context: DecisionContext, at: datetime) -> DecisionOpening:
            if isinstance(snapshot, ConfigurationError):
                raise service_not_ready() from snapshot
            header = self._engine.header(context, snapshot, decision_id, at=at)
            opened[:] = [OpenedTurn(header, snapshot)]
            return opened[0].opening

        for _ in range(3):
            try:
                found = await self._turns.claim(request, open_record)
            except DatabaseUnavailableError as exc:
                if exc.unknown and _can_confirm_without_key(request):
                    # Another process follows a yes that was stored after all: that nothing will be done would not be true.
                    raise ServiceError(ServiceErrorCode.OUTCOME_UNKNOWN, _ANSWER_UNKNOWN, retry_after=5) from exc
                raise
            if isinstance(found, ChatAnswer):
                return found
            if isinstance(found, ClaimedTurn):
                return found, TurnStart(opened[0])
            if self._stores.leases.is_running(found.decision_id):
                # It runs in this process, which is too busy to renew its lease in time.
                raise in_progress() if found.same_request else busy()
            if found.same_request:
                if (taken := await self._turns.take_over(found)) is not None:
                    return taken, TurnStart()
            else:
                # It blocks the conversation: it is finished first, then this message gets its turn.
                await self._recovery.finish_abandoned(found)
        raise busy()

    async def _refuse(self, request: TurnRequest, outcome: OutcomeCategory, reply: str) -> None:
        """Count a message for which no turn is started, and log it, unless the user has had too many such rows this minute."""
        self.refusals[outcome] += 1
        if not self._refused.has_room(request.user_id):
            return
        conversation_id = request.conversation_id or NO_CONVERSATION
        try:
            await self._engine.refuse(request.user_id, conversation_id, request.content, outcome, reply)
        except (RecordUnavailableError, ConfigurationError) as exc:
            raise service_unavailable() from exc


class _RefusalLimit:
    """Limits the log rows of refused messages, so that a client cannot fill the disk with them."""

    def __init__(self, clock: Clock, processes: int) -> None:
        """Each of the `processes` of a server logs an equal part, at least one."""
        self._clock = clock
        self._logged_per_minute = max(1, LOGGED_PER_MINUTE // processes)
        self._minute = 0
        self._counts: Counter[str] = Counter()

    def has_room(self, user_id: str) -> bool:
        """Count a refusal; return True if it may be logged."""
        minute = int(self._clock.monotonic() // 60)
        if minute != self._minute:
            self._minute = minute
            self._counts.clear()
        self._counts[user_id] += 1
        return self._counts[user_id] <= self._logged_per_minute


def _can_confirm_without_key(request: TurnRequest) -> bool:
    """True if the message can be a yes, and its client cannot ask again for its answer."""
    asked = request.answers is not None or request.conversation_id is not None
    return asked and request.idem_key is None and not request.is_by_code and not request.dry_run


def _words_of(content: str | None, answers: ConfirmationAnswer | None) -> str:
    """Return the text of a message, or of an answer without one. Raises `ServiceError` VALIDATION_ERROR without both."""
    if content is not None:
        return content
    if answers is None:
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, "A message or an answer must be given.")
    return "No answer." if answers.yes is None else "Yes." if answers.yes else "No."


def _well_formed(request: TurnRequest) -> TurnRequest:
    """Return the request with its id in lower case. Raises `ServiceError` VALIDATION_ERROR or INVALID_ID_FORMAT."""
    if request.conversation_id is not None:
        request = replace(request, conversation_id=well_formed_id(request.conversation_id))
    if request.idem_key is not None and not _KEY.fullmatch(request.idem_key):
        text = "An Idempotency-Key has 1 to 255 printable ASCII characters and no spaces."
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, text)
    if request.job and (request.conversation_id is not None or request.answers is not None):
        text = "A run of a job begins with a message, in a new conversation."
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, text)
    if request.job and not JOB_NAME.fullmatch(request.job):
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, f"The name of a job {JOB_NAME_RULE}.")
    if request.dry_run and request.answers is not None:
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, "A dry run answers no question.")
    return request


def well_formed_id(text: str) -> str:
    """Return a UUID in lower case. Raises `ServiceError` INVALID_ID_FORMAT for any other text."""
    if not _UUID.fullmatch(text):
        raise ServiceError(ServiceErrorCode.INVALID_ID_FORMAT, "An id is a UUID of 36 characters.")
    return text.lower()
