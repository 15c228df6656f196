"""The request for the approval of other people with which a turn ends, and the reply of the decision that closes it."""

from __future__ import annotations

from graph_agent.graph.card import AskedCall, changed_before, earliest
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.models.approval import MAX_OPEN_REQUESTS, MAX_RENEWALS, ApprovalState
from graph_agent.models.decision import ApprovalRequest, ClosedRequest, PendingAction
from graph_agent.models.facts import ShownFact
from graph_agent.models.sources import CallSources
from graph_agent.policy.cedar.conditions import NeededApproval
from graph_agent.reply import fixed
from graph_agent.reply.authored import Parts, by_code
from graph_agent.reply.text import quoted


class RequestRefused(Exception):  # noqa: N818 (raised here and caught in EXECUTE_TOOLS: a decision, not an error)
    """No request is opened. The text is for the model, `rule` is the reason as a clause for the user."""

    def __init__(self, text: str, rule: str) -> None:
        super().__init__(text)
        self.rule = rule


async def open_request(
    turn: Turn,
    runtime: TurnRuntime,
    asked: AskedCall,
    needs: NeededApproval,
    sources: CallSources | None,
    facts: tuple[ShownFact, ...],
) -> ApprovalRequest | None:
    """Return the signed request for a call that waits; None if the turn was interrupted. Raises `RequestRefused`.

    A closing decision that finds what its call acts on changed opens its request anew.
    """
    closed = turn.context.approval
    action = _action(turn, runtime, asked)
    if closed is not None:
        if closed.request.renewals >= MAX_RENEWALS:
            raise RequestRefused("what the call acts on has changed again", fixed.CHANGED_TOO_OFTEN)
        earlier = closed.request
        changes = {"action": action, "facts": facts, "decision_id": turn.decision_id, "renewals": earlier.renewals + 1}
        return earlier.replace(**changes, prompt=runtime.snapshot.digests["prompt"])
    request = ApprovalRequest(
        action=action,
        roles=needs.roles,
        rules=needs.rules,
        sources=sources,
        facts=facts,
        by_program=bool(turn.context.called) and not turn.context.typed,
        confirmed=turn.unused_yes is not None,
        prompt=runtime.snapshot.digests["prompt"],
        user_id=turn.context.user_id,
        user_roles=turn.context.roles,
        conversation_id=turn.context.conversation_id,
        decision_id=turn.decision_id,
        origin="",
    )
    known = await runtime.ports.known_requests(request.call_digest)
    if runtime.ports.interrupted:
        return None
    if known.same:
        raise RequestRefused(f"it waits for an approval already (request {known.same})", fixed.waits_already(known.same))
    if known.denied:
        raise RequestRefused("its approval was denied", known.denied)
    if known.open >= MAX_OPEN_REQUESTS:
        text = f"{MAX_OPEN_REQUESTS} calls of this user wait for approvals already"
        raise RequestRefused(text, fixed.TOO_MANY_REQUESTS)
    return request.replace(origin=known.origin, evidence=known.evidence)


def _action(turn: Turn, runtime: TurnRuntime, asked: AskedCall) -> PendingAction:
    created_at, call = runtime.ports.now(), asked.call
    action = PendingAction(
        id=runtime.ports.new_id(),
        tool_name=call.tool_name,
        arguments=call.arguments,
        description=call.description,
        whole_digest=call.whole_digest,
        by_id_only=bool(call.whole_digest),
        object_text=call.object_text,
        undoes=call.undoes,
        changed_before=changed_before(turn, runtime.snapshot.policy, [asked]),
        asked_under=runtime.snapshot.policy.digests([call.tool_name]),
        created_at=created_at,
        expires_at=earliest(created_at + runtime.snapshot.config.approval_lifetime, [call]),
    )
    return action.replace(signature=runtime.ports.sign(action))


def opened_reply(request: ApprovalRequest) -> str:
    """Return the reply with which a request is opened."""
    before = fixed.CHANGED_SINCE_APPROVED if request.renewals else ""
    return " ".join(filter(None, (before, request.action.changed_before, fixed.waits_for_approval(request))))


def ended_without_call(closed: ClosedRequest) -> str:
    """Return the reply about a request that ended without its call."""
    denial = next((one for one in closed.answers if not one.approve), None)
    match closed.end:
        case ApprovalState.DENIED if denial is not None:
            why = f"{fixed.denied_by(denial)}, so nothing was done"
        case ApprovalState.CANCELLED:
            why = "You withdrew the request, so nothing was done"
        case ApprovalState.EXPIRED:
            until = f"{closed.request.action.expires_at:%Y-%m-%d %H:%M} UTC"
            who = "There were not enough approvals" if closed.answers else "No one answered"
            why = f"{who} until {until}, so nothing was done"
        case _:
            why = f"The rules no longer permit this ({closed.why}), so nothing was done"
    return f"{why}: {fixed.lowered(closed.request.action.description)}"


def reason_notices(closed: ClosedRequest) -> list[str]:
    """Return a notice for each reason that an approver gave: the user reads it, and no model."""
    return [f"{quoted(one.approver, 80)} says: {quoted(one.reason, 1_000)}" for one in closed.answers if one.reason]


def with_approvers(turn: Turn, report: Parts) -> Parts:
    """Return the report of a call, after the people who approved it."""
    closed = turn.context.approval
    return report if closed is None else by_code(f"{fixed.approved_by(closed.answers)}. ") + report
