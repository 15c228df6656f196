"""The approval of calls by other people than their requesters: what an approver sees, the answers, and the closing decisions.

The rules of the process that decides a request and those under which it was asked both have to permit the call: weaker rules
lower nothing, and stricter ones hold. A process that does not know what the others permit stores answers, and closes what has
ended. The process that claims the closing decision of a request runs it: the one that took an answer tries for some seconds,
and it is due work, first of the processes with the rules under which it was asked, then of all. Both rules judge the call
with the answers that are stored, in the commit of the claim.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, TypeVar

from graph_agent.chat.approval_looks import ApprovalLooks, Circumstances
from graph_agent.chat.approval_rules import AskedRules, AskingRules, decided_elsewhere, other_rules
from graph_agent.chat.closed_records import load_closed
from graph_agent.chat.conversations.turns import TurnStore
from graph_agent.chat.endings import TurnEndings
from graph_agent.chat.leases import LEASE, LeaseKeeper
from graph_agent.chat.question_view import (
    ApprovalView,
    QuestionSummary,
    TextToSign,
    YourAnswer,
    shown_answer,
    summary_of,
    view_of,
)
from graph_agent.chat.session import ChatSession, ChatStores
from graph_agent.due.table import ANY_LANE, BackOff, DueWork, WorkKind
from graph_agent.due.worker import Again, DueHandler
from graph_agent.errors import (
    ConfigurationError,
    RecordUnavailableError,
    ServiceError,
    ServiceErrorCode,
    TurnTakenOverError,
    service_not_ready,
    service_unavailable,
)
from graph_agent.models.approval import ApprovalAnswer, ApprovalState, ApproverIdentity, count_approvals
from graph_agent.models.decision import ApprovalRequest, DecisionContext
from graph_agent.models.person import is_same_person
from graph_agent.models.record import CallDisposition, DecisionOpening, DecisionRecord
from graph_agent.net.loop_throttle import LoopThrottle
from graph_agent.policy.approval_signature import signed_text
from graph_agent.policy.call_in_hand import GuardVerdict
from graph_agent.policy.cedar.conditions import EVERYBODY
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.guard import judge_request
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.question.approvals import ApprovalStore, StoredRequest, not_found, rules_digest
from graph_agent.question.stored import StoredQuestion
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.run import OpenedTurn, PlainSession, TurnStart
from graph_agent.words.approvals import effect_of_approval
from graph_agent.words.reasons import for_user

T = TypeVar("T")

_log = logging.getLogger(__name__)

_AT_ONCE = 4
_BACK_OFF = BackOff(timedelta(seconds=1), timedelta(minutes=1))
_DECIDE_AGAIN = timedelta(minutes=1)
"""The time after which a call is judged again that waits for what rules read."""
_UNREADABLE = timedelta(hours=1)
_LATER = (ServiceError, RecordUnavailableError, ConfigurationError, TurnTakenOverError)
"""The failures after which a request is closed later, or was closed by another process."""

CLOSE_AFTER_SECONDS = (0.0, 1.0, 2.0, 4.0)
"""The waits before the tries of the process that took an answer; after them the sweep closes the request."""


_EFFECTS: Mapping[CallDisposition, Literal["runs", "waits"]] = {
    CallDisposition.EXECUTED: "runs",
    CallDisposition.WAITS: "waits",
}
"""The effect of an approval after which a call is judged so; any other refuses it."""


class ApprovalService:
    """Requests for approval, as their approvers and requesters use them. Methods raise `ServiceError`."""

    def __init__(self, engine: LLMAgentEngine, stores: ChatStores, requests: ApprovalStore) -> None:
        self._engine = engine
        self._stores = stores
        self._requests = requests
        self._looks = ApprovalLooks(engine, requests)
        self._rules = AskingRules(engine, requests)
        self._closing: set[asyncio.Task[None]] = set()
        self._lanes: Collection[str] = ()
        """The rules of this process, once they are read."""

    @classmethod
    def of_engine(cls, engine: LLMAgentEngine) -> ApprovalService | None:
        """Return the requests of an engine that serves no chat; None if it stores none."""
        audit, requests, clock, ids = engine.audit, engine.ports.approvals, engine.ports.clock, engine.ports.ids
        if not isinstance(audit, DatabaseAuditWriter) or not isinstance(requests, ApprovalStore):
            return None
        turns = TurnStore(audit, clock=clock, ids=ids, lease=LEASE, turns_per_minute=sys.maxsize)
        leases = LeaseKeeper(turns, clock=clock)
        return cls(engine, ChatStores(audit, turns, leases, TurnEndings(), LoopThrottle(), clock, ids, requests), requests)

    async def closing(self, request_id: str) -> DecisionRecord | None:
        """Return the record of the decision that closes a request, after this process has closed it if it can; else None."""
        await self._requests.expire(request_id)
        await self.close(request_id)
        stored = await self._requests.find(request_id)
        if stored is None or stored.closing_decision is None:
            return None
        return await load_closed(self._stores.audit, stored.closing_decision)

    async def summaries(self, questions: Sequence[StoredQuestion]) -> list[QuestionSummary]:
        """Return questions to others for a list."""
        if not questions:
            return []
        snapshot = await self._prepare()
        return [await self._summary(self._requests.request_of(one), snapshot) for one in questions]

    async def view(self, request_id: str, user_id: str, roles: Sequence[str]) -> ApprovalView:
        """Return everything that an approver, or the requester, is shown about a request. Raises QUESTION_NOT_FOUND."""
        snapshot = await self._prepare()
        policy = snapshot.policy
        stored = await self._visible(request_id, user_id, roles)
        same = await self._requests.list_same(stored.request)
        asked_under = await self._asked_under(stored, snapshot)
        known = await self._known_now(stored, policy, asked_under, user_id, roles)
        return view_of(
            stored,
            policy,
            asked=await self._asking(stored.request),
            earlier_messages=self._stores.approval_messages,
            now=None if known is None else known[0].known,
            earlier=[one for one in same if one.created_at < stored.created_at],
            yours=None if _is_own(stored, user_id) else self._yours(stored, user_id, roles, known),
            decided_elsewhere=self._decided_elsewhere(stored, policy, asked_under, None if known is None else known[0].known),
        )

    async def answer(
        self,
        request_id: str,
        user_id: str,
        roles: Sequence[str],
        *,
        approve: bool,
        digest: str,
        identity: ApproverIdentity,
        role: str | None = None,
        reason: str = "",
        signature: str = "",
    ) -> QuestionSummary:
        """Store the user's answer, and close the request if it decides it; return its summary.

        Without `role` the user answers in the first of theirs that the rules name. Raises QUESTION_NOT_FOUND, ACCESS_DENIED,
        VALIDATION_ERROR, QUESTION_CLOSED, QUESTION_CONFLICT.
        """
        snapshot = await self._prepare()
        stored = await self._visible(request_id, user_id, roles)
        if _is_own(stored, user_id):
            raise ServiceError(ServiceErrorCode.ACCESS_DENIED, "Nobody answers a request of their own.")
        if not approve and not reason.strip():
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, "A denial needs a reason.")
        if not (own := _roles_of(stored, roles)):
            raise not_found()
        if role is not None and role not in own:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, f"You can answer as {' or '.join(own)}.")
        answer = ApprovalAnswer(
            approver=user_id,
            approve=approve,
            role=role or own[0],
            reason=reason.strip(),
            digest=digest,
            identity=identity,
            signature=signature,
            answered_at=self._stores.clock.now(),
        )
        if (problem := self._evidence_problem(stored.request, answer)) is not None:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, f"The answer does not count: {problem}.")
        answered = await self._requests.answer(request_id, answer)
        self.close_soon(request_id)
        return await self._summary(answered, snapshot)

    async def cancel(self, request_id: str, user_id: str) -> QuestionSummary:
        """Withdraw a request of the user; return its summary. Raises as `ApprovalStore.cancel`."""
        snapshot = await self._prepare()
        cancelled = await self._requests.cancel(request_id, user_id)
        self.close_soon(request_id)
        return await self._summary(cancelled, snapshot)

    async def state(self, request_id: str, user_id: str) -> StoredRequest:
        """Return a request of the user. Raises QUESTION_NOT_FOUND."""
        stored = await self._requests.find(request_id)
        if stored is None or stored.request.user_id != user_id:
            raise not_found()
        return stored

    async def count_open(self) -> int:
        """Return the number of requests of all users that can still be approved."""
        return await self._requests.count_open()

    @property
    def handlers(self) -> list[DueHandler]:
        """Handlers of the due work about requests: decide them, and end them."""
        return [
            DueHandler(WorkKind.DECIDE, self._decide, slots=_AT_ONCE, back_off=_BACK_OFF, lanes=lambda: self._lanes),
            DueHandler(WorkKind.END, self._end, slots=_AT_ONCE, back_off=_BACK_OFF),
        ]

    async def prepare(self) -> None:
        """Read the rules of this process, by which it decides requests from then on. Raises SERVICE_NOT_READY."""
        await self._prepare()

    def close_soon(self, request_id: str) -> None:
        """Try to close a request in the background."""
        task = asyncio.create_task(self._close_soon(request_id))
        # The event loop itself keeps only a weak reference to a task.
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def closings(self) -> None:
        """Wait until the requests that this process is closing are closed, or left to the sweep."""
        while self._closing:
            await asyncio.wait(set(self._closing))

    async def aclose(self) -> None:
        """Leave what is not closed to the sweeps of other processes."""
        for task in self._closing:
            task.cancel()
        await self.closings()

    async def _decide(self, work: DueWork) -> Again | None:
        """Decide an approved request; it is due again while the rules wait for what changes without an answer."""
        if (later := await self._try_to_close(work.key)) is not None:
            return later
        stored = await self._requests.find(work.key)
        if stored is None:
            return Again(_UNREADABLE, "its row is not as this service has written it")
        if not stored.is_open or not _can_be_approved(stored):
            return None
        snapshot = await self._prepare()
        policy, tool = snapshot.policy, stored.request.action.tool_name
        if self._other_rules(stored.request, policy):
            asked = await self._asked_under(stored, snapshot)
            why = self._decided_elsewhere(stored, policy, asked) or "it was asked under other rules, and waits for both"
            return Again(_BACK_OFF, why)
        conditions = policy.conditions
        changes = conditions is not None and (conditions.reads_facts or conditions.needs_facts(tool))
        return Again(_DECIDE_AGAIN) if changes else None

    async def _end(self, work: DueWork) -> Again | None:
        """End a request whose time is over, and close one that has ended."""
        await self._requests.expire(work.key)
        if (later := await self._try_to_close(work.key, decides=False)) is not None:
            return later
        stored = await self._requests.find(work.key)
        if stored is None:
            return Again(_UNREADABLE, "its row is not as this service has written it")
        if stored.closing_decision is not None:
            return None
        left = stored.request.action.expires_at - stored.read_at
        return Again(max(left, timedelta(seconds=1)) if stored.is_open else _BACK_OFF)

    async def _try_to_close(self, request_id: str, *, decides: bool = True) -> Again | None:
        """Close a request if it can be; return when to try again if that is not possible now."""
        try:
            await self.close(request_id, decides=decides)
        except _LATER as exc:
            _log.info("the approval request %s is closed later: %s", request_id, exc)
            return Again(_BACK_OFF, f"{type(exc).__name__}: {getattr(exc, 'code', 'the record cannot be written')}")
        return None

    async def _close_soon(self, request_id: str) -> None:
        for seconds in CLOSE_AFTER_SECONDS:
            if seconds:
                await asyncio.sleep(seconds)
            try:
                await self.close(request_id)
                return
            except _LATER as exc:
                _log.info("the approval request %s is closed later: %s", request_id, exc)
            except Exception:
                _log.exception("the approval request %s could not be closed", request_id)
                return

    async def close(self, request_id: str, *, decides: bool = True) -> bool:
        """Run the closing decision of a request, if it has ended or enough people approved it; False if not.

        An open request is left alone unless the rules of this process and those under which it was asked permit its call, and
        each unless this `decides`. Raises `ServiceError` if that cannot be done now, such as CONVERSATION_BUSY.
        """
        stored, right = await self._requests.find_proven(request_id)
        if stored is None:
            _log.warning("the row of the approval request %s is not as this service has written it: it is ignored", request_id)
            return False
        if right != (stored.state, stored.closing_decision):
            _log.error("the row of the approval request %s was changed from outside; it is set right: %s", request_id, right[0])
            await self._requests.set_right(stored, *right)
            return False
        if stored.closing_decision is not None:
            return False
        snapshot = await self._prepare()
        policy, request = snapshot.policy, stored.request
        judges: Sequence[Judge] = ()
        if stored.state is ApprovalState.OPEN:
            if not decides or not _can_be_approved(stored):
                return False
            asked = await self._asked_under(stored, snapshot)
            judges = await self._deciding(stored, policy, asked)
            if not _may_run(judges, stored):
                return await self._is_void(stored, policy, asked) and await self.close(request_id)
        since = self._stores.clock.monotonic()
        opened: list[OpenedTurn] = []

        def open_record(decision_id: str, context: DecisionContext, at: datetime) -> DecisionOpening:
            header = self._engine.header(context, snapshot, decision_id, at=at)
            opened[:] = [OpenedTurn(header, snapshot)]
            return opened[0].opening

        may_run = partial(_may_run, judges)
        closing = await self._stores.turns.claim_closing(self._requests, request, may_run, open_record)
        if closing is None:
            return False
        start, decision_id = TurnStart(opened[0]), closing.decision_id
        if closing.turn is None:
            await self._engine.start(start, PlainSession(), decision_id, user_id=request.user_id).result()
        else:
            session = ChatSession(self._stores, closing.turn, since)
            await self._engine.start(start, session, decision_id, user_id=request.user_id).result()
        return True

    async def _summary(self, stored: StoredRequest, snapshot: PolicySnapshot) -> QuestionSummary:
        asked = await self._asked_under(stored, snapshot)
        return summary_of(stored, snapshot.policy, self._decided_elsewhere(stored, snapshot.policy, asked))

    async def _asked_under(self, stored: StoredRequest, snapshot: PolicySnapshot) -> AskedRules:
        return await self._rules.of(stored.request, snapshot) if stored.is_open else AskedRules()

    def _other_rules(self, request: ApprovalRequest, policy: CompiledPolicy) -> list[str]:
        return other_rules(request, policy, self._requests.evidence)

    def _decided_elsewhere(
        self, stored: StoredRequest, policy: CompiledPolicy, asked: AskedRules, known: Circumstances | None = None
    ) -> str:
        refusal = "" if asked.left or not asked.others else _refusal(stored.request, policy, known)
        return decided_elsewhere(stored, asked, self._other_rules(stored.request, policy), refusal)

    async def _is_void(self, stored: StoredRequest, policy: CompiledPolicy, asked: AskedRules) -> bool:
        """End a request that the rules of this process refuse, whatever is read, if an operator has activated them.

        Rules that are followed end nothing, because another process may have those under which it was asked.
        """
        rule_set, refusal = self._engine.rule_set, _refusal(stored.request, policy, None) if asked.others else ""
        if rule_set is None or not refusal:
            return False
        why = f"the rules were changed, and they do not permit it: {refusal}"
        return await self._requests.void_refused(stored.request.id, why, rule_set.digest)

    async def _deciding(self, stored: StoredRequest, policy: CompiledPolicy, asked: AskedRules) -> Sequence[Judge]:
        """Return the rules that decide a request after its answers; none if this process leaves it, or reads later again."""
        if asked.left:
            return ()
        request, answers = stored.request, len(stored.answers)
        known = await self._read(self._looks.of_decider(request, policy, answers))
        return await self._with_asked(request, policy, known, asked, "", answers)

    def _evidence_problem(self, request: ApprovalRequest, answer: ApprovalAnswer) -> str | None:
        """Return why an answer does not count, as a clause; None if it does."""
        if request.evidence != self._requests.evidence.required:
            # What this process would accept says nothing about what the one that decides does.
            return "its request was asked where the sign-in or the keys of the approvers are others, and is answered there"
        return self._requests.evidence.problem_of(request, answer)

    async def _known_now(
        self, stored: StoredRequest, policy: CompiledPolicy, asked: AskedRules, user_id: str, roles: Sequence[str]
    ) -> Sequence[Judge] | None:
        """Return what the call acts on and all rules read about it now, if the user can answer its request; else None."""
        can_answer = stored.is_open and not _is_own(stored, user_id) and not _has_answered(stored, user_id)
        if not can_answer or not _roles_of(stored, roles) or asked.left:
            return None
        known = await self._read(self._looks.of_viewer(stored.request, policy, user_id))
        return await self._with_asked(stored.request, policy, known, asked, user_id, 0) or None

    async def _with_asked(
        self,
        request: ApprovalRequest,
        policy: CompiledPolicy,
        known: Circumstances | None,
        asked: AskedRules,
        viewer: str,
        answers: int,
    ) -> Sequence[Judge]:
        """Return the rules of this process and the earlier ones, with what both read; none if one reads later again."""
        if known is None:
            return ()
        judges = [Judge(policy, known)]
        for one in asked.others:
            read = await self._read(self._looks.of_asked(request, one, viewer, answers))
            if read is None:
                return ()
            judges.append(Judge(one, read))
        return judges

    def _yours(self, stored: StoredRequest, user_id: str, roles: Sequence[str], judges: Sequence[Judge] | None) -> YourAnswer:
        given = next((one for one in stored.answers if is_same_person(one.approver, user_id)), None)
        own = list(_roles_of(stored, roles))
        to_sign = [
            TextToSign(approve=yes, role=role, text=signed_text(stored.request, approver=user_id, approve=yes, role=role))
            for role in (() if self._requests.evidence.keys is None else own)
            for yes in (True, False)
        ]
        if judges is None:
            return YourAnswer(
                roles=own, to_sign=to_sign, answer=None if given is None else shown_answer(given), effect=None, why=""
            )
        counts = count_approvals(stored.answers, stored.request.user_id)
        judged = [_strictest(judges, stored.request, {**counts, role: counts.get(role, 0) + 1}) for role in own]
        best = next((one for one in judged if one.disposition is CallDisposition.EXECUTED), judged[0])
        effect: Literal["runs", "waits", "refused"] = _EFFECTS.get(best.disposition, "refused")
        why = "" if effect == "runs" else for_user(best.reason)
        words = effect_of_approval(effect, why)
        return YourAnswer(roles=own, to_sign=to_sign, answer=None, effect=effect, effect_words=words, why=why)

    async def _visible(self, request_id: str, user_id: str, roles: Sequence[str]) -> StoredRequest:
        stored = await self._requests.find(request_id)
        if stored is None:
            raise not_found()
        takes_part = stored.request.user_id == user_id or _has_answered(stored, user_id)
        if not takes_part and not _roles_of(stored, roles):
            raise not_found()
        return stored

    async def _asking(self, request: ApprovalRequest) -> DecisionRecord | None:
        """Return the decision in which the call was requested; None if it is not kept any more."""
        decision_id: str | None = request.decision_id
        record: DecisionRecord | None = None
        while decision_id is not None:
            record = await load_closed(self._stores.audit, decision_id)
            closed = None if record is None else record.header.context.approval
            # A closing decision that found its object changed has opened its request anew.
            decision_id = None if closed is None else closed.request.decision_id
        return record

    async def _read(self, reading: Awaitable[T]) -> T:
        try:
            return await reading
        except RecordUnavailableError as exc:
            raise service_unavailable() from exc

    async def _prepare(self) -> PolicySnapshot:
        try:
            snapshot = await self._engine.prepare()
        except ConfigurationError as exc:
            raise service_not_ready() from exc
        # First what was asked under the same rules; what no such process decides is tried under both.
        self._lanes = (rules_digest(snapshot.policy.digests(()), self._requests.evidence.required), ANY_LANE)
        return snapshot


@dataclass(frozen=True, slots=True)
class Judge:
    """Rules that have to permit the call of a request, with what they have read about it."""

    policy: CompiledPolicy
    known: Circumstances

    def verdict(self, request: ApprovalRequest, approvals: Mapping[str, int]) -> GuardVerdict:
        """Return the verdict on the call with so many approvals by role."""
        return judge_request(request, self.policy, approvals, self.known.facts, self.known.results)


def _strictest(judges: Sequence[Judge], request: ApprovalRequest, approvals: Mapping[str, int]) -> GuardVerdict:
    """Return the verdict of all rules together: a refusal before what waits, and that before a permission."""
    order = (CallDisposition.EXECUTED, CallDisposition.WAITS)
    verdicts = [one.verdict(request, approvals) for one in judges]
    return max(verdicts, key=lambda one: order.index(one.disposition) if one.disposition in order else len(order))


def _may_run(judges: Sequence[Judge], stored: StoredRequest) -> bool:
    """True if all rules allow the call with the answers to its request, none of which is a denial."""
    if not judges or not _can_be_approved(stored):
        return False
    counts = count_approvals(stored.answers, stored.request.user_id)
    return _strictest(judges, stored.request, counts).disposition is CallDisposition.EXECUTED


def _refusal(request: ApprovalRequest, policy: CompiledPolicy, known: Circumstances | None) -> str:
    """Return why rules do not permit a call, whichever of its approvers approves it; empty if they may."""
    conditions = policy.conditions
    reads = conditions is not None and (conditions.reads_facts or conditions.needs_facts(request.action.tool_name))
    if reads and known is None:
        return ""
    verdict = Judge(policy, known or Circumstances()).verdict(request, dict.fromkeys(request.counted_roles, EVERYBODY))
    return "" if verdict.disposition is CallDisposition.EXECUTED else for_user(verdict.reason) or "they ask for more"


def _can_be_approved(stored: StoredRequest) -> bool:
    """True if people have approved a request, and none has denied it: without their answers no rule decides it."""
    return bool(count_approvals(stored.answers, stored.request.user_id)) and all(one.approve for one in stored.answers)


def _roles_of(stored: StoredRequest, roles: Sequence[str]) -> tuple[str, ...]:
    """Return those of `roles` in which their holder may answer a request, or see how it ended: the needed ones first."""
    return tuple(one for one in stored.request.counted_roles if one in roles)


def _is_own(stored: StoredRequest, user_id: str) -> bool:
    """True if a request is the user's, in whatever spelling: then the user answers it not."""
    return is_same_person(stored.request.user_id, user_id)


def _has_answered(stored: StoredRequest, user_id: str) -> bool:
    return any(is_same_person(one.approver, user_id) for one in stored.answers)
