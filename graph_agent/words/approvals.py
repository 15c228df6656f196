"""The replies about approval requests: opened, ended without their call, and done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graph_agent.models.approval import ApprovalAnswer, ApprovalState
from graph_agent.models.decision import ApprovalRequest, ClosedRequest
from graph_agent.policy.cedar.conditions import NeededApproval
from graph_agent.reply import fixed
from graph_agent.reply.authored import Parts, by_code
from graph_agent.reply.text import quoted
from graph_agent.words.said import brief_of, said_of
from graph_agent.words.values import time_in_words


def opened_reply(request: ApprovalRequest) -> str:
    """Return the reply with which a request is opened."""
    before = (*request.action.changed_since, request.action.changed_before)
    return " ".join(filter(None, (*before, fixed.waits_for_approval(request, _end_of(request)))))


def then_approved(needs: NeededApproval | None) -> str:
    """Return the sentence about the people who have to approve a call after the yes; empty if none has to."""
    if needs is None or not needs.roles:
        return ""
    rules = "; ".join(needs.rules)
    return f"After your yes it waits for another person with the role {fixed.in_roles(needs.roles)}: {rules}."


def ended_without_call(closed: ClosedRequest) -> str:
    """Return the reply about a request that ended without its call."""
    denial = next((one for one in closed.answers if not one.approve), None)
    match closed.end:
        case ApprovalState.DENIED if denial is not None:
            why = f"{fixed.denied_by(denial)}, so nothing was done"
        case ApprovalState.CANCELLED:
            why = "You withdrew the request, so nothing was done"
        case ApprovalState.EXPIRED:
            why = f"{unapproved(closed.request, closed.answers)}, so nothing was done"
        case _:
            why = f"The request is void ({closed.why}), so nothing was done"
    return f"{why}: {fixed.lowered(brief_of(closed.request.action))}"


STATES: Mapping[str, str] = {
    "open": "Waits",
    "approved": "Approved",
    "denied": "Denied",
    "replaced": "Replaced",
    "cancelled": "Withdrawn",
    "expired": "Expired",
    "void": "Void",
}
"""The words of each state of a question, for those whom it asks."""
_EFFECTS = {"runs": "it is done at once", "waits": "it still waits for others", "refused": "it is refused"}


def effect_of_approval(effect: str, why: str) -> str:
    """Return the sentence about the effect that an approval would have; `why` names the rules that are in its way."""
    return f"If you approve it, {_EFFECTS[effect]}{f': {why}' if why else ''}."


def unapproved(request: ApprovalRequest, answers: Sequence[ApprovalAnswer]) -> str:
    """Return the sentence about a request that has expired, without its end."""
    who = "There were not enough approvals" if answers else "No one answered"
    return f"{who} until {_end_of(request)}"


def _end_of(request: ApprovalRequest) -> str:
    """Return the time until which a request is open, in the time zone of its requester."""
    return time_in_words(request.action.expires_at, said_of(request.action.each[0]).time_zone)


def reason_notices(answers: Sequence[ApprovalAnswer]) -> list[str]:
    """Return a notice for each reason that an approver gave: the user reads it, and no model."""
    return [f"{quoted(one.approver, 80)} says: {quoted(one.reason, 1_000)}" for one in answers if one.reason]


def people_of(request: ApprovalRequest, answers: Sequence[ApprovalAnswer], *, is_open: bool) -> tuple[str, ...]:
    """Return the sentences about who has to approve a call while it `is_open`, who has answered, and why."""
    needs = f"It waits for another person with the role {fixed.in_roles(request.roles)}: {'; '.join(request.rules)}."
    approved = f"{fixed.approved_by(answers)}." if any(one.approve for one in answers) else ""
    denied = (f"{fixed.denied_by(one)}." for one in answers if not one.approve)
    return tuple(filter(None, (needs if is_open else "", approved, *denied, *reason_notices(answers))))


def with_approvers(closed: ClosedRequest | None, report: Parts) -> Parts:
    """Return the report of a call, after the people who approved it."""
    return report if closed is None else by_code(f"{fixed.approved_by(closed.answers)}. ") + report
