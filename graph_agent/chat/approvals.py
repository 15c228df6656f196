"""The approval of calls by other people than their requesters: what an approver sees, the answers, and the closing decisions.

Whoever claims the closing decision of a request runs it: the process that took an answer tries for some seconds, then every
sweep does. What the rules in force say about the call is decided with the answers that are stored, in the commit of the claim.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from graph_agent.chat.conversations.approvals import ApprovalStore, StoredRequest, not_found
from graph_agent.chat.session import ChatSession, ChatStores
from graph_agent.errors import ConfigurationError, RecordUnavailableError, ServiceError, ServiceErrorCode
from graph_agent.models.approval import ApprovalAnswer, ApprovalState, ApproverIdentity, count_approvals
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import ApprovalRequest, DecisionContext, RulesDigests
from graph_agent.models.facts import Facts, PastUses, window_start
from graph_agent.models.record import DecisionOpening, DecisionRecord
from graph_agent.policy import confirmation
from graph_agent.policy.cedar.conditions import EVERYBODY
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.guard import CallDecision, JudgedCall, judge_request
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.run import OpenedTurn, PlainSession, TurnStart

_log = logging.getLogger(__name__)

CLOSE_AFTER_SECONDS = (0.0, 1.0, 2.0, 4.0)
"""The waits before the tries of the process that took an answer; after them the sweep closes the request."""
_NOT_CHANGED = "its tool is no longer declared as it was"


class ApprovalService:
    """Requests for approval, as their approvers and requesters use them. Methods raise `ServiceError`."""

    def __init__(self, engine: LLMAgentEngine, stores: ChatStores, requests: ApprovalStore) -> None:
        self._engine = engine
        self._stores = stores
        self._requests = requests
        self._closing: set[asyncio.Task[None]] = set()

    async def for_approver(self, user_id: str, roles: Sequence[str], *, ended: bool = False) -> list[dict[str, Any]]:
        """Return the requests that the user may answer, the oldest first; the `ended` ones instead, the newest first."""
        policy = (await self._prepare()).policy
        found = await (self._requests.list_ended() if ended else self._requests.list_open())
        shown = [one for one in found if self._is_eligible(one, policy, user_id, roles) and (ended or one.is_open)]
        return [self._summary(one, policy) for one in shown]

    async def of_requester(self, user_id: str) -> list[dict[str, Any]]:
        """Return the requests of the user, the newest first."""
        policy = (await self._prepare()).policy
        return [self._summary(one, policy) for one in await self._requests.list_of(user_id)]

    async def view(self, request_id: str, user_id: str, roles: Sequence[str]) -> dict[str, Any]:
        """Return everything that an approver, or the requester, is shown about a request. Raises APPROVAL_NOT_FOUND."""
        snapshot = await self._prepare()
        stored, policy = await self._visible(request_id, user_id, roles, snapshot.policy), snapshot.policy
        request, action = stored.request, stored.request.action
        asked, message = await self._asking(request)
        previous = [one for one in await self._requests.list_same(request) if one.created_at < stored.created_at]
        shown = {
            **self._summary(stored, policy),
            "arguments": action.arguments,
            "object_then": action.object_text or action.description,
            "object_now": await self._object_now(request, policy),
            "changed_before": action.changed_before,
            "confirmed": request.confirmed,
            "message": message,
            "named_in_message": {name: _stands_in(value, message) for name, value in action.arguments.items()},
            "calls": [] if asked is None else _calls_of(asked),
            "effects": [] if asked is None else asked.decision.effects,
            "answers": [_answer_json(one) for one in stored.answers],
            "earlier": [{"id": one.request.id, "state": _state(one), "ended_at": one.ended_at} for one in previous],
        }
        if user_id != request.user_id:
            shown["yours"] = await self._with_yours(stored, policy, user_id, roles)
        return shown

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
    ) -> dict[str, Any]:
        """Store the user's answer, and close the request if it decides it; return its summary.

        Without `role` the user answers in the first of theirs that the rules name. Raises APPROVAL_NOT_FOUND, ACCESS_DENIED,
        VALIDATION_ERROR, APPROVAL_CLOSED, APPROVAL_CONFLICT.
        """
        policy = (await self._prepare()).policy
        stored = await self._visible(request_id, user_id, roles, policy)
        if stored.request.user_id == user_id:
            raise ServiceError(ServiceErrorCode.ACCESS_DENIED, "Nobody answers a request of their own.")
        if not approve and not reason.strip():
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, "A denial needs a reason.")
        own = _roles_of(stored, policy, roles)
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
        answered = await self._requests.answer(request_id, answer)
        self.close_soon(request_id)
        return self._summary(answered, policy)

    async def cancel(self, request_id: str, user_id: str) -> dict[str, Any]:
        """Withdraw a request of the user; return its summary. Raises as `ApprovalStore.cancel`."""
        policy = (await self._prepare()).policy
        cancelled = await self._requests.cancel(request_id, user_id)
        self.close_soon(request_id)
        return self._summary(cancelled, policy)

    async def state(self, request_id: str, user_id: str) -> StoredRequest:
        """Return a request of the user. Raises APPROVAL_NOT_FOUND."""
        stored = await self._requests.find(request_id)
        if stored is None or stored.request.user_id != user_id:
            raise not_found()
        return stored

    async def sweep(self) -> int:
        """End the requests whose time is over, and close all that can be closed; return how many were closed."""
        await self._requests.expire()
        closed = 0
        for request_id in await self._requests.unclosed():
            try:
                closed += await self.close(request_id)
            except (ServiceError, RecordUnavailableError, ConfigurationError) as exc:
                _log.warning("the approval request %s is closed later: %s", request_id, exc)
        return closed

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

    async def _close_soon(self, request_id: str) -> None:
        for seconds in CLOSE_AFTER_SECONDS:
            if seconds:
                await asyncio.sleep(seconds)
            try:
                await self.close(request_id)
                return
            except (ServiceError, RecordUnavailableError, ConfigurationError) as exc:
                _log.info("the approval request %s is closed later: %s", request_id, exc)
            except Exception:
                _log.exception("the approval request %s could not be closed", request_id)
                return

    async def close(self, request_id: str) -> bool:
        """Run the closing decision of a request, if it has ended or enough people approved it; False if not.

        Raises `ServiceError` if that cannot be done now, such as CONVERSATION_BUSY.
        """
        stored = await self._requests.find(request_id)
        if stored is None or stored.closing_decision is not None:
            return False
        snapshot = await self._prepare()
        policy, request = snapshot.policy, stored.request
        if request.action.tool_name not in policy.rules and stored.state is ApprovalState.OPEN:
            # Another installation on this database may serve the tool; the time of the request ends in any case.
            return False
        facts = await self._facts(policy, request)
        if stored.state is ApprovalState.OPEN:
            if (why := self._void_because(request, policy, facts)) is not None:
                await self._requests.void(request_id, why)
            elif not _may_run(policy, facts, stored):
                return False
        since = self._stores.clock.monotonic()
        opened: list[OpenedTurn] = []

        def open_record(decision_id: str, context: DecisionContext) -> DecisionOpening:
            opened[:] = [OpenedTurn(self._engine.header(context, snapshot, decision_id), snapshot)]
            return opened[0].opening

        may_run = partial(_may_run, policy, facts)
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

    def _void_because(self, request: ApprovalRequest, policy: CompiledPolicy, facts: Facts | None) -> str | None:
        """Return why the rules in force do not permit the call to anybody; None if they may."""
        name, conditions = request.action.tool_name, policy.conditions
        asked = RulesDigests(tools=request.action.asked_under.tools)
        # Only what is declared about the tool: the rules themselves judge the call anew.
        if name in policy.differences(asked.replace(**_files_of(policy))):
            return _NOT_CHANGED
        everybody = {} if conditions is None else dict.fromkeys(conditions.file.roles, EVERYBODY)
        judged = judge_request(request, policy, everybody, facts)
        if judged.decision is CallDecision.PERMITTED:
            return None
        # A rule that reads the time or what was used may permit the call later.
        return None if _reads_facts(policy, name) else (judged.rule or "it is refused")

    async def _with_yours(
        self, stored: StoredRequest, policy: CompiledPolicy, user_id: str, roles: Sequence[str]
    ) -> dict[str, Any]:
        """Return what the approval of the user would do now: "runs", "waits" or "refused", with the reason."""
        given = next((one for one in stored.answers if one.approver == user_id), None)
        own = list(_roles_of(stored, policy, roles))
        if given is not None or not stored.is_open:
            return {"roles": own, "answer": None if given is None else _answer_json(given), "effect": None, "why": ""}
        facts = await self._facts(policy, stored.request)
        counts = count_approvals(stored.answers, stored.request.user_id)
        best: JudgedCall | None = None
        for role in own:
            judged = judge_request(stored.request, policy, {**counts, role: counts.get(role, 0) + 1}, facts)
            if best is None or judged.decision is CallDecision.PERMITTED:
                best = judged
        assert best is not None, "the user is eligible"
        effects = {CallDecision.PERMITTED: "runs", CallDecision.WAITS: "waits"}
        effect = effects.get(best.decision, "refused")
        return {"roles": own, "answer": None, "effect": effect, "why": "" if effect == "runs" else best.rule}

    async def _visible(self, request_id: str, user_id: str, roles: Sequence[str], policy: CompiledPolicy) -> StoredRequest:
        stored = await self._requests.find(request_id)
        if stored is None or not (stored.request.user_id == user_id or self._is_eligible(stored, policy, user_id, roles)):
            raise not_found()
        return stored

    def _is_eligible(self, stored: StoredRequest, policy: CompiledPolicy, user_id: str, roles: Sequence[str]) -> bool:
        return stored.request.user_id != user_id and bool(_roles_of(stored, policy, roles))

    def _summary(self, stored: StoredRequest, policy: CompiledPolicy) -> dict[str, Any]:
        request, action = stored.request, stored.request.action
        rule = policy.rules.get(action.tool_name)
        return {
            "id": request.id,
            "digest": request.digest,
            "state": _state(stored),
            "requester": request.user_id,
            "conversation_id": request.conversation_id,
            "decision_id": request.decision_id,
            "closing_decision": stored.closing_decision,
            "tool": action.tool_name,
            "title": action.tool_name if rule is None else rule.title,
            "description": action.description,
            "roles": list(request.roles),
            "rules": list(request.rules),
            "approvals": count_approvals(stored.answers, request.user_id),
            "created_at": action.created_at.isoformat(),
            "expires_at": action.expires_at.isoformat(),
            "ended_at": None if stored.ended_at is None else stored.ended_at.isoformat(),
            "why": stored.why,
        }

    async def _asking(self, request: ApprovalRequest) -> tuple[DecisionRecord | None, str]:
        """Return the decision in which the call was requested, and the message of its user."""
        decision_id: str | None = request.decision_id
        record: DecisionRecord | None = None
        while decision_id is not None:
            loaded = await self._stores.audit.load(decision_id)
            record = loaded if isinstance(loaded, DecisionRecord) else None
            closed = None if record is None else record.header.context.approval
            # A closing decision that found its object changed has opened its request anew.
            decision_id = None if closed is None else closed.request.decision_id
        return record, "" if record is None else record.header.context.message

    async def _object_now(self, request: ApprovalRequest, policy: CompiledPolicy) -> str | None:
        """Return what the call would act on now; None if that is not known."""
        action, rule = request.action, policy.rules.get(request.action.tool_name)
        if rule is None or not rule.traits.preview:
            return None
        preview = await self._engine.external.preview(action.tool_name, action.arguments, request.user_id)
        return confirmation.describe_in_full(rule, action.arguments, preview) if preview.success else None

    async def _facts(self, policy: CompiledPolicy, request: ApprovalRequest) -> Facts | None:
        conditions = policy.conditions
        if conditions is None or not conditions.reads_facts:
            return None
        now, past = self._stores.clock.now(), PastUses()
        if conditions.reads_windows or conditions.reads_calls:
            since = window_start("day", now, conditions.file.time_zone) if conditions.reads_windows else None
            context = DecisionContext(
                user_id=request.user_id, message=request.id, conversation_id=request.conversation_id, roles=request.user_roles
            )
            past = await self._stores.audit.past_uses(context, "", since, conditions.reads_calls)
        return conditions.facts(now, past)

    async def _prepare(self) -> PolicySnapshot:
        try:
            return await self._engine.prepare()
        except ConfigurationError as exc:
            text = "The service is not ready. Please try again later."
            raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text, retry_after=5) from exc


def _may_run(policy: CompiledPolicy, facts: Facts | None, stored: StoredRequest) -> bool:
    """True if the rules in force allow the call with the answers to its request, none of which is a denial."""
    if any(not one.approve for one in stored.answers):
        return False
    counts = count_approvals(stored.answers, stored.request.user_id)
    # A request is not closed before anybody answered it, also if the rules have become looser since.
    return bool(counts) and judge_request(stored.request, policy, counts, facts).decision is CallDecision.PERMITTED


def _roles_of(stored: StoredRequest, policy: CompiledPolicy, roles: Sequence[str]) -> tuple[str, ...]:
    """Return those of `roles` in which their holder may answer a request, or see how it ended: the needed ones first.

    They are those whose approvals the rules in force count for its tool; after its end, those that it named.
    """
    request, conditions = stored.request, policy.conditions
    named = request.roles
    if stored.state is ApprovalState.OPEN:
        named = () if conditions is None else conditions.approval_roles(request.action.tool_name)
    return tuple(sorted((one for one in named if one in roles), key=lambda one: (one not in request.roles, one)))


def _files_of(policy: CompiledPolicy) -> dict[str, Any]:
    own = policy.digests(())
    return {"constitution": own.constitution, "conditions": own.conditions}


def _reads_facts(policy: CompiledPolicy, tool_name: str) -> bool:
    if (conditions := policy.conditions) is None:
        return False
    reads = conditions.reads_about(tool_name)
    return any(reads.has(part) for part in ("time", "used", "succeeded", "attempted", "result"))


def _state(stored: StoredRequest) -> str:
    is_late = stored.state is ApprovalState.OPEN and not stored.in_time
    return str(ApprovalState.EXPIRED if is_late else stored.state)


def _answer_json(answer: ApprovalAnswer) -> dict[str, Any]:
    return {name: value for name, value in answer.to_json().items() if name != "digest"}


def _calls_of(record: DecisionRecord) -> list[dict[str, Any]]:
    return [
        {"tool": one.tool_name, "arguments": one.parameters, "became": str(one.disposition), "success": one.success}
        for one in record.invocations
    ]


def _stands_in(value: Any, message: str) -> bool:
    """True if an argument's value stands in a message as it is."""
    text = value if isinstance(value, str) else canonical_json(value)
    return bool(text) and text.casefold() in message.casefold()
