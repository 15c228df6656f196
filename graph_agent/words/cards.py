"""The card of a question: its heading, its calls, and what became of them, from what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from graph_agent.models.approval import ApprovalAnswer, ApprovalState
from graph_agent.models.authors import TextAuthor
from graph_agent.models.card import Card, CardCall, CardState
from graph_agent.models.decision import AgentDecision, ApprovalRequest, DecisionType, PendingAction
from graph_agent.models.mandate import MandateState
from graph_agent.models.record import OperationState
from graph_agent.models.said import SaidCall, SaidState
from graph_agent.reply.fixed import by_rule
from graph_agent.words.approvals import people_of, unapproved
from graph_agent.words.said import said_of
from graph_agent.words.values import lowered

_NOTHING_DONE = "Nothing was changed."
_HEADINGS: Mapping[CardState, tuple[str, str]] = {
    CardState.WAITING: ("Waits for your yes", ""),
    CardState.WORKING: ("You said yes", "It is being done."),
    CardState.DONE: ("Done", ""),
    CardState.UNDONE: ("Done, and undone later", ""),
    CardState.PARTLY: ("Partly done", ""),
    CardState.NOT_DONE: ("Not done", ""),
    CardState.UNKNOWN: ("Not known whether it was done", "Please check before you ask for it again."),
    CardState.WAITS: ("You said yes · waits for approval", ""),
    CardState.AGREED: ("You agreed to the plan", "What it permits runs without asking you again until it ends."),
    CardState.ENDED: ("You agreed to the plan, which has ended", "Everything is asked about as before."),
    CardState.DECLINED: ("Declined", _NOTHING_DONE),
    CardState.DENIED: ("Denied", _NOTHING_DONE),
    CardState.UNAPPROVED: ("Not approved in time", _NOTHING_DONE),
    CardState.EXPIRED: ("Not answered within five minutes", f"{_NOTHING_DONE} Ask again to get a new question."),
    CardState.SET_ASIDE: ("Set aside by your next message", _NOTHING_DONE),
    CardState.CANCELLED: ("Withdrawn", _NOTHING_DONE),
    CardState.VOID: ("No longer valid", _NOTHING_DONE),
}
"""The heading of a card in each state, and the sentence below it."""
_JOB_EXPIRED = "Not answered within 24 hours"
"""The heading of an expired question from the run of a job."""

_ENDS_OF_PLANS = {
    MandateState.USED: "All that it permits was used.",
    MandateState.REVOKED: "It was revoked.",
    MandateState.EXPIRED: "Its time is over.",
    MandateState.VOID: "The rules are no longer those under which you agreed.",
}
_OF_REQUESTS = {
    ApprovalState.OPEN: CardState.WAITS,
    ApprovalState.APPROVED: CardState.WORKING,
    ApprovalState.DENIED: CardState.DENIED,
    ApprovalState.CANCELLED: CardState.CANCELLED,
    ApprovalState.EXPIRED: CardState.UNAPPROVED,
    ApprovalState.VOID: CardState.VOID,
}
_WITHOUT_YES = {CardState.WAITS: "Waits for approval", CardState.WORKING: "Approved"}
"""The headings of a request for approval without an earlier yes."""
_SAID_WHOLE = frozenset({CardState.DONE, CardState.UNDONE, *_OF_REQUESTS.values()} - {CardState.WAITS, CardState.WORKING})
"""The states of a request in which its card says all of the closing decision."""

_ASKED_AGAIN = "Answer this first: your last message was neither yes nor no."

_OF_OPERATIONS = {
    OperationState.DONE: CardState.DONE,
    OperationState.VOID: CardState.NOT_DONE,
    OperationState.UNKNOWN: CardState.UNKNOWN,
}
_OF_CALLS = {
    SaidState.DONE: CardState.DONE,
    SaidState.WAITS: CardState.WAITS,
    SaidState.ASKED: CardState.NOT_DONE,
    SaidState.NOT_DONE: CardState.NOT_DONE,
    SaidState.REFUSED: CardState.NOT_DONE,
    SaidState.UNKNOWN: CardState.UNKNOWN,
}
_WHILE_SENT = {True: CardState.UNKNOWN, False: CardState.WORKING}
"""The state of a call that was intended and has no outcome, by whether its turn has ended."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The rows of the turn that followed a yes."""

    ended: bool = False
    """True if it has ended: its message is stored."""
    calls: Mapping[int, SaidCall] = field(default_factory=lambda: MappingProxyType({}))
    """Its calls as people read them, by their sequence."""
    operations: Mapping[int, OperationState] = field(default_factory=lambda: MappingProxyType({}))
    """The states of its changes, by the sequence of the call."""
    undone: frozenset[int] = frozenset()
    """The changes that were undone later, or may have been."""
    request: str | None = None
    """The request for approval with which it has ended."""
    plan: MandateState | None = None
    """The state of the plan that the yes was for; None before it is in force, and once it is not kept any more."""

    def state_of(self, sequence: int) -> CardState:
        """Return what became of a confirmed call. The operations know more than the turn: an outcome may be settled later."""
        said, operation = self.calls.get(sequence), self.operations.get(sequence)
        if sequence in self.undone:
            return CardState.UNDONE
        if operation is not None:
            return _OF_OPERATIONS.get(operation, _WHILE_SENT[self.ended])
        if said is not None:
            return _OF_CALLS[said.state]
        return CardState.NOT_DONE if self.ended else CardState.WORKING


def card_of(
    pending: PendingAction,
    state: CardState,
    *,
    answered_at: datetime | None = None,
    answered_in: str | None = None,
    followed: Followed | None = None,
) -> Card:
    """Return the card of a question; with what followed its yes, the state is that of its calls."""
    calls = tuple(_calls(pending, followed))
    if followed is not None:
        state = _of_plan(followed) if pending.plan else _together(one.state for one in calls if one.state is not None)
    note = _HEADINGS[state][1]
    if state is CardState.ENDED and followed is not None and followed.plan is not None:
        note = f"{_ENDS_OF_PLANS[followed.plan]} {note}"
    return Card(
        id=pending.id,
        state=state,
        heading=_heading(pending, state),
        late=_heading(pending, CardState.EXPIRED) if state is CardState.WAITING else "",
        note=note,
        calls=calls,
        notices=tuple(
            one for one in (_again(pending, state), *pending.changed_since, pending.changed_before, *pending.origins) if one
        ),
        because=tuple(map(by_rule, pending.because)),
        approval_then=pending.approval_then,
        request=None if followed is None else followed.request,
        created_at=pending.created_at,
        expires_at=pending.expires_at,
        answered_at=answered_at,
        answered_in=answered_in,
        read=pending.whole_digest if pending.by_id_only else "",
        says=() if answered_in is None else (answered_in,),
    )


@dataclass(frozen=True, slots=True)
class AskedOthers:
    """A request for the approval of other people, with its answers, and what followed it."""

    request: ApprovalRequest
    state: ApprovalState
    answers: tuple[ApprovalAnswer, ...] = ()
    why: str = ""
    """For a void one: the reason, as a clause."""
    ended_at: datetime | None = None
    closed_by: str | None = None
    """The decision that closes it."""
    followed: Followed | None = None
    """The rows of that decision, if the request was approved."""


def card_of_request(others: AskedOthers, confirmed: Card | None = None) -> Card:
    """Return the card of a request for approval; on that of its requester's yes, if there is one of the same call."""
    request, pending = others.request, others.request.action
    is_open = others.state is ApprovalState.OPEN
    calls = tuple(_calls(pending, others.followed))
    state = _OF_REQUESTS[others.state]
    if state is CardState.WORKING and others.followed is not None:
        state = _together(one.state for one in calls if one.state is not None)
    heading, note = _HEADINGS[state]
    if confirmed is None:
        heading = _WITHOUT_YES.get(state, heading)
    if state is CardState.UNAPPROVED:
        note = f"{unapproved(request, others.answers)}. {note}"
    elif state is CardState.VOID and others.why:
        note = f"{others.why[:1].upper()}{others.why[1:]}. {note}"
    said = () if others.closed_by is None or state not in _SAID_WHOLE else (others.closed_by,)
    answered_in = None if confirmed is None else confirmed.answered_in
    return Card(
        id=pending.id if confirmed is None else confirmed.id,
        state=state,
        heading=heading if pending.undoes is None else f"Undo: {lowered(heading)}",
        note=note,
        calls=calls,
        notices=pending.changed_since if is_open else (),
        people=people_of(request, others.answers, is_open=is_open),
        withdraw=request.id if is_open else "",
        says=(*(() if answered_in is None else (answered_in,)), *said),
        request=request.id,
        created_at=pending.created_at,
        expires_at=pending.expires_at,
        answered_at=others.ended_at,
        answered_in=others.closed_by or answered_in,
    )


def _heading(pending: PendingAction, state: CardState) -> str:
    heading = _JOB_EXPIRED if pending.job and state is CardState.EXPIRED else _HEADINGS[state][0]
    return heading if pending.undoes is None else f"Undo: {lowered(heading)}"


def _again(pending: PendingAction, state: CardState) -> str:
    return _ASKED_AGAIN if pending.asked > 1 and state is CardState.WAITING else ""


def says_only_its_card(decision: AgentDecision) -> bool:
    """True if the texts of a decision say no more than the card whose answer it has followed."""
    if decision.authors is None or any(part.author is TextAuthor.MODEL for part in decision.authors.reply):
        return False
    if decision.pending_action is not None or decision.approval is not None or decision.notices:
        return False
    if decision.decision_type is DecisionType.CANCEL_PENDING:
        return True
    done = [one for one in decision.calls_said if one.state is SaidState.DONE]
    return decision.decision_type is DecisionType.EXECUTE_PENDING and 0 < len(done) == len(decision.tool_calls or ())


def _calls(pending: PendingAction, followed: Followed | None) -> Iterable[CardCall]:
    for sequence, one in enumerate(pending.each, start=1):
        said = said_of(one)
        # A plan is no call: what runs under it is said by the turns that make it.
        state = None if followed is None or pending.plan else followed.state_of(sequence)
        after = None if followed is None else followed.calls.get(sequence)
        yield CardCall(
            said=said,
            state=state,
            heading=_HEADINGS[state][0] if state is not None and len(pending.each) > 1 else "",
            result=() if after is None or state not in (CardState.DONE, CardState.UNDONE) else after.result,
            why="" if after is None or state is not CardState.NOT_DONE else after.why,
            tool_name=one.tool_name,
            arguments=one.arguments,
        )


def _of_plan(followed: Followed) -> CardState:
    if followed.plan is None:
        return CardState.ENDED if followed.ended else CardState.WORKING
    return CardState.AGREED if followed.plan is MandateState.OPEN else CardState.ENDED


def _together(states: Iterable[CardState]) -> CardState:
    """Return the state of a card from those of its calls."""
    found = set(states)
    for one in (CardState.WORKING, CardState.UNKNOWN, CardState.WAITS):
        if one in found:
            return one
    if found == {CardState.DONE, CardState.UNDONE}:
        return CardState.UNDONE
    return found.pop() if len(found) == 1 else CardState.PARTLY
