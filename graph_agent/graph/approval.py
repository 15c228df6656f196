"""The request for the approval of other people with which a turn ends, and the reply of the decision that closes it."""

from __future__ import annotations

from datetime import datetime

from graph_agent.graph.card import AskedCall, changed_before, earliest
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.models.decision import ApprovalRequest, PendingAction
from graph_agent.policy.call_in_hand import CallInHand
from graph_agent.policy.cedar.conditions import NeededApproval
from graph_agent.reply import fixed


def open_request(turn: Turn, runtime: TurnRuntime, hand: CallInHand) -> ApprovalRequest:
    """Return the signed request for a call that waits. A closing decision whose object has changed opens its request anew."""
    closed, known, facts = turn.context.approval, hand.evidence.requests, hand.evidence.facts_shown
    assert known is not None
    # The time of the database, by which it expires: the clocks of two hosts may differ.
    created_at = known.at or runtime.ports.now()
    action, prompt = _action(turn, runtime, AskedCall.in_hand(hand), created_at), runtime.snapshot.digests["prompt"]
    if closed is not None:
        earlier = closed.request
        changes = {"action": action, "facts": facts, "decision_id": turn.decision_id, "renewals": earlier.renewals + 1}
        return earlier.replace(**changes, prompt=prompt)
    needs = hand.found.needs or NeededApproval((), ())
    conditions = runtime.snapshot.policy.conditions
    counted = () if conditions is None else conditions.approval_roles(action.tool_name)
    return ApprovalRequest(
        action=action,
        roles=needs.roles,
        further_roles=tuple(role for role in counted if role not in needs.roles),
        rules=needs.rules,
        sources=hand.sources,
        facts=facts,
        by_program=bool(turn.context.called) and not turn.context.typed,
        confirmed=turn.unused_yes is not None,
        prompt=prompt,
        user_id=turn.context.user_id,
        user_roles=turn.context.roles,
        conversation_id=turn.context.conversation_id,
        decision_id=turn.decision_id,
        origin=known.origin,
        evidence=known.evidence,
    )


def _action(turn: Turn, runtime: TurnRuntime, asked: AskedCall, created_at: datetime) -> PendingAction:
    call = asked.call
    action = PendingAction(
        id=runtime.ports.new_id(),
        tool_name=call.tool_name,
        arguments=call.arguments,
        description=call.description,
        said=call.said,
        whole_digest=call.whole_digest,
        known=call.known,
        by_id_only=call.by_id_only,
        object_text=call.object_text,
        undoes=call.undoes,
        changed_since=() if turn.context.approval is None else (fixed.CHANGED_SINCE_APPROVED, *asked.changed),
        changed_before=changed_before(turn, runtime.snapshot.policy, [asked]),
        asked_under=runtime.snapshot.policy.digests([call.tool_name]),
        created_at=created_at,
        expires_at=earliest(created_at + runtime.snapshot.config.approval_lifetime, [call]),
    )
    return action.replace(signature=runtime.ports.sign(action))
